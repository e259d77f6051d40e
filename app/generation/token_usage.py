"""Token usage of an attempt: the provider's count if it is plausible, else an estimate. Pure.

A provider's count holds for a whole answer, and for one that was cut as far as it came: Gemini,
Perplexity and vLLM say on every chunk what was used so far, others only at the end. A number
that cannot be true is none: more than any call takes, no output although there is text, or one
at a cut that was said long before. One that is more than this call can have taken is lowered to
that. What is lacking is estimated, and then, or if it was lowered, the counts are `estimated`.
"""

from collections.abc import Sequence

import msgspec

from ..dialects.writing.token_estimate import estimate_output
from ..events import Event, ProviderTool, Source, TokenCounts
from ..ledger.accounts import ReservationRequest

MOST = 20_000_000
"""Tokens of one kind in one call: twice the largest context there is. More is some mistake of
the provider's, which must not use up a month's budget."""

UNKNOWN_CONTEXT = 200_000
"""The tokens that a model is taken to have room for where nobody knows."""

WIDEST = 2_000_000
"""The same for a request whose input the relay cannot size."""

WIDTH = 4
"""The most tokens for one of the estimate of a text, which takes four bytes for one."""

MEDIA_WIDTH = 40
"""The same for pictures (gpt-4o-mini counts 48,000 for a large one), packed PDFs, thin sounds."""

SLACK = 1_000
"""Output tokens beyond a limit, for ends of turns and for the fewest that a provider takes."""

SAMPLED = 100_000
"""The number of an answer's first events from which its length is estimated: 10 ms."""

STALE = 3
"""How many times as much as a provider has counted before the end may be there, by the estimate,
until the count is taken for an old one. Tokenizers differ from the estimate by less, in prose."""


def count_usage(
    reported: TokenCounts | None,
    *,
    request: ReservationRequest | None,
    answer: Sequence[Event] | int,
    complete: bool,
    hidden: int = 0,
) -> TokenCounts:
    """Return what was used.

    `answer`: its events, or an estimate of its tokens. `complete`: the answer
    is whole, and so is what was told of it. `hidden` is an estimate of what was generated and not
    shown; with it an answer has at most the length that was reserved, unless more was shown.
    """
    reported = _NONE if reported is None else _possible(reported)
    given, made = reported.input_tokens, reported.output_tokens
    if not given and request is not None:
        given = request.input_tokens
    if not (made and complete):
        written = shown = answer if isinstance(answer, int) else estimate_answer(answer)
        if hidden and request is not None:
            reserved = request.output_tokens * request.choices
            written = max(shown, min(shown + hidden, reserved))
        if made is None or made * STALE < written:
            made = written
    if (given, made) == (reported.input_tokens, reported.output_tokens):
        return reported
    if not complete:  # a cost that was told is of a part
        reported = msgspec.structs.replace(reported, cost=None, cost_from=None)
    return msgspec.structs.replace(
        reported,
        input_tokens=given,
        output_tokens=made,
        total_tokens=(given or 0) + (made or 0),
        estimated=True,
    )


def count_input(
    reported: TokenCounts | None, *, request: ReservationRequest | None
) -> TokenCounts | None:
    """Return what is known of the input when an answer begins; None if nothing is."""
    if reported is not None and believe(reported.input_tokens):
        return TokenCounts(
            reported.input_tokens,
            cached_input_tokens=reported.cached_input_tokens,
            cache_write_tokens=reported.cache_write_tokens,
            cache_write_1h_tokens=reported.cache_write_1h_tokens,
        )
    return None if request is None else TokenCounts(request.input_tokens, estimated=True)


def bound_usage(
    reported: TokenCounts,
    *,
    request: ReservationRequest,
    context: int | None,
    written: Sequence[Event],
) -> TokenCounts:
    """Return a provider's counts, lowered to what one call can have taken; else the same object.

    The input is what was sent, a byte a token, and what a host may add to it, such as documents:
    at most what the model has room for (`context`, where that is known). The output is at most
    that, and about the limit that was sent; what the provider calls reasoning is left out of the
    limit, as it is at Qwen's hosts. Tools that the provider runs have the model asked again.
    """
    given, made, choices = reported.input_tokens or 0, reported.output_tokens or 0, request.choices
    if not (0 <= given <= MOST and 0 <= made <= MOST):
        return reported
    width, beside = WIDTH, min(context or WIDEST, UNKNOWN_CONTEXT)
    if request.unsized:
        width, beside = MEDIA_WIDTH, context or WIDEST
    most_given = (width * request.input_tokens + beside) * choices
    most_made = max(context or UNKNOWN_CONTEXT, request.output_tokens) * choices
    if request.limited:
        limit = 2 * request.output_tokens * choices + SLACK
        most_made = min(most_made, limit + (reported.reasoning_tokens or 0))
    if given <= most_given and made <= most_made:
        return reported
    turns = 1 + sum(isinstance(event, ProviderTool | Source) for event in written)
    given = min(given, most_given * turns)
    made = min(made, most_made * turns + WIDTH * estimate_output(written))
    if (given, made) == (reported.input_tokens or 0, reported.output_tokens or 0):
        return reported
    return msgspec.structs.replace(
        reported, input_tokens=given, output_tokens=made, total_tokens=given + made, estimated=True
    )


def believe(tokens: int | None, *, estimate: int = MOST) -> int | None:
    """Return a provider's count of an input that is estimated so; None if it cannot be true."""
    most = min(MOST, WIDTH * estimate + UNKNOWN_CONTEXT)
    return tokens if tokens is None or 0 <= tokens <= most else None


def estimate_answer(events: Sequence[Event]) -> int:
    """Estimate the tokens of an answer; of a very long one by its beginning."""
    if len(events) <= SAMPLED:
        return estimate_output(events)
    return estimate_output(events[:SAMPLED]) * len(events) // SAMPLED


def _possible(reported: TokenCounts) -> TokenCounts:
    """Return counts without those that cannot be true."""
    for said in msgspec.structs.astuple(reported):
        if said.__class__ is int and said > MOST:
            break
    else:
        return reported
    wrong = [name for name in _COUNTED if (getattr(reported, name) or 0) > MOST]
    return msgspec.structs.replace(reported, **dict.fromkeys(wrong))


_NONE = TokenCounts()
_COUNTED = [name for name in TokenCounts.__struct_fields__ if name.endswith("_tokens")]
