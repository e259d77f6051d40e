"""Runs the server cases: sends each one's requests, and judges the answers."""

import http.client
import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from .cases import Case
from .checks import CHECKS, OF_NO_EVENTS, Answer
from .results import Result, result

REPORTED = 300
"""The length of a body in a report."""


class Session:
    """The requests of one case, and what later ones may name of their answers."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float) -> None:
        self._parts = urlsplit(url if "://" in url else f"http://{url}")
        self._headers = headers
        self._timeout_s = timeout_s
        self.answers: list[Answer] = []
        self.names = {
            "key": secrets.token_hex(8),
            "origin": f"{self._parts.scheme}://{self._parts.netloc}",
            "path": self._parts.path.rstrip("/"),
        }

    def ask(self, step: dict[str, Any]) -> Answer:
        """Send a request and read its answer, or as much of it as the step wants."""
        method, target = self.fill(step["do"]).split(" ", 1)
        headers = {**self._headers, **step.get("headers", {})}
        body = None
        if "json" in step:
            body = self.fill(json.dumps(expanded(step["json"]))).encode()
            headers = {"content-type": "application/json", **headers}
        elif "text" in step:
            body = step["text"].encode()
        is_https = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
        connection = kind(self._parts.netloc, timeout=self._timeout_s)
        try:
            named = {name: self.fill(value) for name, value in headers.items()}
            connection.request(method, self._parts.path.rstrip("/") + target, body, named)
            reply = connection.getresponse()
            data, is_cut = self._read(reply, step)
        finally:
            connection.close()
        found = {name.lower(): value for name, value in reply.getheaders()}
        answer = Answer(reply.status, found, data, is_cut=is_cut, is_left="until" in step)
        self.answers.append(answer)
        self._note(answer)
        return answer

    def _read(self, reply: http.client.HTTPResponse, step: dict[str, Any]) -> tuple[bytes, bool]:
        until = step.get("until", "").encode()
        deadline = time.monotonic() + self._timeout_s
        data = b""
        try:
            while piece := reply.read1(65_536):
                data += piece
                if (until and until in data) or time.monotonic() > deadline:
                    break
        except TimeoutError:
            return data, True
        except http.client.HTTPException:
            return data, True
        return data, not until and time.monotonic() > deadline

    def fill(self, text: str) -> str:
        """Replace `<name>` in a text by what is known under that name."""
        return re.sub(r"<(\w+)>", lambda match: self.names.get(match[1], match[0]), text)

    def _note(self, answer: Answer) -> None:
        """Keep what the next requests may name: the stream, its last number, texts of JSON."""
        if stream := answer.headers.get("stream-id"):
            self.names["stream"] = stream
        if answer.numbers:
            self.names["last"] = f"{answer.numbers[-1]}"
        document = answer.json if isinstance(answer.json, dict) else {}
        for name, value in document.items():
            if isinstance(value, str):
                self.names[name] = value
        if "events_url" in document:
            self.names["stream"] = document["id"]


def expanded(value: Any) -> Any:
    """Return a JSON value whose `{"times": N, "of": X}` are lists, and `{"levels": N}` nested."""
    match value:
        case {"times": int(count), "of": one}:
            return [one] * count
        case {"levels": int(count)}:
            nested: Any = 0
            for _ in range(count):
                nested = [nested]
            return nested
        case dict():
            return {name: expanded(one) for name, one in value.items()}
        case list():
            return [expanded(one) for one in value]
    return value


def run_server(
    url: str, cases: list[Case], *, headers: Mapping[str, str], timeout_s: float
) -> list[Result]:
    """Run the cases over a server and return a result for each.

    Raises:
        OSError: it does not answer.
        ValueError: it does not list its models; the text says what to do.
    """
    models = Session(url, headers, timeout_s).ask({"do": "GET /v1/models"})
    if models.status != 200:
        raise ValueError(f"GET /v1/models: the status is {models.status}; is --header missing?")
    document = models.json if isinstance(models.json, dict) else {}
    listed = {str(model.get("id")) for model in document.get("data", [])}
    return [run_case(Session(url, headers, timeout_s), case, listed) for case in cases]


def run_case(session: Session, case: Case, listed: set[str]) -> Result:
    if missing := sorted(set(case.get("models", [])) - listed):
        reason = f"the server has no model {', '.join(missing)}"
        return Result(case["name"], tuple(case["requires"]), "not verified", (reason,))
    problems: list[str] = []
    for place, step in enumerate(case["steps"], start=1):
        try:
            for one in repeated(step, session):
                answer = session.ask(one)
                found = [
                    f"step {place}, {one['do']}: {text}" for text in wrong(answer, one, session)
                ]
                problems += found
        except (OSError, http.client.HTTPException) as error:
            problems.append(
                f"step {place}, {step['do']}: no answer: {error or type(error).__name__}"
            )
        if problems:
            break  # the next steps follow from this one
    return result(case["name"], case["requires"], problems)


def repeated(step: dict[str, Any], session: Session) -> Iterator[dict[str, Any]]:
    """Yield the step, or one for each event of the first answer, which `<at>` names."""
    if not step.get("at_each_event"):
        yield step
        return
    for number in session.answers[0].numbers[:-1]:
        session.names["at"] = f"{number}"
        yield step


def wrong(answer: Answer, step: dict[str, Any], session: Session) -> Iterator[str]:
    """Yield what an answer has not of what its step expects."""
    expect = step.get("expect", {})
    status = expect.get("status", 200)
    if answer.status not in (status if isinstance(status, list) else [status]):
        shown = answer.data[:REPORTED].decode("utf-8", "replace")
        yield f"status: expected {status}, got {answer.status}: {shown}"
        return
    for name, pattern in expect.get("headers", {}).items():
        value = answer.headers.get(name)
        if pattern is None and value is not None:
            yield f"header {name}: expected none, got {value!r}"
        if pattern is not None and not re.fullmatch(session.fill(pattern), value or ""):
            yield f"header {name}: expected {pattern!r}, got {value!r}"
    yield from lacking(expect.get("json", {}), answer.json, session, "json")
    for name, argument in checks_of(expect):
        if name not in OF_NO_EVENTS and not answer.events:
            yield f"there is no event: {answer.text[:REPORTED]!r}"
            return
        yield from CHECKS[name](answer, session.answers, argument)


def checks_of(expect: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for check in expect.get("checks", []):
        if isinstance(check, str):
            yield check, None
        else:
            yield from check.items()


def lacking(expected: Any, found: Any, session: Session, place: str) -> Iterator[str]:
    """Compare JSON values: members may be added, and a text `/.../` is a pattern."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name, value in expected.items():
            yield from lacking(value, found.get(name), session, f"{place}.{name}")
    elif isinstance(expected, str) and len(expected) > 1 and expected[0] == expected[-1] == "/":
        if not isinstance(found, str) or not re.fullmatch(session.fill(expected[1:-1]), found):
            yield f"{place}: expected {expected}, got {found!r}"
    elif expected != found and not (expected == {} and found is None):
        yield f"{place}: expected {expected!r}, got {found!r}"
