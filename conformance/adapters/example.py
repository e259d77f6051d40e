"""A client of the wire in 60 lines, with its adapter: it reads streams and resumes them."""

import http.client
import json
import sys
import time
from urllib.parse import urlsplit


def frames(reply):
    """Yield the fields of each frame. Lines end with LF, CR or CRLF, and with nothing else."""
    rest, fields, after_cr, begin = b"", {}, False, "\ufeff"
    while data := reply.read1(65536):
        data = data[1:] if after_cr and data.startswith(b"\n") else data
        after_cr = data.endswith(b"\r")
        *lines, rest = (rest + data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")).split(b"\n")
        for line in lines:
            if line:
                name, _, value = line.decode().removeprefix(begin).partition(":")
                fields.setdefault(name, []).append(value.removeprefix(" "))
                begin = ""
            else:
                yield fields
                fields = {}


def read(url, cursor):
    """Return the whole of a stream behind a cursor, or what came of it and an error."""
    report = {"events": [], "text": "", "status": None, "error": "the stream did not come back"}
    last, delay = int((cursor or "0").rpartition(".")[2]), 1.0
    for _ in range(20):
        connection = http.client.HTTPConnection(url.netloc, timeout=30)
        try:
            headers = {"last-event-id": cursor} if cursor else {}
            connection.request("GET", f"{url.path}?{url.query}", headers=headers)
            reply = connection.getresponse()
            form = reply.getheader("content-type", "").lower()
            if reply.status in (429, 503):
                delay = float(reply.getheader("retry-after") or delay)
            elif reply.status != 200 or not form.startswith("text/event-stream"):
                return report | {"error": f"status {reply.status}, {form}"}
            for fields in frames(reply) if reply.status == 200 else ():
                for milliseconds in filter(str.isdigit, fields.get("retry", [])):
                    delay = int(milliseconds) / 1000
                number = int(fields.get("id", ["0"])[-1].rpartition(".")[2])
                if number <= last or "data" not in fields:
                    continue  # a ping, or seen before
                last, cursor, event = (
                    number,
                    fields["id"][-1],
                    json.loads("\n".join(fields["data"])),
                )
                report["events"].append({"id": cursor, "event": event})
                if event["type"] == "text.delta" and not event.get("choice"):
                    report["text"] += event["text"]
                if event["type"] == "stream.end":
                    return report | {"status": event["status"], "error": None}
        except (OSError, http.client.HTTPException):
            pass  # it was cut: ask for what follows the cursor
        time.sleep(delay)
    return report


for case in map(json.loads, sys.stdin):
    able = {"after", "again", "snapshot"}.issuperset(case["needs"])
    report = read(urlsplit(case["url"]), case["after"]) if able else {"not_verified": "it reads"}
    print(json.dumps(report), flush=True)
