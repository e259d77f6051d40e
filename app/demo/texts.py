"""The texts of the demo; `texts.toml` has them in English and Japanese."""

from pathlib import Path
from typing import Final

import msgspec


class Texts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The texts of one language."""

    usual: str
    brief: str
    """For agents, which may act on code, and for `demo-slow`: one paragraph without any."""
    paragraph: str
    """Repeated by `demo-long`."""
    reasoning: str
    results: str
    cities: tuple[str, str]


_FILE: Final = Path(__file__).with_name("texts.toml").read_bytes()
_TEXTS: Final = msgspec.toml.decode(_FILE, type=dict[str, Texts])
ENGLISH, JAPANESE = _TEXTS["english"], _TEXTS["japanese"]
