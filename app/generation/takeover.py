"""Takeover: this relay goes on with the streams of dead ones, on routes with `takeover`.

An answer that its provider stores is read again, from its beginning, and goes on where the log
ends. Any other one is continued as if its provider had died, if the route has `rescue`; if it had
not begun, it is asked for again. What cannot be taken over ends as `producer_lost`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from ..dialects.reading.open_blocks import OpenBlocks
from ..errors import RelayError, shutting_down
from ..eventlog.stream_ended import Charge
from ..eventlog.takeover import Orphan
from ..events import Event, Notice, StreamTarget
from ..ledger.accounts import Grant
from ..policies.admission import LOCAL
from ..requests import ChatRequest, Rest
from ..upstreams.routes import Route
from ..upstreams.targets import Target
from .continuation import find_unfinished, has_room, may_be_continued
from .parts import Parts
from .run import TAKEN_OVER
from .runs import Runs
from .shutdown import Shutdown
from .start_options import StartOptions
from .taken import Taken

MOST_TAKEOVERS: Final = 3
"""How often a stream is taken over: its request may be what kills relays."""

_SECOND = frozenset((TAKEN_OVER.code, "rescue", "hedge"))
"""Notices of a second call: no more than that one is reserved."""

MOST_BYTES: Final = 2**20
"""The size of a stored request: the log has it as long as the events."""

log = structlog.get_logger("seseragi.generation")


class StoredRequest(msgspec.Struct, omit_defaults=True):
    """What a stream's log has of its request. New fields need a default."""

    chat: ChatRequest
    linger_s: float | None = None
    headers: Mapping[str, str] = {}
    metadata: dict[str, str] | None = None


def _rest(kind: type, value: Any) -> Any:
    return Rest(value) if kind is Rest else value


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredRequest, dec_hook=_rest).decode


def pack_request(chat: ChatRequest, options: StartOptions) -> bytes:
    """Pack what another relay needs to go on with the answer to a request; empty if it is large."""
    metadata = None if options.metadata is None else dict(options.metadata)
    packed = _encode(StoredRequest(chat, options.linger_s, options.headers, metadata))
    return packed if len(packed) <= MOST_BYTES else b""


def unpack_request(packed: bytes) -> StoredRequest:
    """Do the reverse.

    Raises:
        ValueError: it cannot be read, as that of a later version.
    """
    return _decode(packed)


class Takeovers:
    """Goes on with orphaned streams that the log offers to `heir`."""

    def __init__(self, parts: Parts, runs: Runs, shutdown: Shutdown) -> None:
        self._parts = parts
        self._runs = runs
        self._shutdown = shutdown

    def heir(self, orphan: Orphan) -> Callable[[], None] | None:
        """See `eventlog.takeover.Heir`."""
        info, parts = orphan.info, self._parts
        age_s = max(0.0, parts.clock.wall() - orphan.started_at)
        if age_s >= parts.limits.total_timeout_s:
            return None
        if self._shutdown.draining:
            raise shutting_down()
        parts.admission.check_streams(LOCAL)
        notices = [event.code for event in orphan.events if isinstance(event, Notice)]
        if notices.count(TAKEN_OVER.code) >= MOST_TAKEOVERS:
            return None
        try:
            stored = unpack_request(info.takeover)
            route = parts.upstreams.resolve(info.route)
        except (RelayError, ValueError) as error:
            log.warning("stream cannot be taken over", stream=info.id, error=str(error)[:300])
            return None
        checked = parts.hooks is not None and parts.hooks.of(route.name, "answer")
        if not route.takeover or route.stages or checked:
            return None
        chat = stored.chat
        if info.reserve is not None and orphan.granted is not None:
            chat = parts.reservations.clamp(chat, info.reserve, Grant(orphan.granted))
        found = self._find_way(route, chat, orphan, age_s=age_s, notices=notices)
        if found is None:
            return None
        route, taken = found
        options = StartOptions(
            linger_s=stored.linger_s,
            metadata=stored.metadata,
            client_format=info.client_format,
            headers=stored.headers,
        )
        return partial(self._runs.go_on, info, chat, options, route=route, taken=taken)

    def _find_way(
        self,
        route: Route,
        chat: ChatRequest,
        orphan: Orphan,
        *,
        age_s: float,
        notices: Sequence[str],
    ) -> tuple[Route, Taken] | None:
        """Return how an answer goes on, and at which targets; None if it does not."""
        events = orphan.events
        attempts = [one for one in events if isinstance(one, StreamTarget)]
        taken = Taken(events, age_s, attempts=max(1, len(attempts)), begun=bool(attempts))
        last = attempts[-1] if attempts else None
        target = None if last is None else _find_target(route, chat, last)
        answered = route.targets[0].name if last is None else f"{last.upstream}/{last.model}"
        if target is not None:
            answered = target.name
        if "hedge" in notices:
            taken = taken._replace(charges=[self._charge_hedged(route, answered, orphan)])
        if last is not None:
            taken = taken._replace(attempts=last.attempt, first=1 + events.index(last))
            if len(attempts) == 1 and last.upstream_id and target and target.can_be_read_again:
                route = self._parts.upstreams.with_targets(route, (target,))
                return route, taken._replace(answer=last.upstream_id)
        if not (route.rescue and may_be_continued(chat) and _SECOND.isdisjoint(notices)):
            return None
        answer = find_unfinished(events)
        if answer is None or not has_room(chat, answer.text):
            return None
        charge = self._charge_written(answered, orphan, events[taken.first :])
        taken = taken._replace(charges=[*taken.charges, charge])
        return route, taken._replace(part=charge, unfinished=answer) if last else taken

    def _charge_hedged(self, route: Route, answered: str, orphan: Orphan) -> Charge:
        """Charge the call that ran beside the answer's: the dead relay knew what it has cost."""
        others = [one.name for one in route.targets if one.name != answered]
        name = others[0] if others else answered
        return self._parts.settlements.charge(name, None, request=orphan.info.reserve)

    def _charge_written(self, answered: str, orphan: Orphan, written: Sequence[Event]) -> Charge:
        """Charge the dead relay's part of an answer."""
        blocks = OpenBlocks()
        for event in orphan.events:
            blocks.note(event)
        return self._parts.settlements.charge(
            answered, blocks.usage, request=orphan.info.reserve, written=written
        )


def _find_target(route: Route, chat: ChatRequest, last: StreamTarget) -> Target | None:
    """Return the target that has answered, as far as the log tells."""
    found = [one for one in route.targets if one.for_request(chat).upstream.name == last.upstream]
    named = [one for one in found if one.model == last.model]
    return next(iter([*named, *found]), None)
