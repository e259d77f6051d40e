"""Conversations that continue stored responses: references resolved to their items.

Responses form a chain by `previous_response_id`. A response whose chain is long, in turns or in
seconds, also stores the items of all earlier turns, which ends the chain. So a conversation can
continue for at least half of the retention after each turn, and costs a bounded number of
look-ups.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ..bounds import MAX_MESSAGES, check_json
from ..dialects.openai_responses.client.result import is_response_id, name_of, render_result
from ..dialects.openai_responses.client.stored import (
    REFERENCE,
    Head,
    Item,
    Stored,
    decode_stored,
    encode_item,
    encode_stored,
    find_reference,
    items_name,
    join_items,
    list_items,
    name_items,
    read_head,
    replace_input,
)
from ..dialects.openai_responses.item_ids import token_of
from ..errors import RequestError
from ..generation.owned_streams import OwnedStream, OwnedStreams
from ..policies.admission import RequestMemory, estimate_memory
from .http_settings import HttpSettings

MAX_LINKS = 32
"""The most responses of a chain."""

MAX_REFERRED = 100
"""The most responses that one request may refer to items of. The last one has, in its request,
everything before it, so nearly all requests need only one."""


class Resolved(NamedTuple):
    """A request with all items that it refers to."""

    body: bytes
    previous: str | None
    stored: bytes
    """The part to store with its stream; empty if `store` is false."""


class _Turn(NamedTuple):
    """The stored items of one response, those of its request first."""

    stored: Stored
    given: list[Item]
    made: list[Item]
    status: str
    ended_at: float | None


class _Chain(NamedTuple):
    items: list[Item]
    links: int
    since: float
    """The end of the first turn of the chain, in unix seconds."""


class _Room:
    """The bound on stored items that one request may gather."""

    def __init__(self, most: int, *, memory: RequestMemory | None = None, base: int = 0) -> None:
        self._most = most
        self._memory = memory
        self._base = base
        self._bytes = 0
        self._items = 0

    def take(self, items: list[Item]) -> None:
        self._items += len(items)
        self._bytes += sum(len(item.data) for item in items)
        if self._items > MAX_MESSAGES:
            raise _too_large(f"it has more than {MAX_MESSAGES} items")
        if self._bytes > self._most:
            raise _too_large(f"it is larger than {self._most} bytes")
        if self._memory is not None:
            self._memory.resize(self._base + 2 * self._bytes)


class StoredResponses:
    """Look-ups of referenced responses in the log."""

    def __init__(self, http_settings: HttpSettings, *, wall: Callable[[], float]) -> None:
        self._http_settings = http_settings
        self._wall = wall

    async def resolve(
        self, streams: OwnedStreams, body: bytes, *, memory: RequestMemory
    ) -> Resolved:
        """Replace the references in a body by their items; most bodies have none.

        Raises:
            RequestError: `previous_response_not_found` or `not_found`, they are not stored;
                `invalid_request` or `request_too_large`, there are too many.
            ServiceError: there is no memory for them.
        """
        try:
            head = read_head(body)
            if head.previous_response_id is None and REFERENCE not in body:
                return Resolved(body, None, _pack(head, Stored(head.input)))
            check_json(body)
            own = list_items(head.input)
        except (msgspec.MsgspecError, RecursionError):  # the parser reports the error
            return Resolved(body, None, b"")
        room = _Room(
            self._http_settings.max_request_bytes, memory=memory, base=estimate_memory(body)
        )
        previous = _previous(head)
        chain = None if previous is None else await self._gather(streams, previous, room)
        earlier = [] if chain is None else chain.items
        known = {item.id: item.data for item in earlier}
        own = await _replace(streams, own, known=known, room=room)
        whole = replace_input(body, [*(item.data for item in earlier), *own])
        if len(whole) > self._http_settings.max_request_bytes:
            raise _too_large(
                f"its {len(whole)} bytes are larger than the limit of "
                f"{self._http_settings.max_request_bytes} bytes (max_request_bytes)"
            )
        memory.resize(estimate_memory(whole))
        stored = Stored(join_items(own), previous)
        if chain is not None and self._is_long(chain):
            stored = Stored(stored.input, carried=[item.data for item in earlier])
        return Resolved(whole, previous, _pack(head, stored))

    async def list_input(self, streams: OwnedStreams, stream: OwnedStream) -> list[Item] | None:
        """Return the input items of a response; None if they are not stored.

        Raises:
            RequestError: `previous_response_not_found`, those of earlier turns are deleted.
        """
        stored = decode_stored((await stream.info()).request)
        if stored is None:
            return None
        own = [*name_items(stream.id, list_items(stored.input), letter="i")]
        if stored.previous is None:
            return [*name_items(stream.id, stored.carried or [], letter="c"), *own]
        room = _Room(self._http_settings.max_request_bytes)
        chain = await self._gather(streams, stored.previous, room)
        return [*chain.items, *own]

    async def _gather(self, streams: OwnedStreams, response: str, room: _Room) -> _Chain:
        """Return the items of a response and of its chain, the first turn first."""
        turns: list[list[Item]] = []
        at: str | None = response
        since = self._wall()
        while at is not None:
            await asyncio.sleep(0)  # a turn may have a million events
            stream = await _find(streams, at)
            turn = None if stream is None else await _read(stream)
            if stream is None or turn is None:
                raise _gone(response, "" if at == response else f": {at!r} before it is gone")
            if not turns:
                _check_status(response, turn.status)
            since = turn.ended_at or since
            turns.append([*turn.given, *turn.made])
            room.take(turns[-1])
            at = turn.stored.previous
        items = [item for turn_items in reversed(turns) for item in turn_items]
        return _Chain(items, len(turns), since)

    def _is_long(self, chain: _Chain) -> bool:
        age_s = self._wall() - chain.since
        return chain.links >= MAX_LINKS or age_s > self._http_settings.retention_s / 2


async def _replace(
    streams: OwnedStreams,
    own: list[msgspec.Raw],
    *,
    known: dict[str, msgspec.Raw],
    room: _Room,
) -> list[msgspec.Raw]:
    """Replace references by items, from the last one, whose response has the most items."""
    read: set[str] = set()
    for at in range(len(own) - 1, -1, -1):
        item = find_reference(own[at])
        if item is None:
            continue
        token = token_of(item)
        if item not in known and token is not None and token not in read:
            read.add(token)
            if len(read) > MAX_REFERRED:
                raise RequestError(
                    "invalid_request",
                    f"input: it refers to items of more than {MAX_REFERRED} responses; "
                    "send the items themselves",
                )
            await _learn(streams, token, known=known, room=room)
        if item not in known:
            raise _no_item(item)
        own[at] = known[item]
    return own


async def _learn(
    streams: OwnedStreams, token: str, *, known: dict[str, msgspec.Raw], room: _Room
) -> None:
    """Add all items that are stored with one response to `known`."""
    stream = await streams.find(items_name(token))
    turn = None if stream is None else await _read(stream)
    if turn is not None:
        items = [*turn.given, *turn.made]
        room.take(items)
        for item in items:
            known.setdefault(*item)


async def _find(streams: OwnedStreams, response: str) -> OwnedStream | None:
    return await streams.find(name_of(response)) if is_response_id(response) else None


async def _read(stream: OwnedStream) -> _Turn | None:
    """Read the stored items of a response; None if it is not stored or is deleted."""
    try:
        stored = decode_stored((await stream.info()).request)
        if stored is None:
            return None
        result = render_result(stream.id, await stream.events())
        state = stream.state if stream.state.ended else await stream.look()
    except RequestError:  # just deleted
        return None
    given = [
        *name_items(stream.id, stored.carried or [], letter="c"),
        *name_items(stream.id, list_items(stored.input), letter="i"),
    ]
    made = [Item(item["id"], encode_item(item)) for item in result["output"]]
    return _Turn(stored, given, made=made, status=result["status"], ended_at=state.ended_at)


def _pack(head: Head, stored: Stored) -> bytes:
    return b"" if head.store is False else encode_stored(stored)


def _previous(head: Head) -> str | None:
    previous = head.previous_response_id
    if previous is not None and not isinstance(previous, str):
        raise RequestError("invalid_request", "previous_response_id: it must be a string")
    return previous


def _check_status(response: str, status: str) -> None:
    """Check that a response has ended by itself, so that it can be continued."""
    if status in ("queued", "in_progress"):
        raise RequestError(
            "invalid_request",
            f"previous_response_id: the response {response!r} is {status}; wait for its end",
        )
    if status not in ("completed", "incomplete"):
        raise _gone(
            response, f": it is {status}; only completed or incomplete responses can be continued"
        )


def _gone(response: str, why: str = "") -> RequestError:
    what = f"Previous response with id {response[:80]!r} not found{why}."
    return RequestError("previous_response_not_found", what)


def _no_item(item: str) -> RequestError:
    return RequestError(
        "not_found",
        f"Item with id {item[:80]!r} not found. Items are not persisted when `store` is set to "
        "false. Try again with `store` set to true, or remove this item from your input. The relay "
        "keeps items with their response, for `retention_s` after its end.",
    )


def _too_large(what: str) -> RequestError:
    return RequestError(
        "request_too_large",
        f"the request with all that it refers to is too large: {what}; begin a new conversation",
    )
