"""Messages of webhooks, signed and repeated as Standard Webhooks specifies. Pure."""

import hmac
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from ..telemetry.row import StreamRow

PAUSES_S: Final = (5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 28_800)
"""The pauses after failed attempts: the last attempt is 24 hours after the end."""

ID: Final = "ended_%s"
"""Of a message: the same at each attempt, so that receivers know repeats."""

JITTER: Final = 0.2
"""The part of a pause by which it may be shorter or longer."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint with its settings."""

    name: str
    url: str
    secrets: tuple[bytes, ...]
    """Each signs, so that receivers can change to another one."""

    def __repr__(self) -> str:
        """Return the name alone, since the rest may be secret."""
        return f"Webhook({self.name!r})"

    @property
    def queue(self) -> str:
        """The queue of its rows in the log."""
        return f"webhook:{self.name}"


class Delivery(NamedTuple):
    """A row that waits for a webhook."""

    failed: int
    """How many attempts have failed."""
    row: StreamRow


_decode = msgspec.msgpack.Decoder(Delivery | StreamRow).decode


def unpack_delivery(data: bytes) -> Delivery:
    """Decode what a log returns: the row of a settlement, or a delivery that was put back.

    Raises:
        msgspec.MsgspecError: it is neither.
    """
    found: Delivery | StreamRow = _decode(data)
    return found if isinstance(found, Delivery) else Delivery(0, found)


def pack_delivery(delivery: Delivery) -> bytes:
    """Encode a delivery."""
    return msgspec.msgpack.encode(delivery)


def build_body(row: StreamRow, content: str | None) -> bytes:
    """Return the body; `content` is JSON.

    Raises:
        ValueError, OverflowError: the row has an invalid time.
    """
    data = msgspec.structs.asdict(row)
    data["content"] = msgspec.Raw(content.encode()) if content else None
    at = datetime.fromtimestamp(row.ended_at, UTC)
    return msgspec.json.encode({"type": "stream.ended", "timestamp": at, "data": data})


def sign(stream: str, body: bytes, *, secrets: Sequence[bytes], at: int) -> dict[str, str]:
    """Return the headers of a message at a time."""
    message_id = ID % stream
    signed = b"%s.%d.%s" % (message_id.encode(), at, body)
    signatures = [b64encode(hmac.digest(secret, signed, "sha256")).decode() for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": f"{at}",
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def pause_after(failed: int, *, chance: float, wait_s: float | None) -> float | None:
    """Return the seconds until the next attempt after so many failed ones; None for no more.

    `chance` is 0 to 1. `wait_s` is what the endpoint requests.
    """
    if failed > len(PAUSES_S):
        return None
    pause_s = PAUSES_S[failed - 1] * (1 + JITTER * (2 * chance - 1))
    return max(pause_s, min(wait_s or 0, PAUSES_S[-1]))
