"""What an attempt has used: the provider's count as far as it is one, else an estimate. Pure.

A provider's count holds for a whole answer, and for one that was cut as far as it came: Gemini,
Perplexity and vLLM say on every chunk what was used so far, others only at the end. A number
that cannot be true is none: more than any call takes, no output although there is text, or one
at a cut that was said long before. What is lacking is estimated, and then the counts are
`estimated`.
"""

from collections.abc import Callable

import msgspec

from ..events import TokenCounts
from ..ledger.accounts import ReservationRequest

MOST = 20_000_000
"""Tokens of one kind in one call: twice the largest context there is. More is some mistake of
the provider's, which must not use up a month's budget."""

STALE = 3
"""How many times as much as a provider has counted before the end may be there, by the estimate,
until the count is taken for an old one. Tokenizers differ from the estimate by less, in prose."""


def count_usage(
    told: TokenCounts | None,
    *,
    request: ReservationRequest | None,
    count_output: Callable[[], int],
    complete: bool,
    hidden: int = 0,
) -> TokenCounts:
    """Return what was used.

    `count_output` estimates the answer, and is asked only if it matters. `complete`: the answer
    is whole, and so is what was told of it. `hidden` is an estimate of what was generated and not
    shown; with it an answer has at most the length that was reserved, unless more was shown.
    """
    told = _NONE if told is None else _possible(told)
    given, made = told.input_tokens, told.output_tokens
    if not given and request is not None:
        given = request.input_tokens
    if not (made and complete):
        written = shown = count_output()
        if hidden and request is not None:
            reserved = request.output_tokens * request.choices
            written = max(shown, min(shown + hidden, reserved))
        if made is None or made * STALE < written:
            made = written
    if (given, made) == (told.input_tokens, told.output_tokens):
        return told
    return msgspec.structs.replace(
        told,
        input_tokens=given,
        output_tokens=made,
        total_tokens=(given or 0) + (made or 0),
        estimated=True,
    )


def count_input(
    told: TokenCounts | None, *, request: ReservationRequest | None
) -> TokenCounts | None:
    """Return what is known of the input when an answer begins; None if nothing is."""
    if told is not None and believe(told.input_tokens):
        return TokenCounts(
            told.input_tokens,
            cached_input_tokens=told.cached_input_tokens,
            cache_write_tokens=told.cache_write_tokens,
            cache_write_1h_tokens=told.cache_write_1h_tokens,
        )
    return None if request is None else TokenCounts(request.input_tokens, estimated=True)


def believe(tokens: int | None) -> int | None:
    """Return a provider's count; None for one that cannot be true."""
    return tokens if tokens is None or 0 <= tokens <= MOST else None


def _possible(told: TokenCounts) -> TokenCounts:
    """Return counts without those that cannot be true."""
    for said in msgspec.structs.astuple(told):
        if said.__class__ is int and said > MOST:
            break
    else:
        return told
    wrong = [name for name in _COUNTED if (getattr(told, name) or 0) > MOST]
    return msgspec.structs.replace(told, **dict.fromkeys(wrong))


_NONE = TokenCounts()
_COUNTED = [name for name in TokenCounts.__struct_fields__ if name.endswith("_tokens")]
