"""How long a client that reconnects waits for the first byte that it missed.

A stream of each length is read in every format, and has ended; over SQLite and Redis it has also
left the relay's memory. Then clients come over new connections, each with the id of one of the last
thousand frames. CPU is that of the relay, for the resume and the rest of the answer.
"""

import contextlib
import http.client
import json
import random
import socket
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence

from app.dialects.client_formats import CLIENT_FORMATS
from app.testing.upstream import DONE, FINISH, Step, Upstream, head, send, start_upstream, text
from bench.load import Load, Target, Unavailable
from bench.machine import cpu_s, describe, summary
from bench.measures import Figures, Plan, Row, say
from bench.redis import running_store
from bench.relays import own, started

LOGS = {"memory": "memory", "sqlite": "sqlite:///{folder}/log.db", "redis": ""}
LENGTHS = (1_000, 10_000, 100_000)
RESUMES = 100
"""Of each format, length and log in a round."""
LAST = 1000
SETTLE_S = 11
"""The owner of a stream over Redis has it in memory for 10 s after its end."""
TIMEOUT_S = 60


def run(load: Load, core: int, plan: Plan) -> Row:
    """Measure all logs in rounds, and print a line a format and length."""
    row = Row(own("seseragi, resume", path="/v1/chat"))
    for number in range(plan.rounds):
        for log in LOGS:
            if not plan.parts or log in plan.parts:
                say(f"round {number + 1} of {plan.rounds}: {log}")
                try:
                    row.add(_measure(log, load, core))
                except Unavailable as fault:
                    row.fail(fault)
    found = {name: statistics.median(values) for name, values in row.rounds.items()}
    print(f"| p50 / p99 (CPU), ms | tokens | {' | '.join(LOGS)} |\n|{'---|' * (2 + len(LOGS))}")
    for client_format in CLIENT_FORMATS:
        for length in LENGTHS:
            cells = [_cell(found, [f"{log}_{client_format}_{length}"], cpu=True) for log in LOGS]
            print(f"| {client_format} | {length:,} | {' | '.join(cells)} |")
    print(summary(describe()))
    return row


def summarize(found: Mapping[str, float]) -> str:
    """Return the rows of the documents' table: the slowest dialect's figures stand for all."""
    lines = []
    for title, formats in (
        ("native", ["native"]),
        ("slowest dialect", [name for name in CLIENT_FORMATS if name != "native"]),
    ):
        for length in LENGTHS:
            keys = [[f"{log}_{name}_{length}" for name in formats] for log in LOGS]
            cells = " | ".join(_cell(found, names) for names in keys)
            lines.append(f"| {title} | {length:,} | {cells} |")
    return "\n".join(lines)


def _cell(found: Mapping[str, float], keys: Sequence[str], *, cpu: bool = False) -> str:
    if f"{keys[0]}_p50_ms" not in found:
        return ""
    p50, p99, cpu_ms = (max(found[f"{key}_{one}_ms"] for key in keys) for one in FIGURES)
    return f"{p50:.1f} / {p99:.1f}" + f" ({cpu_ms:.1f})" * cpu


FIGURES = ("p50", "p99", "cpu")


def _measure(name: str, load: Load, core: int) -> Figures:
    """Measure the resumes over one log."""
    figures: Figures = {}
    with contextlib.ExitStack() as stack:
        log = LOGS[name] or stack.enter_context(running_store(load)).url
        upstream = stack.enter_context(start_upstream())
        target = stack.enter_context(started(own(log=log), upstream.port, core))
        streams = {length: _begin(target, upstream, length) for length in LENGTHS}
        kinds = [
            (length, client_format, _read(target, stream, client_format))
            for length, stream in streams.items()
            for client_format in CLIENT_FORMATS
        ]
        if name != "memory":
            time.sleep(SETTLE_S)
        for length, client_format, ids in kinds:
            waits, cpu = _resume(target, streams[length], client_format, ids)
            values = statistics.median(waits), statistics.quantiles(waits, n=100)[-1], cpu
            for figure, value in zip(FIGURES, values, strict=True):
                figures[f"{name}_{client_format}_{length}_{figure}_ms"] = value * 1e3
    return figures


def _begin(target: Target, upstream: Upstream, length: int) -> str:
    """Produce a stream of this many tokens, and return its id."""
    steps: list[Step] = [head()]
    for begin in range(0, length, 1000):
        tokens = range(begin, min(begin + 1000, length))
        steps.append(send("".join(text(f" token {number}") for number in tokens)))
    upstream.script = [*steps, send(FINISH + DONE)]
    body = {"model": target.model, "messages": [{"role": "user", "content": "hello"}]}
    with _answer(target, "POST", "/v1/chat", {"prefer": "respond-async"}, body) as answer:
        stream: str = json.loads(answer.read())["id"]
    if len(ids := _read(target, stream, "native")) < length:
        raise Unavailable(f"the stream has {len(ids)} events instead of {length}")
    return stream


def _read(target: Target, stream: str, client_format: str) -> Sequence[str]:
    """Read a stream in a format, and return the ids of its frames."""
    with _answer(target, "GET", f"/v1/streams/{stream}/events?format={client_format}") as answer:
        lines = answer.read().split(b"\n")
    return [line.removeprefix(b"id: ").decode() for line in lines if line.startswith(b"id: ")]


def _resume(
    target: Target, stream: str, client_format: str, ids: Sequence[str]
) -> tuple[list[float], float]:
    """Reconnect with several cursors; return the seconds of each, and the relay's CPU of one."""
    assert target.pid is not None  # noqa: S101  (for mypy)
    dice, path = random.Random(1), f"/v1/streams/{stream}/events?format={client_format}&suffix"
    before = cpu_s(target.pid)
    cuts = [dice.randrange(max(0, len(ids) - LAST), len(ids) - 1) for _ in range(RESUMES)]
    waits = [_first_byte(target, path, last=ids[cut], missed=ids[cut + 1]) for cut in cuts]
    return waits, (cpu_s(target.pid) - before) / RESUMES


def _first_byte(target: Target, path: str, *, last: str, missed: str) -> float:
    """Return the seconds from the connection to the first missed frame."""
    lines = f"GET {path} HTTP/1.1", "host: localhost", "connection: close", f"last-event-id: {last}"
    request = "".join(f"{line}\r\n" for line in (*lines, "")).encode()
    found, began = b"", time.perf_counter()
    with socket.create_connection(("127.0.0.1", target.port), TIMEOUT_S) as connection:
        connection.sendall(request)
        while b"\nid: " not in found.partition(b"\r\n\r\n")[2]:
            if not (piece := connection.recv(65536)):
                raise Unavailable(f"{path} ended: {found[:300]!r}")
            found += piece
        seconds = time.perf_counter() - began
        while connection.recv(2**20):
            pass  # else the next client waits until this one is served
    first = found.partition(b"\nid: ")[2].partition(b"\n")[0].decode()
    if first != missed:
        raise Unavailable(f"{path} after {last}: got {first} instead of {missed}")
    return seconds


@contextlib.contextmanager
def _answer(
    target: Target,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: object = None,
) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        data = None if body is None else json.dumps(body)
        connection.request(
            method, path, data, {"content-type": "application/json"} | {**(headers or {})}
        )
        answer = connection.getresponse()
        if answer.status >= 300:
            raise Unavailable(f"{method} {path}: {answer.status} {answer.read(300)!r}")
        yield answer
