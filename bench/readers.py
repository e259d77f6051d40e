"""What another reader of the same stream costs: beside nchan, nginx's module for publishing.

One stream has 20 events a second, and so many readers of server-sent events. CPU is that of the
server's processes by events and readers, with what the stream itself costs; the spread is the
time from the event at its source to a reader.
"""

import contextlib
import json
import re
import select
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.load import Load, Target, Unavailable
from bench.machine import cpu_s, describe, summary
from bench.measures import Figures, Plan, Row, say
from bench.redis import running_store
from bench.relays import Relay, nginx, own, started
from bench.resume import LOGS

READERS = (1, 100, 1000)
RATE = 20
SECONDS = 10.0
WARM_UP = 20
"""The first events, which are not counted."""
MODULE = "/usr/lib/nginx/modules/ngx_nchan_module.so"
NCHAN = """
load_module {module};
worker_processes 1;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events { worker_connections 20000; }
worker_rlimit_nofile 40000;
http {
  access_log off;
  server {
    listen 127.0.0.1:{port} backlog=4096;
    keepalive_requests 1000000;
    location = /publish { nchan_publisher; nchan_channel_id one; }
    location = /events { nchan_subscriber eventsource; nchan_channel_id one; }
  }
}
"""
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
_NUMBER = re.compile(rb"#(\d+)#")

Emit = Callable[[int], None]
"""Sends the event of a number."""


def run(load: Load, core: int, plan: Plan) -> Row:
    """Measure all servers in rounds, and print a line for each number of readers."""
    row, names = Row(own("seseragi, readers", path="/v1/chat")), ["nchan", *LOGS]
    for number in range(plan.rounds):
        for name in names:
            if plan.parts and name not in plan.parts:
                continue
            say(f"round {number + 1} of {plan.rounds}: {name}")
            try:
                row.add(_measure(name, load, core))
            except Unavailable as fault:
                row.fail(fault)
    found = {name: statistics.median(values) for name, values in row.rounds.items()}
    print(f"| µs a reader and event; p99, ms | {' | '.join(names)} |")
    print(f"|{'---|' * (1 + len(names))}\n{summarize(found)}\n{summary(describe())}")
    return row


def summarize(found: Mapping[str, float]) -> str:
    """Return the rows of the documents' table."""
    lines = []
    for count in READERS:
        cells = [_cell(found, f"{name}_{count}") for name in ("nchan", *LOGS)]
        lines.append(f"| {count:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(found: Mapping[str, float], key: str) -> str:
    if f"{key}_us" not in found:
        return ""
    return f"{found[f'{key}_us']:.1f}; {found[f'{key}_p99_ms']:.1f}"


def _measure(name: str, load: Load, core: int) -> Figures:
    figures: Figures = {}
    for count in READERS:
        with _serving(name, load, core) as (target, emit, path):
            cpu, delays = _read(target, path, emit, count)
        figures[f"{name}_{count}_us"] = 1e6 * cpu / len(delays)
        figures[f"{name}_{count}_p99_ms"] = 1e3 * statistics.quantiles(delays, n=100)[-1]
    return figures


@contextlib.contextmanager
def _serving(name: str, load: Load, core: int) -> Iterator[tuple[Target, Emit, str]]:
    """Run a server with a stream that begins, and return what sends its events."""
    with contextlib.ExitStack() as stack:
        if name == "nchan":
            target = stack.enter_context(started(_nchan(), 0, core))
            publisher = stack.enter_context(_connected(target))
            yield target, lambda number: _publish(publisher, number), "/events"
            return
        log = LOGS[name] or stack.enter_context(running_store(load)).url
        source = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        relay = own(log=log, max_readers="20000")
        target = stack.enter_context(started(relay, source.getsockname()[1], core))
        stream = _begin(target)
        source.settimeout(20)
        provider = stack.enter_context(contextlib.closing(source.accept()[0]))
        provider.recv(65536)
        provider.sendall(_HEAD)
        yield target, lambda number: provider.sendall(_token(number)), stream


def _nchan() -> Relay:
    plain = nginx()
    if plain is None or not Path(MODULE).exists():
        raise Unavailable("no nchan: apt-get install nginx-light libnginx-mod-nchan")
    text = NCHAN.replace("{module}", MODULE)
    return Relay("nchan", plain.command, files={"nginx.conf": text}, version=plain.version)


def _connected(target: Target) -> socket.socket:
    return socket.create_connection(("127.0.0.1", target.port), 20)


def _publish(connection: socket.socket, number: int) -> None:
    body = _token(number).removeprefix(b"data: ").strip()
    head = f"POST /publish HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    connection.recv(65536)


def _token(number: int) -> bytes:
    delta = {"index": 0, "delta": {"content": f" #{number}#"}}
    return b"data: %b\n\n" % json.dumps({"id": "c", "choices": [delta]}).encode()


def _begin(target: Target) -> str:
    """Start a stream, and return the path of its events."""
    body = json.dumps({"model": target.model, "messages": [{"role": "user", "content": "hello"}]})
    head = "POST /v1/chat HTTP/1.1\r\nhost: localhost\r\nprefer: respond-async\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with _connected(target) as connection:
        connection.sendall((head + body).encode())
        reply = connection.recv(65536)
    if (found := re.search(rb"stream-id: (\S+)", reply)) is None:
        raise Unavailable(f"no stream was started: {reply[:300]!r}")
    return f"/v1/streams/{found[1].decode()}/events"


def _read(target: Target, path: str, emit: Emit, count: int) -> tuple[float, Sequence[float]]:
    """Let readers read; return the server's CPU, and the delay of each event at each reader.

    Raises:
        Unavailable: a reader has missed an event.
    """
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n"
    sent: list[float] = []
    delays: list[float] = []
    with contextlib.ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        readers: dict[int, socket.socket] = {}
        for _ in range(count):
            reader = stack.enter_context(_connected(target))
            reader.sendall(request.encode())
            readers[reader.fileno()] = reader
            poll.register(reader, select.EPOLLIN)

        def receive(until: float) -> None:
            while (left := until - time.perf_counter()) > 0:
                for fd, _ in poll.poll(left):
                    data, now = readers[fd].recv(65536), time.perf_counter()
                    if not data:
                        raise Unavailable(f"{path} has ended")
                    numbers = map(int, _NUMBER.findall(data))
                    delays.extend(now - sent[one] for one in numbers if one >= WARM_UP)

        receive(time.perf_counter() + 1)
        cpu, counted = 0.0, int(RATE * SECONDS)
        for number in range(WARM_UP + counted):
            if number == WARM_UP:
                receive(time.perf_counter() + 0.5)
                cpu = -_cpu_of(target)
            sent.append(time.perf_counter())
            emit(number)
            receive(sent[-1] + 1 / RATE)
        receive(time.perf_counter() + 0.5)
        cpu += _cpu_of(target)
    if len(delays) != count * counted:
        raise Unavailable(f"{count * counted - len(delays)} events were not read")
    return cpu, delays


def _cpu_of(target: Target) -> float:
    """Return the CPU of a server and its children."""
    assert target.pid is not None  # noqa: S101  (for mypy)
    pids = Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text().split()
    return sum(map(cpu_s, [target.pid, *map(int, pids)]))
