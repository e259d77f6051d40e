"""What a principal may do with streams, whichever these are."""

from typing import Literal

from ..errors import RequestError
from ..identity.principal import Principal


def check_may(principal: Principal, what: Literal["read", "stop"] | None = None) -> None:
    """Refuse what a stream token is not for: it may read or stop, and nothing else.

    Raises:
        RequestError: `forbidden`.
    """
    may = "read" if principal.may == "watch" else principal.may
    if may not in ("all", what) or (what is None and principal.stream is not None):
        raise RequestError(
            "forbidden",
            f"the stream token may {may} its stream and nothing else; send a key or a "
            "client secret",
        )
