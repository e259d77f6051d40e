"""What the providers of a format refuse in a conversation, as data, and the fit to it.

Each row has its source; a builder fits its turns by them, and says so by its changes.
"""

from typing import Any, Final, NamedTuple

BEGIN: Final = "Begin."
"""The text of a turn of the user that a provider requires and the client did not send."""


class TurnRules(NamedTuple):
    """The requirements of a format on its turns, beyond those of `ExchangeForm`."""

    user_first: bool = False
    """Whether the first turn must be the user's."""
    text_beside: str = ""
    """The kind of block that needs a text in its turn."""


ANTHROPIC_TURNS: Final = TurnRules()
"""A system prompt alone is refused: `messages: at least one message is required` (400 of the
Messages API, 2026-09)."""

CONVERSE_TURNS: Final = TurnRules(user_first=True, text_beside="document")
"""`A conversation must start with a user message`, `The value at messages is empty`, `A text block
must be included in the content when using documents` (ValidationException of Converse, 2026-03)."""


def fit_turns(
    turns: list[dict[str, Any]], rules: TurnRules, *, text: dict[str, Any] | None = None
) -> list[str]:
    """Add to rendered turns what a format requires; return the changes.

    `text` has the members of a text block beside its text.
    """
    added = [{**(text or {}), "text": BEGIN}]
    changes = []
    if not turns:
        changes.append(f"does not allow a conversation without a message: added {BEGIN!r}")
        turns.append({"role": "user", "content": added})
    elif rules.user_first and turns[0]["role"] != "user":
        changes.append(f"does not allow a first message of the assistant: added {BEGIN!r}")
        turns.insert(0, {"role": "user", "content": added})
    kind = rules.text_beside
    for turn in turns if kind else ():
        blocks = turn["content"]
        if any(kind in block for block in blocks) and not any("text" in one for one in blocks):
            changes.append(f"does not allow a {kind} without a text: added one")
            turn["content"] = [*blocks, {"text": f"See the {kind}."}]
    return list(dict.fromkeys(changes))
