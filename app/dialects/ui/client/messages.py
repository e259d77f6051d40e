"""The parts of a `UIMessage`, as `useChat` sends them back; unknown fields are allowed.

Other fields concern the display of a part (`state` of a text, `title` of a tool) or belong to
other back ends; like the AI SDK's own validator, this module ignores them.
"""

from typing import Any, Literal

import msgspec

from ....requests import Opaque
from ...reasoning_signatures import SignatureFields

KEY = "seseragi"
"""The relay's key in `providerMetadata`."""

DENIED = "denied"
"""The label with the denied calls of the continued message, as a JSON list of ids."""


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A JSON object of a message."""


class Metadata(msgspec.Struct, frozen=True):
    seseragi: SignatureFields = SignatureFields()


class Text(Part, frozen=True):
    """`text` and `reasoning`."""

    text: str
    provider_metadata: Metadata | None = None

    @property
    def signatures(self) -> SignatureFields:
        return self.provider_metadata.seseragi if self.provider_metadata else SignatureFields()


class File(Part, frozen=True):
    media_type: str
    url: str
    filename: str | None = None


class Approval(Part, frozen=True):
    id: str = ""
    approved: bool | None = None
    reason: str | None = None


class Tool(Part, frozen=True):
    """`dynamic-tool`, or `tool-<name>` if the page declares its tools."""

    tool_call_id: str
    state: Literal[
        "input-streaming",
        "input-available",
        "approval-requested",
        "approval-responded",
        "output-available",
        "output-error",
        "output-denied",
    ]
    tool_name: str = ""
    input: Any = None
    raw_input: Any = None
    output: Any = None
    error_text: str = ""
    approval: Approval | None = None
    preliminary: bool | None = None
    provider_executed: bool | None = None
    call_provider_metadata: Metadata | None = None

    @property
    def opaque(self) -> list[Opaque] | None:
        metadata = self.call_provider_metadata
        return metadata.seseragi.opaque if metadata else None

    @property
    def answered(self) -> bool:
        """Whether the call has a result, an error or a denial to send to the model."""
        if self.state == "output-available":
            return not self.preliminary
        return self.state in ("output-error", "output-denied") or self.denied

    @property
    def denied(self) -> bool:
        return self.approval is not None and self.approval.approved is False
