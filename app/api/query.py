"""The query of a request."""

from typing import overload

from starlette.requests import Request

from ..errors import RequestError


@overload
def read_query(request: Request, name: str, default: str) -> str: ...
@overload
def read_query(request: Request, name: str) -> str | None: ...


def read_query(request: Request, name: str, default: str | None = None) -> str | None:
    """Return what the query says for a name, or the default.

    Raises:
        RequestError: `invalid_request`, it has it more than once: which one is meant, and
            which one a proxy has looked at, is anybody's guess.
    """
    values = request.query_params.getlist(name)
    if len(values) > 1:
        times = f"the query has it {len(values)} times; send it once"
        raise RequestError("invalid_request", f"{name}: {times}")
    return values[0] if values else default
