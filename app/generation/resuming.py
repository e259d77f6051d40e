"""Reading on an answer whose connection broke, where its provider stores it."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import structlog

from ..dialects.reading.json_values import count, decode_or, text_or_none
from ..dialects.upstream_format import Decoder, ResumableAnswer
from ..errors import RelayError
from ..framing.sse import Message
from ..policies.retry import pause
from ..upstreams.connection import HttpBody
from ..upstreams.http import FAILURES, HttpClient, open_stream
from ..upstreams.http_call import HttpReply
from ..upstreams.targets import Target

HEAD_S = 30.0
"""The maximum seconds until the head of a reply: another try may reach a host that answers."""

CANCEL_S = 1.5
"""The maximum seconds to cancel an answer: less than a shutdown waits for running streams."""

MAX_DOUBLED = 10
"""The tries after which the pause between them no longer grows."""

MAX_CURSOR = 1000
"""Characters of a cursor, which becomes part of a URL."""

log = structlog.get_logger("seseragi.generation")


class Resumption:
    """Reads on one stored answer, or cancels it: the provider completes it without a reader."""

    def __init__(
        self,
        decoder: "ResumableDecoder",
        *,
        target: Target,
        client: HttpClient,
        headers: Mapping[str, str],
    ) -> None:
        """Prepare the calls about an answer, with additional headers."""
        self.decoder = decoder
        self.reconnects = 0
        """How often the answer was read on."""
        self.refused = False
        """Whether the provider refuses to hand out the rest."""
        self._target = target
        self._client = client
        self._headers = headers

    async def open(
        self, answer: str, *, anew: bool = False
    ) -> HttpBody | AsyncGenerator[bytes] | None:
        """Open the rest of an answer by its id, or all of it; None if the provider refuses it.

        It tries until the caller's deadline.
        """
        retry_after_s = 0.0
        while (step := self.decoder.next_try(anew=anew)) is not None:
            tries, query = step
            wait_s = pause(min(tries, MAX_DOUBLED), chance=random.random())  # noqa: S311
            await asyncio.sleep(max(wait_s, retry_after_s))
            retry_after_s = 0.0
            try:
                async with asyncio.timeout(HEAD_S):
                    reply = await self._call("GET", answer, query)
            except FAILURES:
                continue
            except RelayError as error:
                # An invalid response is the page of a gateway.
                if not error.retryable and error.code != "upstream_invalid_response":
                    self.refused = True
                    break
                retry_after_s = error.retry_after_s or 0.0
                continue
            self.reconnects += 1
            return reply.body
        return None

    async def cancel(self, answer: str) -> None:
        """Cancel the answer of this id, if the provider answers in `CANCEL_S`."""
        try:
            async with asyncio.timeout(CANCEL_S):
                reply = await self._call("POST", answer, "/cancel")
                await reply.body.aclose()
        except (RelayError, *FAILURES) as error:
            upstream = self._target.upstream
            code = error.code if isinstance(error, RelayError) else "upstream_unavailable"
            log.warning("upstream answer not cancelled", upstream=upstream.name, code=code)

    async def _call(self, method: str, answer: str, path: str) -> HttpReply:
        call = await self._target.build_stored(method, answer, path)
        call.headers.update(self._headers)
        return await open_stream(self._client, call, upstream=self._target.upstream.name)


class ResumableDecoder:
    """The decoder of all bodies of one answer, without what a later one repeats.

    It keeps the last message, which has the place: only a broken connection costs time.
    """

    def __init__(
        self, answer: ResumableAnswer, new: Callable[[], Decoder], *, request: Mapping[str, Any]
    ) -> None:
        """Begin with the first body of the answer to a request; `new` returns a body's decoder."""
        self._answer = answer
        self._new = new
        self._decoder = new()
        repeated = request.get(answer.repeated)
        values = repeated if isinstance(repeated, list) else ()
        self._fields = [(f"{answer.repeated}[]", value) for value in values]
        self._last: Message | None = None
        self._cursor: int | str | None = None
        """The place from which a later body was requested last."""
        self._tries = 0
        """Tries to read on from there."""
        self._filters = self._replays = False
        """Whether messages may be repetitions, and whether all are up to the cursor."""

    def feed(self, data: bytes) -> list[Message]:
        messages = self._decoder.feed(data)
        if self._filters:
            messages = [one for one in messages if not self._is_repeated(one)]
        if messages:
            self._last = messages[-1]
        return messages

    @property
    def malformed(self) -> bool:
        return self._decoder.malformed

    def close(self) -> Message | None:
        tail = self._decoder.close()
        if tail is None or _event_of(tail) is None:
            return tail
        if self._is_repeated(tail):
            return None
        self._last = tail
        return tail

    @property
    def place(self) -> int | str | None:
        """The cursor of the last message; None if it has none, so that nothing can be read on."""
        return None if self._last is None else self._place_of(_event_of(self._last))

    def next_try(self, *, anew: bool = False) -> tuple[int, str] | None:
        """Prepare a later body; return the number of the try and the query.

        Tries are counted anew once a body brought a message. None if there is no place, unless
        the answer is read `anew`.
        """
        cursor = self.place
        if cursor != self._cursor:
            self._cursor, self._tries = cursor, 0
        if cursor is None and not anew:
            return None
        self._tries += 1
        self._decoder, self._filters, self._replays = self._new(), cursor is not None, False
        fields = [("stream", "true"), *self._fields]
        if cursor is not None:
            fields.insert(1, (self._answer.query, str(cursor)))
        return self._tries, f"?{urlencode(fields)}"

    def _is_repeated(self, message: Message) -> bool:
        """Return whether a message of a later body was in an earlier one.

        Ids have no order: they only show a body that begins with the cursor, or with the answer.
        """
        if not self._filters:
            return False
        event = _event_of(message)
        place = self._place_of(event)
        if isinstance(self._cursor, int):
            self._filters = not isinstance(place, int) or place <= self._cursor
            return self._filters
        name, first = self._answer.first
        self._replays = self._replays or (event is not None and event.get(name) == first)
        self._filters = self._replays and place != self._cursor
        return self._replays or place == self._cursor

    def _place_of(self, event: dict[str, Any] | None) -> int | str | None:
        place = None if event is None else event.get(self._answer.cursor)
        if isinstance(place, str):
            return text_or_none(place) if len(place) <= MAX_CURSOR else None
        return count(place)


def _event_of(message: Message) -> dict[str, Any] | None:
    event = decode_or(message.data, None)
    return event if isinstance(event, dict) else None
