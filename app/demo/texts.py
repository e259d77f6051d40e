"""The texts of the demo in English and Japanese, and words of tools: `texts.toml` has them."""

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


class ToolWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words in the names of tools that read, that change something, and that end a task."""

    reading: frozenset[str]
    changing: frozenset[str]
    final: frozenset[str]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    english: Texts
    japanese: Texts
    tools: ToolWords


_FILE: Final = msgspec.toml.decode(Path(__file__).with_name("texts.toml").read_bytes(), type=_File)
ENGLISH, JAPANESE, TOOLS = _FILE.english, _FILE.japanese, _FILE.tools
