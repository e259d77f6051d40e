"""A client with one fault, as an adapter of the kit: broken.py FAULT. Without one it is right."""

import http.client
import json
import sys
import time
from urllib.parse import urlsplit

FAULT = sys.argv[1]


def lines_of(data: bytes) -> list[str]:
    """The whole lines of a body whose lines end in LF."""
    text = data.decode("utf-8", "replace")
    return text.splitlines() if FAULT == "splits" else text.split("\n")[:-1]


def fetch(url: str, cursor: str | None) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=5)
    headers = {"last-event-id": cursor} if cursor and FAULT != "repeats" else {}
    connection.request("GET", parts.path, headers=headers)
    reply = connection.getresponse()
    data = b""
    try:
        while piece := reply.read1(65536):
            data += piece
    except http.client.HTTPException:
        pass
    connection.close()
    return reply.status, data


def read(url: str, cursor: str | None) -> dict:
    events: list[dict] = []
    status, error = None, None
    while status is None and error is None:
        code, data = fetch(url, cursor)
        if code != 200:
            error = f"status {code}"
        event: dict = {}
        for line in lines_of(data):
            if line.startswith("data: "):
                try:
                    event = json.loads(line[6:])
                except ValueError:
                    continue
            elif line.startswith("id: "):
                cursor = line[4:]
            elif not line and event:
                events.append({"id": cursor, "event": event})
                status = event.get("status")
                event = {}
        if status is None and error is None and FAULT == "finishes":
            status = "completed"
        time.sleep(0.01)
    if FAULT == "reconnects":
        fetch(url, cursor)
    text = "".join(one["event"].get("text", "") for one in events)
    return {"events": events, "text": text, "status": status, "error": error}


for line in sys.stdin:
    case = json.loads(line)
    if FAULT == "dies":
        sys.exit(3)
    if FAULT == "hangs":
        time.sleep(60)
    if FAULT == "babbles":
        print("reading", flush=True)
    elif FAULT == "refuses":
        print(json.dumps({"not_verified": "it reads nothing"}), flush=True)
    else:
        print(json.dumps(read(case["url"], case["after"])), flush=True)
