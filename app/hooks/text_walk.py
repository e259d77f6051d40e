"""The walk over all texts of requests and answers, by which hooks check requests.

JSON is walked string by string, decoded, and long numbers in it: hooks do not see its escapes, and
what they leave is encoded again.
"""

import re
from collections.abc import Sequence
from operator import is_
from typing import Any, Final

import msgspec

from ..errors import RequestError
from ..requests import ChatRequest, JsonSchema, ReasoningPart, Tool
from .contract import Check, Hook, Text, apply

MAX_MARKS: Final = 40_000
"""Quotes, commas and brackets of JSON that one walk decodes, 60 ms; later JSON is one text."""

MAX_NAME: Final = 1000
"""Characters of an unknown text beside the request; what is longer is binary."""

NAME: Final = "name"
"""The kind of names, ids, and keys of objects."""

_VALUE: Final = re.compile(
    r'(?=[-"0-9])(?:(?P<string>"(?:[^"\\]++|\\.)*+"?)(?P<colon>\s*+:)?|-?[0-9][0-9.eE+-]{6,}+)',
    re.DOTALL,
)
_JSON: Final = re.compile(r'\s*+[{\["]')
_KEYWORDS: Final = frozenset(("type", "format", "pattern", "required", "$ref", "$schema"))
"""Keywords of a JSON Schema whose values are no text."""


def _fields(names: str) -> frozenset[str]:
    return frozenset(names.split())


REFUSED: Final = _fields(
    "id name tool_call_id file_id allowed_tools type ttl media_type service_tier truncation"
    " reasoning_effort reasoning_summary verbosity prompt_cache_retention"
)
"""The fields that hooks see but that have to stay: another name means another thing."""
OPAQUE: Final = _fields(
    "data file_data signature encrypted format opaque stream upstream upstream_id model code"
    " usage cost labels status finish_reason ended_by scope cost_from detail on_disconnect"
    " ceiling chat overlap"
)
"""Those that hooks do not see: binary, signed, the relay's words, or checked with the request."""
LEFT_OUT: Final = frozenset(("raw", "cited_text", "client_body"))
"""Those that repeat other texts, and are removed."""


class Texts:
    """The texts of values: a walk collects them; after `replace`, another one replaces them."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}
        self._kinds: dict[str, str] = {}
        self._json: dict[str, bool] = {}
        self._marks = MAX_MARKS

    def collected(self) -> list[Text]:
        """Return all texts, each once."""
        return [Text(*key) for key in self._texts]

    def replace(self, texts: Sequence[str]) -> None:
        """Replace the collected texts."""
        self._texts = dict(zip(self._texts, texts, strict=True))

    def walk(self, value: Any, kind: str) -> Any:
        """Return a value with its texts replaced; the kind "" is that of an equal text before.

        Raises:
            RequestError: `content_filtered`, hooks replace what has to stay.
        """
        match value:
            case str():
                is_json = _JSON.match(value) and self._is_json(value)
                return self._walk_json(value, kind) if is_json else self._take(value, kind)
            case list() | tuple():
                walked = [self.walk(one, kind) for one in value]
                return value if all(map(is_, walked, value)) else type(value)(walked)
            case dict():
                text = msgspec.json.encode(value).decode()
                new = self._walk_json(text, kind, keywords=kind == "tool")
                return value if new == text else msgspec.json.decode(new)
            case msgspec.Raw():
                return msgspec.Raw(self.walk(bytes(value).decode(), kind).encode())
            case msgspec.Struct():
                return self._walk_fields(value, kind)
        return value

    def _walk_fields(self, value: Any, kind: str) -> Any:
        if value.__struct_config__.tag_field == "role":
            kind = value.__struct_config__.tag
        elif isinstance(value, Tool | JsonSchema):
            kind = "tool"
        changes: dict[str, Any] = {}
        for name in value.__struct_fields__:
            old = getattr(value, name)
            if old is None:
                continue
            if name in LEFT_OUT:
                changes[name] = None
            elif name in REFUSED:
                if self.walk(old, NAME) != old:
                    what = f"{type(value).__name__}.{name}"
                    raise RequestError(
                        "content_filtered", f"{what}: hooks replace a part of it; remove that part"
                    )
            elif name not in OPAQUE and not (name == "url" and old.startswith("data:")):
                new = self.walk(old, kind)
                if new is not old:
                    changes[name] = new
        if isinstance(value, ReasoningPart) and changes.get("text", value.text) != value.text:
            changes["signature"] = None  # the provider signed the original text
        return msgspec.structs.replace(value, **changes) if changes else value

    def _take(self, text: str, kind: str) -> str:
        if not text or (not kind and text not in self._kinds and len(text) > MAX_NAME):
            return text
        kind = kind or self._kinds.get(text, NAME)
        self._kinds.setdefault(text, kind)
        return self._texts.setdefault((kind, text), text)

    def _is_json(self, text: str) -> bool:
        if text not in self._json:
            try:
                msgspec.json.decode(text, type=msgspec.Raw)
                self._marks -= sum(map(text.count, '",[{'))
                self._json[text] = self._marks >= 0
            except (ValueError, RecursionError):
                self._json[text] = False
        return self._json[text]

    def _walk_json(self, text: str, kind: str, *, keywords: bool = False) -> str:
        key = ""

        def replace(match: re.Match[str]) -> str:
            nonlocal key
            string, colon = match["string"], match["colon"]
            old: str = match[0] if string is None else string[1:-1]
            if "\\" in old:
                old = msgspec.json.decode(string)
            if colon:
                key, new = old, self._take(old, kind and NAME)
            else:
                new = self.walk(old, NAME if keywords and key in _KEYWORDS else kind)
            return match[0] if new == old else msgspec.json.encode(new).decode() + (colon or "")

        return _VALUE.sub(replace, text)


async def check_request(
    hooks: Sequence[Hook], chat: ChatRequest, *others: Any, route: str, stream: str
) -> tuple[list[Any], Sequence[str]]:
    """Return a request and `others`, values made from it, after all hooks, and the hooks' notes.

    The request returned has no client body: its translation is what the hooks checked.

    Raises:
        RequestError: `content_filtered`, a hook stops it; `invalid_request`, only the client's own
            body can express it.
        ServiceError: `overloaded`, a hook failed.
    """
    body = chat.client_body
    if body is not None and (refused := body.untranslatable or body.unsupported):
        raise RequestError(
            "invalid_request", f"{refused[0]} cannot be sent: a hook could not check it"
        )
    values = [(chat, "option"), *((one, "") for one in others)]
    return await check_values(hooks, values, route=route, stream=stream)


async def check_values(
    hooks: Sequence[Hook], values: Sequence[tuple[Any, str]], *, route: str, stream: str = ""
) -> tuple[list[Any], Sequence[str]]:
    """Return values of a request after all hooks, by the kinds of their texts, and the notes."""
    texts = Texts()
    walked = [texts.walk(value, kind) for value, kind in values]
    collected = texts.collected()
    found = await apply(hooks, Check("request", route, stream, collected))
    if found.texts != [one.text for one in collected]:
        texts.replace(found.texts)
        walked = [texts.walk(value, kind) for value, kind in values]
    return walked, found.notes
