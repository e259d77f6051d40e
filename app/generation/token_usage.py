"""Token usage of an attempt: the provider's count if it is plausible, else an estimate. Pure.

A provider's count is used for a complete answer, and for a truncated one as far as it arrived:
Gemini, Perplexity and vLLM send the usage so far with every chunk, others only at the end. An
implausible number is ignored: more than any call can use, no output although there is text, or an
old count of a truncated answer. A number above the maximum of this call is lowered to that. Missing
counts are estimated; then, or if a count was lowered, the counts are `estimated`.
"""

from collections.abc import Sequence
from operator import attrgetter

import msgspec

from ..dialects.writing.token_estimate import estimate_output
from ..events import Event, ProviderTool, Source, TokenCounts
from ..ledger.accounts import ReservationRequest

MOST = 20_000_000
"""Tokens of one kind in one call: twice the largest context of any model. More is a mistake of the
provider, which must not use up a month's budget."""

UNKNOWN_CONTEXT = 200_000
"""The assumed context length of a model, if unknown."""

WIDEST = 2_000_000
"""The assumed context length for a request of unknown input size."""

WIDTH = 4
"""The maximum tokens per estimated token of a text, which stands for four bytes."""

MEDIA_WIDTH = 40
"""The same for images (gpt-4o-mini counts 48,000 for a large one), compressed PDFs and audio."""

SLACK = 1_000
"""Output tokens above a limit, for ends of turns and for providers' minimum limits."""

SAMPLED = 100_000
"""The number of an answer's first events from which its length is estimated: 10 ms."""

STALE = 3
"""The ratio of the estimate to a provider's count before the end above which the count is old.
Tokenizers differ from the estimate by less, in prose."""


def count_usage(
    reported: TokenCounts | None,
    *,
    request: ReservationRequest | None,
    answer: Sequence[Event] | int,
    complete: bool,
    hidden: int = 0,
) -> TokenCounts:
    """Return the usage of an attempt.

    `answer`: its events, or an estimate of its tokens. `complete`: the answer and its counts are
    complete. `hidden` is an estimate of hidden output; with it an answer has at most the reserved
    length, unless more is visible. An estimate never exceeds the limit that the provider received.
    """
    reported = _NONE if reported is None else _possible(reported)
    input_tokens, output_tokens = reported.input_tokens, reported.output_tokens
    if not input_tokens and request is not None:
        input_tokens = request.input_tokens
    if not (output_tokens and complete):
        written = shown = answer if isinstance(answer, int) else estimate_answer(answer)
        if request is not None:
            reserved = request.output_tokens * request.choices
            if hidden:
                written = max(shown, min(shown + hidden, reserved))
            if request.limited:
                written = min(written, reserved)
        if output_tokens is None or output_tokens * STALE < written:
            output_tokens = written
    if (input_tokens, output_tokens) == (reported.input_tokens, reported.output_tokens):
        return reported
    if not complete:  # the provider's cost is for a part
        reported = msgspec.structs.replace(reported, cost=None, cost_from=None)
    return msgspec.structs.replace(
        reported,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=(input_tokens or 0) + (output_tokens or 0),
        estimated=True,
    )


def count_input(
    reported: TokenCounts | None, *, request: ReservationRequest | None
) -> TokenCounts | None:
    """Return the input counts at the begin of an answer; None if unknown."""
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
    """Return a provider's counts, lowered to the maximum of one call; else the same object.

    The maximum input is the sent bytes, a token each, plus additions of the host such as documents,
    and at most the context length (`context`, if known). The maximum output is the context length,
    and about the sent limit, which excludes reasoning, as at Qwen's hosts. Provider-executed tools
    cause further calls of the model.
    """
    input_tokens, output_tokens = reported.input_tokens or 0, reported.output_tokens or 0
    choices = request.choices
    if not (0 <= input_tokens <= MOST and 0 <= output_tokens <= MOST):
        return reported
    width, extra = WIDTH, min(context or WIDEST, UNKNOWN_CONTEXT)
    if request.unsized:
        width, extra = MEDIA_WIDTH, context or WIDEST
    max_input = (width * request.input_tokens + extra) * choices
    max_output = max(context or UNKNOWN_CONTEXT, request.output_tokens) * choices
    if request.limited:
        limit = 2 * request.output_tokens * choices + SLACK
        max_output = min(max_output, limit + (reported.reasoning_tokens or 0))
    if input_tokens <= max_input and output_tokens <= max_output:
        return reported
    turns = 1 + sum(isinstance(event, ProviderTool | Source) for event in written)
    input_tokens = min(input_tokens, max_input * turns)
    output_tokens = min(output_tokens, max_output * turns + WIDTH * estimate_output(written))
    if (input_tokens, output_tokens) == (reported.input_tokens or 0, reported.output_tokens or 0):
        return reported
    return msgspec.structs.replace(
        reported,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
        estimated=True,
    )


def add_counts(first: TokenCounts, second: TokenCounts) -> TokenCounts:
    """Return the usage of two calls together; a count is unknown if it is in both."""
    sums = {
        name: None if one is None and other is None else (one or 0) + (other or 0)
        for name in _COUNTED
        for one, other in ((getattr(first, name), getattr(second, name)),)
    }
    estimated = first.estimated or second.estimated
    return msgspec.structs.replace(second, **sums, estimated=estimated, cost=None, cost_from=None)


def believe(tokens: int | None, *, estimate: int = MOST) -> int | None:
    """Return a provider's count of an input with this estimate; None if it is implausible."""
    most = min(MOST, WIDTH * estimate + UNKNOWN_CONTEXT)
    return tokens if tokens is None or 0 <= tokens <= most else None


def estimate_answer(events: Sequence[Event]) -> int:
    """Estimate the tokens of an answer; a very long one by its beginning."""
    if len(events) <= SAMPLED:
        return estimate_output(events)
    return estimate_output(events[:SAMPLED]) * len(events) // SAMPLED


def _possible(reported: TokenCounts) -> TokenCounts:
    """Return counts without implausible ones."""
    if max(filter(None, _counts_of(reported)), default=0) <= MOST:
        return reported
    implausible = [name for name in _COUNTED if (getattr(reported, name) or 0) > MOST]
    return msgspec.structs.replace(reported, **dict.fromkeys(implausible))


_NONE = TokenCounts()
_COUNTED = [name for name in TokenCounts.__struct_fields__ if name.endswith("_tokens")]
_counts_of = attrgetter(*_COUNTED)
