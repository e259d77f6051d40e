"""Runs the client cases: serves each one's bytes, and judges what the client reports and asks."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .adapter import Adapter, AdapterError
from .cases import Case
from .loopback import Exchange, Loopback
from .results import SHOWN, Result, result
from .wire import STREAM, Event, event_id, last_number, render, streams

REQUEST = {"model": "demo", "messages": [{"role": "user", "content": "こんにちは"}]}

GRACE_S = 0.3
"""How long requests that come after the last report are awaited."""

EARLY = 0.9
"""A client may come back after this share of `retry:`, for clocks that differ."""


@dataclass
class Run:
    """One run of a case; a case that varies has many."""

    case: Case
    what: str
    """Names the run among those of its case."""
    exchange: Exchange
    cursor: int
    """The last event that the first answer had whole."""
    report: dict[str, Any] | None = None
    fault: str = ""


def run_clients(command: str, cases: list[Case], *, timeout_s: float) -> list[Result]:
    """Run the cases over a command and return a result for each."""
    runs: list[list[Run]] = []
    with Loopback() as server, Adapter(command, timeout_s=timeout_s) as adapter:
        for case in cases:
            runs.append([])
            wrong_runs = 0
            for run in runs_of(case):
                runs[-1].append(run)
                path = f"{len(server.exchanges) + 1}"
                server.exchanges[path] = run.exchange
                try:
                    run.report = adapter.ask(line_of(case, f"{server.url}/{path}"))
                except AdapterError as error:
                    run.fault = str(error)
                if run.fault or "not_verified" in (run.report or {}):
                    break
                wrong_runs += any(problems_of(run))
                if wrong_runs >= SHOWN:
                    break
        time.sleep(GRACE_S)
    return [judge(case, found) for case, found in zip(cases, runs, strict=True)]


def line_of(case: Case, base: str) -> dict[str, Any]:
    """Return what the client is asked."""
    line: dict[str, Any] = {
        "case": case["name"],
        "action": case.get("action", "read"),
        "needs": case.get("needs", []),
    }
    if line["action"] == "chat":
        return line | {"url": f"{base}/v1/chat", "request": REQUEST}
    after = case.get("after")
    query = "?from=snapshot" if "snapshot" in line["needs"] else ""
    url = f"{base}/v1/streams/{STREAM}/events{query}"
    return line | {"url": url, "after": None if after is None else event_id(after)}


def runs_of(case: Case) -> Iterator[Run]:
    """Yield the runs of a case: one, or one for each byte that its first answer is cut after.

    A frame with only `retry:` is not cut: without it each client waits for a time of its own.
    """
    answers, stream = case.get("answers", []), case.get("stream", "hello")
    after = case.get("after") or 0
    first = answers[0] if answers else {}
    body = render(first, stream=stream, after=after)
    vary = case.get("vary")
    if vary is None:
        cursor = max(after, last_number(body.data))
        yield Run(case, "", Exchange(answers, stream), cursor)
        return
    data = body.data
    begin = data.index(b"\n\n") + 2 if data.startswith(b"retry:") else 0
    for size in range(begin, len(data) + 1):
        varied = body.kept(size) if vary == "cut" else body.split(size)
        exchange = Exchange(answers, stream, bodies={0: varied})
        cursor = max(after, last_number(varied.data))
        yield Run(case, f"{vary} after byte {size}: ", exchange, cursor)


def judge(case: Case, runs: list[Run]) -> Result:
    """Compare what came with what the case expects."""
    problems: list[str] = []
    for run in runs:
        if run.report is not None and "not_verified" in run.report:
            reason = str(run.report["not_verified"])
            return Result(case["name"], tuple(case["requires"]), "not verified", (reason,))
        found = [run.fault] if run.fault else [*problems_of(run)]
        problems += [run.what + problem for problem in found]
    return result(case["name"], case["requires"], problems)


def problems_of(run: Run) -> Iterator[str]:
    case, report = run.case, run.report or {}
    expect = case.get("expect", {})
    events = expected_events(case)
    yield from wrong_events(events, report.get("events"))
    required = [event for _, event, optional in events if not optional]
    status = next((one["status"] for one in required if one["type"] == "stream.end"), None)
    yield from differs("status", status, report.get("status"))
    yield from differs("text", text_of(required), report.get("text"))
    error = report.get("error")
    if status is None and not error:
        yield "error: the end was not seen, and no error is reported"
    if status is not None and error:
        yield f"error: the stream is whole, but {error!r} is reported"
    if "error" in expect:
        yield from differs("error", expect["error"], error)
    if "calls" in expect:
        yield from differs("calls", expect["calls"], report.get("calls"))
    yield from wrong_requests(run, expect)


def expected_events(case: Case) -> list[tuple[str, Event, bool]]:
    """Return the ids and events to report, and whether each may be left out."""
    stream = streams()[case.get("stream", "hello")]
    chosen = case.get("expect", {}).get("events")
    if chosen is None:
        chosen = range((case.get("after") or 0) + 1, len(stream) + 1)
    found = []
    for one in chosen:
        if isinstance(one, int):
            found.append((event_id(one), stream[one - 1], False))
        else:
            found.append((one["id"], one["event"], one.get("optional", False)))
    return found


def wrong_events(expected: list[tuple[str, Event, bool]], found: object) -> Iterator[str]:
    if not isinstance(found, list):
        yield f"events: expected a list, got {found!r}"
        return
    reported = [known(one) for one in found]
    for place, (name, event, optional) in enumerate(expected, start=1):
        wanted = (name, event)
        if reported and reported[0] == wanted:
            reported.pop(0)
        elif not optional:
            got = reported[0] if reported else "no more"
            yield f"events: expected {wanted} as number {place}, got {got}"
            return
    if reported:
        yield f"events: {len(reported)} too many, first {reported[0]}"


def known(reported: object) -> tuple[object, object]:
    """Return the id and the event of one report, without fields that a client may ignore."""
    if not isinstance(reported, dict):
        return None, reported
    event = reported.get("event")
    if isinstance(event, dict):
        event = {name: value for name, value in event.items() if not name.startswith("x_")}
    return reported.get("id"), event


def text_of(events: list[Event]) -> str:
    """Return the text of choice 0."""
    return "".join(
        event["text"]
        for event in events
        if event["type"] == "text.delta" and not event.get("choice")
    )


def differs(what: str, expected: object, found: object) -> Iterator[str]:
    if expected != found:
        yield f"{what}: expected {expected!r}, got {found!r}"


def wrong_requests(run: Run, expect: dict[str, Any]) -> Iterator[str]:
    """Compare the requests with `METHOD CURSOR` lines, `last` for the last whole event."""
    usual = "POST 0" if run.case.get("action") == "chat" else f"GET {run.case.get('after') or 0}"
    expected = [line.replace("last", f"{run.cursor}") for line in expect.get("requests", [usual])]
    asked = run.exchange.asked
    yield from differs("requests", expected, [f"{one.method} {one.cursor}" for one in asked])
    for one in asked:
        place = "/v1/chat" if one.method == "POST" else f"/v1/streams/{STREAM}/events"
        if one.path.split("/", 2)[2] != place[1:]:
            yield f"requests: {one.method} goes to {one.path!r}, not to {place!r}"
    if "wait_ms" in expect and len(asked) > 1:
        waited = (asked[1].at - run.exchange.ended_at[0]) * 1000
        if waited < expect["wait_ms"] * EARLY:
            yield f"requests: the second came after {waited:.0f} ms, not {expect['wait_ms']} ms"
