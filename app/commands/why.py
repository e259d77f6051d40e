"""`seseragi why ID`: explains the course of one answer and why it stopped."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import httpx2
import msgspec

from ..dialects.client_formats import CLIENT_FORMATS
from ..errors import CODES
from ..ledger.rates import to_usd
from ..settings import SettingsError, load_scalar
from ..settings.identity import CLIENT_KEY
from .terminal import add_config, escape

FOUND, NOT_FOUND, NOT_TRIED = 0, 1, 2

TIMEOUT_S: Final = 10.0
MAX_BODY: Final = 64 * 2**20
"""The most bytes of a relay's reply: the longest answers of its log."""
MAX_LINE: Final = 2**20
MAX_LINES: Final = 40
"""The most lines of a log file that are printed besides attempts and the end."""
LAST: Final = 4e9
"""The year 2096, in unix seconds."""
NOTICE: Final = b'data: {"type":"notice"'
STREAM: Final = re.compile(r"st_[\w-]{1,100}", re.ASCII)
ID: Final = re.compile(r"[!-~]{1,128}")

_FILE: Final = Path(__file__).with_name("why.toml").read_bytes()
ADVICE: Final = msgspec.toml.decode(_FILE, type=dict[str, dict[str, str]])
"""Advice by the fact that it is for, and its value."""
OTHERWISE: Final = "Try again, or add a target to the route, or raise its attempts."
LEFT: Final = " But its client left, or was cut off, before the end: run `seseragi doctor URL`."
_NOT_OURS: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Errors of parsing the reply of a server that is not a relay."""


class Story:
    """The facts on one stream from all sources, and its steps with their times."""

    def __init__(self, name: str) -> None:
        self.facts: dict[str, Any] = {"stream" if STREAM.fullmatch(name) else "request_id": name}
        self.steps: dict[str, tuple[float, str]] = {}
        self.found = False

    def learn(self, fields: Mapping[str, Any], *names: str) -> None:
        """Add facts; the first source of a fact has precedence."""
        self.found = True
        for name in names:
            if fields.get(name) not in (None, ""):
                self.facts.setdefault(name, fields[name])

    def note(self, what: str, at: float | None, *notes: Any) -> None:
        """Add a step, unless an earlier source has added it."""
        if at is not None and 0 <= at < LAST:
            words = (str(one) for one in notes if one not in (None, ""))
            self.steps.setdefault(what, (at, ", ".join(words)))

    def note_whole(self, began: float | None, first_s: Any, ended: float | None) -> None:
        """Add the start, the first event and the end, from the facts."""
        facts = self.facts
        self.note("start", began, f"request for {facts.get('model')}")
        if began is not None and (after := _number(first_s)) is not None:
            self.note("first", began + after, f"{facts.get('target')} began to answer")
        notes = dict.fromkeys(facts.get(name) for name in ("status", "code", "finish_reason"))
        kinds, cost, by = ("input", "output"), facts.get("cost"), facts.get("ended_by")
        counts = {kind: facts.get(f"{kind}_tokens") for kind in kinds}
        used = (f"{count} {kind} tokens" for kind, count in counts.items() if count is not None)
        self.note("end", ended, *notes, by and f"ended by {by}", *used, cost and f"{cost} USD")


FACTS: Final = (
    *("stream", "request_id", "tenant", "user", "key", "model", "target", "status", "code"),
    *("ended_by", "finish_reason", "input_tokens", "output_tokens", "cost"),
    *("upstream_request_id", "client_format", "first_event_s"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments to a parser."""
    parser.description = (
        "Explain what happened to an answer and why it stopped, from a relay, the records or the "
        "relay's log."
    )
    parser.epilog = "exit status: 0 found, 1 not found, 2 a source could not be read"
    parser.add_argument("id", metavar="ID", help="id of a stream (st_...) or a request")
    parser.add_argument("--url", metavar="URL", help="a relay with the stream in its log")
    parser.add_argument(
        "--key", help=f"API key of that relay (default: {CLIENT_KEY} of the environment)"
    )
    parser.add_argument(
        "--records", metavar="URL", help="database of the records (default: that of the settings)"
    )
    parser.add_argument(
        "--log-file", metavar="PATH", help="the relay's log in JSON; - for standard input"
    )
    add_config(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Query all sources, print the story, and return the exit status.

    Raises:
        SettingsError: an argument or the settings cannot be used, or there is nowhere to look.
    """
    if not ID.fullmatch(options.id):
        raise SettingsError("ID: not an id of a stream (st_...) or a request")
    story, places = Story(options.id), dict[str, Callable[[], None]]()
    records = options.records or load_scalar("records", environ, config=options.config)
    key = options.key or environ.get(CLIENT_KEY, "")
    if options.log_file:  # first: it maps a request to its stream
        places[f"the log {options.log_file!r}"] = lambda: _read_log(story, options.log_file)
    if records:
        places["the records"] = lambda: _read_records(story, records)
    if options.url:
        places["the relay"] = lambda: _ask_relay(story, options.url, key)
    if not places:
        raise SettingsError("no source to search; give --url, --records or --log-file")
    failures = 0
    for place, look in places.items():
        try:
            look()
        except SettingsError as error:
            failures += 1
            print(escape(f"seseragi: {place}: {error}"), file=sys.stderr)
    if story.found:
        print("\n".join(map(escape, _render(story))))
        return FOUND
    if failures < len(places):
        looked = escape(" or ".join(places))
        print(f"seseragi: {options.id!r} is not in {looked}", file=sys.stderr)
    return NOT_TRIED if failures else NOT_FOUND


def _render(story: Story) -> Iterator[str]:
    facts = story.facts
    yield ", ".join(f"{name} {facts[name]}" for name in FACTS[:6] if name in facts)
    for at, text in sorted(story.steps.values(), key=lambda step: step[0]):
        yield f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + f"Z  {text}"
    yield conclude(facts)


def conclude(facts: Mapping[str, Any]) -> str:
    """Return the cause of the end and the remedy, in a sentence or two."""
    code, by, status = (str(facts.get(name) or "") for name in ("code", "ended_by", "status"))
    title = CODES[code].title if code in CODES else code
    if status in ("", "running"):
        if status:
            return "It is still running."
        more = f" {ADVICE['code'][code]}" if code in ADVICE["code"] else ""
        refused = f"The request was refused: {title} ({code}).{more}"
        return refused if code else "Its end is not known."
    if by in ADVICE["ended_by"]:
        return ADVICE[_case(by, facts)].get(by, ADVICE["ended_by"][by])
    if status == "completed":
        reason = str(facts.get("finish_reason"))
        advice = ADVICE["finish_reason"] | ADVICE.get(f"finish_reason.{_format(facts)}", {})
        more = advice.get(reason, "It did not stop early.")
        return f"The answer is complete. {more}{LEFT if facts.get('cut') else ''}"
    cause = f"The provider failed: {title} ({code})." if code else f"It is {status}."
    known = facts.get("upstream_request_id")
    call = f" The provider's request id is {known}." if known else ""
    return f"{cause} {ADVICE['code'].get(code, OTHERWISE)}{call}"


def _format(facts: Mapping[str, Any]) -> str:
    return str(facts.get("client_format") or "")


def _case(by: str, facts: Mapping[str, Any]) -> str:
    """Return the table of advice for an end by `by`."""
    known = CLIENT_FORMATS.get(_format(facts))
    if by == "reader_gone" and known is not None and not known.lingers:
        return "at_once"
    if by == "deadline" and facts.get("status") == "failed" and "first_event_s" not in facts:
        return "no_event"
    return "ended_by"


def _read_log(story: Story, path: str) -> None:
    try:
        with open(path, "rb") if path != "-" else nullcontext(sys.stdin.buffer) as file:
            _read_lines(story, file)
    except OSError as error:
        raise SettingsError(f"cannot be read: {error.strerror or error}") from None


def _read_lines(story: Story, file: IO[bytes]) -> None:
    known, count = set(story.facts.values()), 0
    while line := file.readline(MAX_LINE):
        if not any(name.encode() in line for name in known):
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):  # of the console format, or above MAX_LINE
            continue
        if not isinstance(fields, dict):
            continue
        stream, request = fields.get("stream") or "", fields.get("request_id") or ""
        if not (isinstance(stream, str) and isinstance(request, str)):
            continue
        # If a client reuses a request id, the stream of the first request counts.
        if known & {stream, request} and stream in ("", story.facts.get("stream", stream)):
            # An access line may be of any reader's request.
            known |= {stream} if fields.get("event") == "request" else {stream, request}
            known.discard("")
            count += 1
            if count <= MAX_LINES or fields.get("event") in ("attempt failed", "stream ended"):
                _read_line(story, fields, count)


def _read_line(story: Story, fields: Mapping[str, Any], number: int) -> None:
    """Add one line of the log."""
    at, reply = _time(fields.get("timestamp")), fields.get("http_status")
    match fields.get("event"):
        case "attempt failed":
            story.learn(fields, "stream", "request_id", "upstream_request_id")
            what, after = f"attempt {fields.get('attempt')}", fields.get("attempt_s")
            failed = f"{what} at {fields.get('target')} failed"
            failed += f" after {after} s" if after else ""
            words = map(fields.get, ("code", "provider_message", "cause", "then"))
            story.note(what, at, failed, reply and f"HTTP {reply}", *words)
        case "stream ended":
            story.learn({**fields, "target": fields.get("upstream")}, *FACTS)
            lasted, first_s = _number(fields.get("duration_s")) or 0, fields.get("first_event_s")
            story.note_whole(None if at is None else at - lasted, first_s, at)
        case "request":
            story.learn(fields, "stream", "tenant", "user", "key")
            if not fields.get("stream"):
                story.learn(fields, "request_id", "code")
            story.facts["cut"] = fields.get("complete") is False
            size = f"{fields.get('bytes')} bytes" + (
                ", not to its end" if story.facts["cut"] else ""
            )
            request = f"{fields.get('method')} {fields.get('path')}: {fields.get('status')}"
            story.note(f"line {number}", at, request, fields.get("code"), size)
        case event:
            story.learn(fields, "stream")
            story.note(f"line {number}", at, fields.get("level"), event, fields.get("error"))


def _read_records(story: Story, url: str) -> None:
    try:
        from ..records.queries import find
        from .records import look
    except ImportError:
        raise SettingsError("SQLAlchemy is not installed: pip install '.[records]'") from None
    name = story.facts.get("stream") or story.facts["request_id"]
    for row in look(url, lambda database: find(database, name))[:1]:
        cost = None if row["nano_usd"] is None else to_usd(row["nano_usd"])
        story.learn({**row, "model": row["route"], "cost": cost}, *FACTS)
        story.note_whole(row["started_at"], row["first_event_s"], row["ended_at"])


def _ask_relay(story: Story, url: str, key: str) -> None:
    if not STREAM.fullmatch(stream := str(story.facts.get("stream"))):
        raise SettingsError("give the id of the stream (st_...), or --log-file with the request")
    place = f"{url.rstrip('/')}/v1/streams/{stream}"
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx2.Client(timeout=TIMEOUT_S, headers=headers) as client:
            if shown := _fetch(client, place):
                fields = json.loads(shown)
                runs = fields["status"] == "running"
                _take(story, fields, b"" if runs else _fetch(client, f"{place}/events"))
    except (httpx2.HTTPError, httpx2.InvalidURL, *_NOT_OURS) as error:
        raise SettingsError(f"does not answer as a relay ({type(error).__name__})") from None


def _take(story: Story, fields: Mapping[str, Any], events: bytes) -> None:
    """Add the facts of a stream from a relay, and the notices among its events."""
    target, timings = fields.get("target") or {}, fields.get("timings") or {}
    more: dict[str, Any] = {"first_event_s": 0} if fields.get("blocks") else {}  # not known when
    more |= {"target": f"{target['upstream']}/{target['model']}"} if target else {}
    error, usage = fields.get("error") or {}, fields.get("usage") or {}
    began, ended = (_number(timings.get(name)) for name in ("started_at", "ended_at"))
    story.learn({**usage, **error, **fields, **more}, *FACTS)
    story.note_whole(began, 0 if target and "first" not in story.steps else None, ended)
    if "attempt 1" not in story.steps:  # the log has more details
        lines = (line[6:] for line in events.split(b"\n") if line.startswith(NOTICE))
        for number, notice in enumerate(map(json.loads, lines)):
            story.note(f"notice {number}", began, notice["code"], notice["message"])


def _fetch(client: httpx2.Client, url: str) -> bytes:
    """Return the body; empty for 404 and 410."""
    with client.stream("GET", url) as reply:
        if reply.status_code in (404, 410):
            return b""
        if reply.status_code in (401, 403):
            raise SettingsError(f"requires the stream's or an admin's key: --key or {CLIENT_KEY}")
        if reply.status_code != 200:
            raise SettingsError(f"answers with status {reply.status_code}")
        body = bytearray()
        for piece in reply.iter_bytes():
            body += piece
            if len(body) > MAX_BODY:
                raise SettingsError(f"answers with more than {MAX_BODY} bytes")
        return bytes(body)


def _time(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and 0 <= value < LAST else None
