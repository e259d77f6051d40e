"""Adapter of the relay's decoders in Python, from this repository or the installed package.

    PYTHONPATH=. python conformance/adapters/python_reader.py

The connections are those of `http.client`; what reads their bytes is `seseragi.framing`.
"""

import http.client
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit

try:
    from app.framing.ndjson import NdjsonDecoder
    from app.framing.sse import Decoder
except ImportError:
    from seseragi.framing.ndjson import NdjsonDecoder  # type: ignore[import-not-found,no-redef]
    from seseragi.framing.sse import Decoder  # type: ignore[import-not-found,no-redef]

ATTEMPTS = 20
DELAY_S = 0.005
"""The wait before the server has named one."""
KINDS = {True: "application/x-ndjson", False: "text/event-stream"}


class Refused(Exception):
    """An answer that no further request changes; the text is its code."""


class Reader:
    """One stream, over any number of connections."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.events: list[dict[str, Any]] = []
        self.status: str | None = None
        self._reason: str | None = None
        self._url = urlsplit(case["url"])
        self._request = case.get("request")
        self._cursor: str | None = case.get("after")
        self._lines = "json_lines" in case["needs"]
        self._delay_s = DELAY_S
        self._path = None if self._request else self._url.path

    def read(self) -> str | None:
        """Read to the end; return why that failed."""
        for _ in range(ATTEMPTS):
            try:
                self._connect()
            except Refused as error:
                return str(error)
            except (OSError, http.client.HTTPException):
                if self._path is None:
                    return "no answer to the POST"  # it may have started a stream
            if self.status is not None:
                return None
            time.sleep(self._delay_s)
        return "the stream did not come back"

    def _connect(self) -> None:
        connection = http.client.HTTPConnection(self._url.netloc, timeout=30)
        headers = {"accept": KINDS[self._lines]}
        try:
            if self._path is None:
                headers["content-type"] = "application/json"
                connection.request("POST", self._url.path, json.dumps(self._request), headers)
            else:
                if self._cursor is not None:
                    headers["last-event-id"] = self._cursor
                query = f"?{self._url.query}" if self._url.query else ""
                connection.request("GET", self._path + query, headers=headers)
            self._take(connection.getresponse())
        finally:
            connection.close()

    def _take(self, reply: http.client.HTTPResponse) -> None:
        if reply.status in (429, 503) and self._path is not None:
            self._delay_s = float(reply.getheader("retry-after") or self._delay_s)
            return
        kind = (reply.getheader("content-type") or "").lower()
        if reply.status != 200 or not kind.startswith(KINDS[self._lines]):
            raise Refused(code_of(reply))
        if self._path is None:
            base = self._url.path.removesuffix("/chat")
            self._path = f"{base}/streams/{reply.getheader('stream-id')}/events"
        decoder = NdjsonDecoder() if self._lines else Decoder()
        while data := reply.read1(65_536):
            for message in decoder.feed(data):
                event = json.loads(message.data)
                if message.retry is not None:
                    self._delay_s = message.retry / 1000
                self._accept(event.pop("event_id", None) or message.id, event)
                if self.status is not None:
                    return

    def _accept(self, id: str, event: dict[str, Any]) -> None:
        if number_of(id) <= number_of(self._cursor):
            return
        self._cursor = id
        self.events.append({"id": id, "event": event})
        if event["type"] == "stream.end":
            self.status, self._reason = event["status"], event.get("finish_reason")

    @property
    def text(self) -> str:
        return "".join(
            one["event"]["text"]
            for one in self.events
            if one["event"]["type"] == "text.delta" and not one["event"].get("choice")
        )

    @property
    def calls(self) -> list[dict[str, str]]:
        """The tool calls that may run."""
        calls: dict[int, dict[str, str]] = {}
        for event in (one["event"] for one in self.events):
            if event["type"] == "tool_call.start":
                calls[event["block"]] = {"id": event["id"], "name": event["name"]}
            elif event["type"] == "tool_call.end":
                calls[event["block"]]["arguments"] = event["arguments"]
        is_whole = self.status == "completed" and self._reason == "tool_calls"
        return list(calls.values()) if is_whole else []


def number_of(id: str | None) -> int:
    digits = (id or "").rpartition(".")[2]
    return int(digits) if digits.isdigit() else 0


def code_of(reply: http.client.HTTPResponse) -> str:
    try:
        return str(json.loads(reply.read())["code"])
    except (ValueError, KeyError, TypeError):
        return f"status {reply.status}"


def main() -> None:
    for case in map(json.loads, sys.stdin):
        reader = Reader(case)
        error = reader.read()
        report = {"events": reader.events, "text": reader.text, "status": reader.status}
        print(json.dumps({**report, "error": error, "calls": reader.calls}), flush=True)


if __name__ == "__main__":
    main()
