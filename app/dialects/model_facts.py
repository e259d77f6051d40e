"""Facts about models: creation date, context length, capabilities. No I/O.

Each host's list of models has its own fields for them. The relay renders OpenRouter's fields, and
Anthropic's for Anthropic's clients.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec

from .reading.json_values import count, mapping, short, string

MAX_WORDS: Final = 64
"""Limits of a list, such as supported parameters: words, and characters of each."""
MAX_CAPABILITIES: Final = 8 * 1024
"""Bytes of Anthropic's table of a model's capabilities."""

_INPUT: Final = (
    "context_length",
    "max_context_length",
    "context_window",
    "max_model_len",
    "inputTokenLimit",
    "max_input_tokens",
)
_OUTPUT: Final = ("max_completion_tokens", "outputTokenLimit", "max_output_tokens", "max_tokens")
_CREATED: Final = ("created", "created_at", "modified_at")
_NAMES: Final = ("display_name", "displayName", "name")


class ModelFacts(msgspec.Struct, frozen=True, gc=False):
    """Facts about one model; None if unknown."""

    created: int | None = None
    """Unix seconds."""
    name: str | None = None
    """The display name."""
    context_length: int | None = None
    """Tokens."""
    max_output: int | None = None
    """Tokens."""
    inputs: tuple[str, ...] | None = None
    """Input modalities, such as "text" and "image"."""
    outputs: tuple[str, ...] | None = None
    parameters: tuple[str, ...] | None = None
    """Supported fields of a request, by OpenRouter's names."""
    capabilities: Mapping[str, Any] | None = None
    """Anthropic's own table of capabilities."""
    prices: tuple[int, int] | None = None
    """Nano-USD for a million tokens of input and of output, from the relay's price list."""


NOTHING: Final = ModelFacts()


class _ModelList(msgspec.Struct):
    data: list[dict[str, Any]] = []
    models: list[dict[str, Any]] = []


_decoder = msgspec.json.Decoder(_ModelList)


def parse_list(body: bytes) -> dict[str, ModelFacts]:
    """Parse a list of models, in OpenAI's form or Google's, sorted by name.

    Raises:
        ValueError: the body is not a list of models.
    """
    lists = _decoder.decode(body)
    models = {}
    for row in lists.data + lists.models:
        if name := string(row.get("id")) or string(row.get("name")).removeprefix("models/"):
            models[name] = _parse(row)
    return dict(sorted(models.items()))


def _parse(row: dict[str, Any]) -> ModelFacts:
    shape = mapping(row.get("architecture"))
    rows = [row, *(mapping(row.get(name)) for name in ("top_provider", "metadata"))]
    return ModelFacts(
        created=next(filter(None, map(_time, (row.get(name) for name in _CREATED))), None),
        name=_name(row),
        context_length=_count(rows, _INPUT) or _count([mapping(row.get("meta"))], ("n_ctx",)),
        max_output=_count(rows, _OUTPUT),
        inputs=_words(shape.get("input_modalities")),
        outputs=_words(shape.get("output_modalities")),
        parameters=_words(row.get("supported_parameters")),
        capabilities=_capabilities(mapping(row.get("capabilities"))),
    )


def _count(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> int | None:
    """Return the first count that is not 0."""
    found = [count(row.get(name)) for name in names for row in rows]
    return next(filter(None, found), None)


def _time(value: object) -> int | None:
    if isinstance(value, str) and len(value) < 40:
        try:
            return max(0, int(datetime.fromisoformat(value).timestamp()))
        except (ValueError, OverflowError, OSError):
            return None
    seconds = count(value)
    return seconds // 1000 if seconds and seconds > 10**11 else seconds


def _name(row: dict[str, Any]) -> str | None:
    names = (short(row.get(name)) for name in _NAMES)
    return next(
        (n for n in names if n and n != row.get("id") and not n.startswith("models/")), None
    )


def _words(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    words = [word for word in value if isinstance(word, str) and word[:MAX_WORDS] == word]
    return tuple(words[:MAX_WORDS]) or None


def _capabilities(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return Anthropic's table of capabilities; None if it is another host's, or too long."""
    image = mapping(value.get("image_input"))
    if "supported" not in image or len(msgspec.json.encode(value)) > MAX_CAPABILITIES:
        return None
    return value


def least(abouts: Sequence[ModelFacts]) -> ModelFacts:
    """Return the facts common to several models, any of which may answer a request."""
    if len(abouts) == 1:
        return msgspec.structs.replace(abouts[0], name=None)
    fields: dict[str, Any] = {}
    for name in ModelFacts.__struct_fields__:
        values = [getattr(one, name) for one in abouts]
        if any(value is None for value in values):
            continue
        match name:
            case "created" | "context_length" | "max_output":
                fields[name] = min(values)
            case "inputs" | "outputs" | "parameters":
                fields[name] = tuple(w for w in values[0] if all(w in words for words in values))
            case "prices":
                fields[name] = tuple(map(max, *values))
            case "capabilities" if all(value == values[0] for value in values):
                fields[name] = values[0]
    return ModelFacts(**fields)


def render_openai(name: str, owner: str, about: ModelFacts) -> dict[str, Any]:
    """Return a row of OpenAI's list, with OpenRouter's fields for facts that OpenAI's lacks."""
    limits = {"context_length": about.context_length, "max_completion_tokens": about.max_output}
    shape = {"input_modalities": about.inputs, "output_modalities": about.outputs}
    more = {
        "name": about.name,
        "context_length": about.context_length,
        "top_provider": limits if about.max_output else None,
        "architecture": {k: v for k, v in shape.items() if v} or None,
        "supported_parameters": about.parameters,
        "pricing": None if about.prices is None else _pricing(*about.prices),
    }
    row = {"id": name, "object": "model", "created": about.created or 0, "owned_by": owner}
    return row | {key: value for key, value in more.items() if value is not None}


def _pricing(prompt: int, completion: int) -> dict[str, str]:
    """Return prices as OpenRouter writes them: USD for one token, in a string."""
    prices = {"prompt": prompt, "completion": completion}
    return {kind: f"{Decimal(nano).scaleb(-15).normalize():f}" for kind, nano in prices.items()}


def render_anthropic(name: str, about: ModelFacts) -> dict[str, Any]:
    """Return a row of Anthropic's list; `created_at` is 1970 if unknown, as at Anthropic."""
    more = {
        "max_input_tokens": about.context_length,
        "max_tokens": about.max_output,
        "capabilities": about.capabilities,
    }
    created = datetime.fromtimestamp(min(about.created or 0, 2**32), tz=UTC)
    return {
        "type": "model",
        "id": name,
        "display_name": about.name or name,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        **{key: value for key, value in more.items() if value is not None},
    }
