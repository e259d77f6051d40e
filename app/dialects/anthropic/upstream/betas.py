"""Betas of Vertex AI and Bedrock: one name that a platform does not know is a 400 for all.

Some models refuse even names that others take, and Claude Code lists betas that it does not use:
so a beta for a field or tool is only sent with requests that have it.

Sources, read in November 2026:
- Vertex AI: BerriAI/litellm#22321 (2026-02-27, measured), vercel/ai#10981 (2025-12-08:
  `structured-outputs` is refused), anthropics/claude-agent-sdk-typescript#307 (2026-04-27:
  `effort` is refused);
- Bedrock: envoyproxy/ai-gateway#2512 (2026-08-11, each name measured), BerriAI/litellm#19877 (from
  AWS's own page), anthropics/claude-code#49370 (2026-04-16: Opus 4.7 refuses `claude-code`),
  router-for-me/CLIProxyAPI#4750 (2026-08-03: the names that are refused);
- both: BerriAI/litellm, litellm/anthropic_beta_headers_config.json (2026-09).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from ...reading.json_values import mapping, mappings, string

Platform = Literal["vertex", "bedrock"]


class _Beta(NamedTuple):
    """One beta: the platforms that take it, and the fields that need it; none: any request."""

    platforms: tuple[Platform, ...]
    fields: tuple[str, ...] = ()


_ALL: Final[tuple[Platform, ...]] = ("vertex", "bedrock")
_VERTEX: Final[tuple[Platform, ...]] = ("vertex",)
_BEDROCK: Final[tuple[Platform, ...]] = ("bedrock",)
_COMPUTER: Final = ("tools.computer", "tools.bash", "tools.text_editor")
_TOOL_SEARCH: Final = (
    *("tools.tool_search_tool_regex", "tools.tool_search_tool_bm25"),
    "tools.defer_loading",
)

_BETAS: Final[Mapping[str, _Beta]] = {
    "interleaved-thinking-2025-05-14": _Beta(_ALL),
    "context-1m-2025-08-07": _Beta(_ALL),
    "dangerous-tool-use-2026-09-03": _Beta(_ALL),
    "thinking-binding-controls-2026-08-01": _Beta(_ALL),
    "thinking-display-updates-2026-08-18": _Beta(_ALL),
    "per-turn-control-2026-07-01": _Beta(_VERTEX),
    "compact-2026-09-04": _Beta(_VERTEX),
    "dev-full-thinking-2025-05-14": _Beta(_BEDROCK),
    "fine-grained-tool-streaming-2025-05-14": _Beta(_BEDROCK),
    "mid-conversation-output-config-2026-07-01": _Beta(_BEDROCK),
    "mid-conversation-tool-changes-2026-07-01": _Beta(_BEDROCK),
    "output-128k-2025-02-19": _Beta(_BEDROCK),
    "token-efficient-tools-2025-02-19": _Beta(_BEDROCK),
    "context-management-2025-06-27": _Beta(_ALL, ("context_management",)),
    "compact-2026-01-12": _Beta(_ALL, ("context_management",)),
    "effort-2025-11-24": _Beta(_BEDROCK, ("output_config.effort",)),
    "computer-use-2024-10-22": _Beta(_BEDROCK, _COMPUTER),
    "computer-use-2025-01-24": _Beta(_ALL, _COMPUTER),
    "computer-use-2025-11-24": _Beta(_ALL, _COMPUTER),
    "tool-examples-2025-10-29": _Beta(_BEDROCK, ("tools.input_examples",)),
    "tool-search-tool-2025-10-19": _Beta(_ALL, _TOOL_SEARCH),
    "web-search-2025-03-05": _Beta(_VERTEX, ("tools.web_search",)),
}

_NAMES: Final[Mapping[str, Sequence[str]]] = {
    "advanced-tool-use-2025-11-20": ("tool-search-tool-2025-10-19", "tool-examples-2025-10-29"),
}
"""Betas of Anthropic's own API that have other names on the platforms."""

_MAX_NAMED: Final = 20


class Betas(NamedTuple):
    """The betas that a platform is sent, and the change as the end of a sentence about it."""

    taken: list[str]
    changes: Sequence[str] = ()


def choose_betas(names: Iterable[str], platform: Platform, body: Mapping[str, Any]) -> Betas:
    """Return those of a client's betas that a platform takes with this body."""
    fields = _list_fields(body)
    taken: dict[str, None] = {}
    dropped: dict[str, None] = {}
    for name in names:
        found = [
            one
            for one in _NAMES.get(name, (name,))
            if (beta := _BETAS.get(one))
            and platform in beta.platforms
            and (not beta.fields or not fields.isdisjoint(beta.fields))
        ]
        taken.update(dict.fromkeys(found))
        if not found:
            dropped[name] = None
    if not dropped:
        return Betas([*taken])
    shown = ", ".join(name[:80] for name in [*dropped][:_MAX_NAMED])
    more = f" and {len(dropped) - _MAX_NAMED} more" if len(dropped) > _MAX_NAMED else ""
    return Betas(
        [*taken], [f"does not take anthropic-beta {shown}{more} for this request: dropped"]
    )


def _list_fields(body: Mapping[str, Any]) -> set[str]:
    """List the fields of a body: tools by their keys, and by their types without the version."""
    fields = {name for name, value in body.items() if value is not None}
    fields |= {f"output_config.{name}" for name in mapping(body.get("output_config"))}
    for tool in mappings(body.get("tools")):
        fields |= {f"tools.{name}" for name in tool}
        fields.add(f"tools.{string(tool.get('type')).rstrip('0123456789').rstrip('_')}")
    return fields
