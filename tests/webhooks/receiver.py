"""Endpoints that receive webhooks, and the settings of a relay that calls them."""

import base64
from pathlib import Path
from typing import Any

from app.testing.upstream import Call, Upstream, reply
from app.webhooks.message import sign

KEYS = [bytes(range(start, start + 32)) for start in (0, 100)]
SECRETS = [f"whsec_{base64.b64encode(key).decode()}" for key in KEYS]

TAKEN = reply("200 OK", "{}")


def verify(call: Call, key: bytes = KEYS[0]) -> Any:
    """Return the message of a call, which has to be signed with a key."""
    headers = call.headers
    stream = headers["webhook-id"].removeprefix("ended_")
    at = int(headers["webhook-timestamp"])
    expected = sign(stream, call.body, secrets=[key], at=at)["webhook-signature"]
    assert expected in headers["webhook-signature"].split(" ")
    return call.json


def write_settings(folder: Path, *receivers: Upstream, more: str = "") -> str:
    """Write a file of settings with a webhook for each receiver; return its path."""
    tables = [
        f'[[webhook]]\nname = "hook{number}"\nsecret_env = "HOOK_SECRET"\n'
        f'url = "{receiver.base_url}/ended?token=url-secret"\n'
        for number, receiver in enumerate(receivers)
    ]
    path = folder / "seseragi.toml"
    path.write_text("\n".join((more, *tables)))
    return str(path)


def environ(path: str) -> dict[str, str]:
    return {"SESERAGI_CONFIG": path, "HOOK_SECRET": SECRETS[0]}
