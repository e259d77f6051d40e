"""OpenAI's custom tools, whose input is any text, as functions with one string."""

import json
from typing import Final

import msgspec

from ...bounds import has_more_values
from ...requests import Function
from ..reading.answer_bounds import MAX_VALUES
from ..reading.split_text import well_formed

INPUT: Final = "input"
"""The parameter with the text."""

_NOTE: Final = "Its input is any text, not JSON. Put that text into the string `input`."


def build_function(
    name: str, description: str | None, *, syntax: str | None, grammar: str | None
) -> Function:
    """Return the function that replaces a custom tool; a grammar becomes part of its text."""
    texts = [description, _NOTE] if description else [_NOTE]
    if grammar:
        texts.append(f"It follows this grammar ({syntax or 'lark'}):\n{grammar}")
    schema = {
        "type": "object",
        "properties": {INPUT: {"type": "string"}},
        "required": [INPUT],
        "additionalProperties": False,
    }
    return Function(name, "\n\n".join(texts), schema)


def encode_input(text: str) -> str:
    """Return the arguments of the function for an input."""
    return msgspec.json.encode({INPUT: text}).decode()


def decode_input(arguments: str) -> str:
    """Return the input in the arguments of the function.

    Models also write it under another name, with raw line breaks, or without an object.
    """
    if has_more_values(arguments.encode(errors="replace"), MAX_VALUES):
        return arguments
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(value, dict):
        return arguments
    values = value.values() if value.get(INPUT) is None else [value[INPUT]]
    texts = [one for one in values if isinstance(one, str)]
    return well_formed(texts[0]) if len(texts) == 1 else arguments if value else ""
