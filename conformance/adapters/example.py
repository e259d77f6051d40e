"""A client of the wire in 60 lines, with its adapter: it reads streams and resumes them."""

import http.client
import json
import sys
import time
from urllib.parse import urlsplit

CAN = {"after", "again", "snapshot"}


def frames(reply):
    """Yield the fields of each frame. Lines end with LF, CR or CRLF, and with nothing else."""
    rest, fields, after_cr = b"", {}, False
    while data := reply.read1(65536):
        data = data[1:] if after_cr and data.startswith(b"\n") else data
        after_cr = data.endswith(b"\r")
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line:
                name, _, value = line.decode().removeprefix("\ufeff").partition(":")
                fields.setdefault(name, []).append(value.removeprefix(" "))
            else:
                yield fields
                fields = {}


def read(url, cursor):
    seen, text, delay = [], "", 1.0
    for _ in range(20):
        try:
            connection = http.client.HTTPConnection(url.netloc, timeout=30)
            headers = {"last-event-id": cursor} if cursor else {}
            connection.request("GET", f"{url.path}?{url.query}", headers=headers)
            reply = connection.getresponse()
            kind = reply.getheader("content-type", "").lower()
            if reply.status in (429, 503):
                delay = float(reply.getheader("retry-after") or delay)
            elif reply.status != 200 or not kind.startswith("text/event-stream"):
                return seen, text, None, f"status {reply.status}, {kind}"
            for fields in frames(reply) if reply.status == 200 else ():
                delay = [delay, *(int(ms) / 1000 for ms in fields.get("retry", []) if ms.isdigit())][-1]
                id = fields.get("id", ["0"])[-1]
                if "data" in fields and number(id) > number(cursor or "0"):  # else a ping, or seen
                    cursor, event = id, json.loads("\n".join(fields["data"]))
                    seen.append({"id": id, "event": event})
                    if event["type"] == "text.delta" and not event.get("choice"):
                        text += event["text"]
                    if event["type"] == "stream.end":
                        return seen, text, event["status"], None
        except (OSError, http.client.HTTPException):
            pass  # it was cut: ask for what follows the cursor
        time.sleep(delay)
    return seen, text, None, "the stream did not come back"


def number(cursor):
    return int(cursor.rpartition(".")[2])


for case in map(json.loads, sys.stdin):
    report = {"not_verified": "it reads only"}
    if CAN.issuperset(case["needs"]):
        report = dict(zip(["events", "text", "status", "error"], read(urlsplit(case["url"]), case["after"])))
    print(json.dumps(report), flush=True)
