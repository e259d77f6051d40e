"""What a relayed token costs: microseconds of the relay's CPU, by the log that keeps it.

    python -m bench [--streams 100] [--tokens 200] [--gap 0.05] [--rounds 3]

The relay has one core, the upstream and the readers another. Rounds of the variants take
turns, since machines differ from minute to minute: believe the ratios of one run.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REQUEST = b'{"model":"openai/m","messages":[{"role":"user","content":"go"}]}'
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@contextmanager
def started(*command: str, core: int, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command on one core; its first line of output has been printed when this yields."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", *command],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if command[0] != "app" else subprocess.PIPE,
        text=True,
    )
    try:
        os.sched_setaffinity(process.pid, {core})
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=20)


def cpu_s(pid: int) -> float:
    """User and system time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def memory_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


async def read_stream(port: int) -> float:
    """Read one answer; give the seconds to its first token."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    started_at = time.perf_counter()
    writer.write(
        b"POST /v1/chat HTTP/1.1\r\nhost: b\r\nconnection: close\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(REQUEST), REQUEST)
    )
    first, tail = 0.0, b""
    while data := await reader.read(65536):
        if not first and b"text.delta" in data:
            first = time.perf_counter() - started_at
        tail = (tail + data)[-400:]
    writer.close()
    if b'"status":"completed"' not in tail:
        raise RuntimeError(f"a stream did not complete: {tail[-200:]!r}")
    return first


async def read_all(port: int, streams: int) -> list[float]:
    return await asyncio.gather(*(read_stream(port) for _ in range(streams)))


def measure(log: str, upstream_port: int, *, streams: int, tokens: int) -> dict[str, float]:
    """Relay so many streams at once; give the cost of a token and the time to the first."""
    variables = {
        "OPENAI_API_KEY": "sk-bench",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{upstream_port}",
        "SESERAGI_LOG_FORMAT": "json",
    }
    with started("app", "--port", "0", "--log", log, core=0, **variables) as relay:
        assert relay.stderr is not None  # noqa: S101
        port = int(json.loads(relay.stderr.readline())["url"].rpartition(":")[2])
        asyncio.run(read_all(port, 2))  # what is done once only
        before, memory = cpu_s(relay.pid), memory_kib(relay.pid)
        firsts = asyncio.run(read_all(port, streams))
        spent = cpu_s(relay.pid) - before
        return {
            "us_per_token": spent / (streams * tokens) * 1e6,
            "first_ms": statistics.median(firsts) * 1e3,
            "memory_kib_per_stream": (memory_kib(relay.pid) - memory) / streams,
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--gap", type=float, default=0.05, help="seconds between tokens")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    found: dict[str, list[dict[str, float]]] = {"memory": [], "sqlite": []}
    upstream = ("bench.upstream", str(options.tokens), str(options.gap))
    with started(*upstream, core=1) as process, tempfile.TemporaryDirectory() as folder:
        assert process.stdout is not None  # noqa: S101
        port = int(process.stdout.readline())
        for number in range(options.rounds):
            for log, rounds in found.items():
                url = log if log == "memory" else f"sqlite:///{folder}/{number}.db"
                rounds.append(measure(url, port, streams=options.streams, tokens=options.tokens))
    print(f"{options.streams} streams of {options.tokens} tokens, one every {options.gap:g} s")
    print(f"{'log':8} {'us a token':>11} {'ratio':>6} {'first token, ms':>16} {'KiB a stream':>13}")
    base = statistics.median(row["us_per_token"] for row in found["memory"])
    for log, rounds in found.items():
        cost, first, memory = (
            statistics.median(row[name] for row in rounds)
            for name in ("us_per_token", "first_ms", "memory_kib_per_stream")
        )
        print(f"{log:8} {cost:11.1f} {cost / base:6.2f} {first:16.1f} {memory:13.1f}")


if __name__ == "__main__":
    main()
