"""Token counting calls. No I/O.

Each sends the body of the request without the fields that only affect the answer, and returns one
number.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..reading.json_values import count, decode, mapping


class CountCall(NamedTuple):
    """The counting call of a format."""

    path: str
    """The path after the base URL, which may contain `MODEL`."""
    render: Callable[..., dict[str, Any]]
    """(body, *, model, base_url) of the request for an answer, to the body of the call."""
    field: str
    """The field of the answer with the count."""

    def read(self, answer: bytes) -> int | None:
        """Parse the answer; None if it has no count."""
        try:
            return count(mapping(decode(answer.decode())).get(self.field))
        except ValueError:
            return None


def pick(body: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return some of the fields."""
    return {name: body[name] for name in names if name in body}


def send_some(names: str) -> Callable[..., dict[str, Any]]:
    """Return a function that renders a call as some of the fields and the model."""
    fields = names.split()

    def render(body: Mapping[str, Any], *, model: str, base_url: str) -> dict[str, Any]:
        return {**pick(body, fields), "model": model}

    return render
