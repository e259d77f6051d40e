"""Events and fields that a Responses provider sent, from `ProviderData` events.

The upstream's `provider_data` describes them. They come from outside: none of them may look like
an event by which the relay tells the state of the response.
"""

import re
from typing import Any, Final, NamedTuple

from ....events import ProviderData
from ...reading.json_values import clean, count, read_raw, string
from .. import NAME

ADDED: Final = "response.output_item.added"
DONE: Final = "response.output_item.done"
PART: Final = "response.content_part.added"
RESPONSE: Final = "response"

_TYPE: Final = re.compile(r"[\w.-]{1,100}", re.ASCII)
_STATE: Final = re.compile(
    r"(response\.)?(created|queued|in_progress|completed|incomplete|failed|cancelled|done|error)"
)


class Record(NamedTuple):
    type: str
    number: int | None
    """The number of the item among those of the upstream; None for an event about the answer."""
    fields: dict[str, Any]


def read_record(event: ProviderData) -> Record | None:
    """Return an event of the provider; None if it is not one to show."""
    fields = clean(read_raw(event.raw, NAME) or {})
    kind, number = string(fields.pop("type", None)), count(fields.pop("output_index", None))
    fields.pop("sequence_number", None)
    if isinstance(fields.get(RESPONSE), dict):
        return Record(RESPONSE, None, fields)
    if not _TYPE.fullmatch(kind) or _STATE.fullmatch(kind):
        return None
    return Record(kind, number, fields)
