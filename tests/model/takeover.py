"""A model of one stream over Redis: claim, lease, renewal, stop, end, and takeover.

Of two replicas each may be killed and come back with its old name, and takes a step or none: one
that takes none is paused, as long as it likes, also beyond its lease. Commands may be on their way
for as long, so that Redis runs them late, and answers may be lost. Redis runs one script at a time.
It loses nothing here: what a failover forgets is a matter of tests with faults.

`APPEND`, `RENEW`, `END` and `TAKE` are those of `app/eventlog/redis/scripts.py`. By `TAKE` another
replica does not end a dead relay's stream, but goes on with it. The rules for both; the search
shows for each what happens without it:

- `fence`: APPEND and RENEW compare the owner and the epoch, and change nothing if one differs.
- `epoch`: each TAKE and END raises the epoch, also for a process that owned the stream before.
- `lease`: TAKE and END take a stream only if its lease is over by the clock of Redis, in the script
  that changes its owner. APPEND need not look at the lease: before a TAKE a late write is in order,
  and after it the fence refuses it.
- `unchanged`: TAKE and END compare the epoch and the last event with what was read before, since
  the closing events, or the request to go on with, were made from that.
- `wait`: an owner shows its readers nothing that Redis lacks, also while Redis is away: who comes
  next goes on with the next number.
- `skip`: APPEND skips the events that Redis has already, since what was not answered is sent again.
- `settle`: the script that stores the end settles.
- `stop`: TAKE refuses a stream that somebody has stopped, which is ended instead.
- `answer`: a provider is called once TAKE has answered, and not if the answer is lost.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

RULES = ("fence", "epoch", "lease", "unchanged", "wait", "skip", "settle", "stop", "answer")

GAP = 10
"""How far beyond all numbers of producers an `END` begins (`STRIDE`)."""

EVENTS = 2
"""The events of one producer, with its end."""


class Size(NamedTuple):
    """How much may happen: what bounds the number of states."""

    claims: int
    sent: int
    """Commands of one replica on their way: one, and one sent again on another connection."""
    stops: bool = True
    """Whether somebody may stop the stream."""


class Event(NamedTuple):
    """An entry of the log; what it says depends on whose it is, and after what."""

    number: int
    claim: int
    """The claim of its producer: another answer of a provider has other events."""
    end: bool
    base: int
    """The last event before those of this claim, as its producer has read it."""


class Command(NamedTuple):
    """A script on its way from a replica, with what that had read."""

    name: str
    epoch: int
    events: tuple[Event, ...] = ()
    last: int = 0


class Replica(NamedTuple):
    up: bool = True
    claim: int = 0
    """The claim by which it believes to own the stream; 0: it does not."""
    epoch: int = 0
    base: int = 0
    made: tuple[Event, ...] = ()
    acked: int = 0
    """How many of them Redis has, as far as it knows."""
    stopped: bool = False
    read: tuple[int, int] | None = None
    """The epoch and the last event of another's stream."""
    sent: tuple[Command, ...] = ()
    answers: tuple[tuple[Command, str, int], ...] = ()
    """Commands that Redis has run, with its answer and a claim."""


class State(NamedTuple):
    replicas: tuple[Replica, ...]
    owner: int = 0
    epoch: int = 1
    lease: bool = True
    log: tuple[Event, ...] = ()
    ended: bool = False
    stop: bool = False
    settled: int = 0
    shown: frozenset[Event] = frozenset()
    """What readers have seen of a replica before Redis had it."""
    claims: int = 1
    called: int = 1
    fault: str = ""
    """An invariant about a step that this state comes from."""


class Takeover:
    """The model, without one of the rules."""

    def __init__(self, size: Size, without: str = "", *, lease_at_append: bool = False) -> None:
        assert not without or without in RULES
        self._size = size
        self._without = without
        self._lease_at_append = lease_at_append

    def start(self) -> State:
        return State((Replica(claim=1, epoch=1), Replica()))

    def is_over(self, state: State) -> bool:
        return state.ended

    def broken(self, state: State) -> str:
        log = state.log
        numbers = [event.number for event in log]
        if [event.end for event in log[:-1]].count(True):
            return "one end, last"
        if state.ended != (bool(log) and log[-1].end):
            return "an ended stream has an end"
        if numbers != sorted({*numbers}):
            return "numbers grow"
        events = {*log, *state.shown}
        if len(events) > len({event.number for event in events}):
            return "an id names one content"
        for before, event in pairwise(log):
            if event.claim < before.claim:
                return "after a claim nothing of an earlier one"
            if event.claim > before.claim and event.base != before.number:
                return "who goes on has read all before"
        if state.settled != state.ended:
            return "settled once, with the end"
        if state.called > state.claims:
            return "one call for each claim"
        return state.fault

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for at, replica in enumerate(state.replicas):
            for number, command in enumerate(replica.sent):
                ran = self._run(state, at, number)
                if command.name != "APPEND" or not ran.replicas[at].answers:
                    yield f"Redis runs {command.name} of {at}", ran
                    continue
                # Nothing depends on when it is heard, only on whether it is.
                yield f"Redis runs APPEND of {at}, which hears it", self._hear(ran, at)
                lost = ran.replicas[at]._replace(answers=())
                yield f"Redis runs APPEND of {at}, which hears nothing", _with(ran, at, lost)
        if state.ended:
            return  # only what is on its way still matters
        if state.lease:
            yield "the lease ends", state._replace(lease=False)
        if self._size.stops and not state.stop:
            yield "a user stops it", state._replace(stop=True)
        for at, replica in enumerate(state.replicas):
            for name, after in self._acts(state, at, replica):
                yield f"{at} {name}", after

    def _acts(self, state: State, at: int, replica: Replica) -> Iterator[tuple[str, State]]:
        if not replica.up:
            yield "comes back", _with(state, at, replica._replace(up=True))
            return
        if replica.claim:
            yield "is killed", _with(state, at, Replica(up=False, sent=replica.sent))
        if replica.answers:
            yield "hears Redis", self._hear(state, at)
            lost = replica._replace(answers=(), read=None)
            yield "hears nothing of Redis", _with(state, at, lost)
        elif replica.claim:
            yield from self._produce(state, at, replica)
        elif replica.read is None:
            if not state.lease or self._without == "lease":
                read = replica._replace(read=(state.epoch, _last(state.log)))
                yield "reads the stream", _with(state, at, read)
        elif len(replica.sent) < self._size.sent:
            yield from self._claim(state, at, replica)

    def _produce(self, state: State, at: int, replica: Replica) -> Iterator[tuple[str, State]]:
        made = replica.made
        if not made or not made[-1].end:
            end = replica.stopped or len(made) == EVENTS - 1
            number = replica.base + len(made) + 1
            event = Event(number, replica.claim, end, replica.base)
            more = replica._replace(made=(*made, event))
            yield ("makes the end" if end else "makes an event"), _with(state, at, more)
        unseen = [event for event in made[replica.acked :] if event not in state.shown]
        if self._without == "wait" and unseen and (replica.acked or replica.claim > 1):
            shown = state._replace(shown=state.shown | {unseen[0]})
            yield "shows what Redis does not have yet, which is away", shown
        command = Command("APPEND", replica.epoch, made[replica.acked :])
        if command.events and command not in replica.sent and len(replica.sent) < self._size.sent:
            sent = replica._replace(sent=(*replica.sent, command))
            yield "sends APPEND", _with(state, at, sent)
        yield "renews its lease", self._renew(state, at, replica)

    def _claim(self, state: State, at: int, replica: Replica) -> Iterator[tuple[str, State]]:
        epoch, last = replica.read or (0, 0)
        for name in ("TAKE", "END") if state.claims < self._size.claims else ("END",):
            sent = (*replica.sent, Command(name, epoch, (), last))
            after = _with(state, at, replica._replace(sent=sent))
            if name == "TAKE" and self._without == "answer":
                after = after._replace(called=after.called + 1)
            yield f"sends {name}", after

    def _hear(self, state: State, at: int) -> State:
        replica = state.replicas[at]
        ((command, answer, claim),) = replica.answers
        replica = replica._replace(answers=(), read=None)
        if command.name == "TAKE" and answer == "ok":
            epoch = command.epoch + (self._without != "epoch")
            replica = replica._replace(claim=claim, epoch=epoch, base=command.last)
            calls = self._without != "answer"
            return _with(state, at, replica)._replace(called=state.called + calls)
        if command.name != "APPEND" or command.epoch != replica.epoch:
            return _with(state, at, replica)  # refused, or of an earlier claim
        if answer == "fenced":
            return _with(state, at, Replica(sent=replica.sent))
        if command.events[-1] in replica.made:
            acked = 1 + replica.made.index(command.events[-1])
            replica = replica._replace(acked=max(acked, replica.acked))
        return _with(state, at, replica._replace(stopped=replica.stopped or answer == "stop"))

    # The scripts

    def _run(self, state: State, at: int, number: int) -> State:
        """Run a command, whose answer comes later, or never: then another is sent."""
        command = state.replicas[at].sent[number]
        script = self._append if command.name == "APPEND" else self._take
        state, answer = script(state, at, command)
        replica = state.replicas[at]
        replica = replica._replace(sent=_without(replica.sent, number))
        if replica.up and (replica.claim > 0) == (command.name == "APPEND"):
            replica = replica._replace(answers=((command, answer, state.claims),))
        return _with(state, at, replica)

    def _is_owner(self, state: State, at: int, command: Command) -> bool:
        return self._without == "fence" or (state.owner, state.epoch) == (at, command.epoch)

    def _append(self, state: State, at: int, command: Command) -> tuple[State, str]:
        if not self._is_owner(state, at, command):
            return state, "fenced"
        if self._lease_at_append and not state.lease:
            return state, "fenced"
        last = _last(state.log)
        new = [one for one in command.events if one.number > last or self._without == "skip"]
        ends = bool(new) and new[-1].end
        late = bool(new) and new[0].claim < state.claims
        stored = state._replace(
            log=(*state.log, *new),
            shown=state.shown - {*new},  # the log has them now
            ended=state.ended or ends,
            settled=state.settled + (ends and self._without != "settle"),
            fault=state.fault or ("after a claim nothing of an earlier one" if late else ""),
        )
        return stored, "stop" if state.stop else "ok"

    def _renew(self, state: State, at: int, replica: Replica) -> State:
        if self._without != "fence" and (state.owner, state.epoch) != (at, replica.epoch):
            return _with(state, at, Replica(sent=replica.sent))
        heard = replica._replace(stopped=state.stop or replica.stopped)
        return _with(state._replace(lease=True), at, heard)

    def _take(self, state: State, at: int, command: Command) -> tuple[State, str]:
        """Do TAKE and END, which differ in who goes on."""
        read = command.epoch, command.last
        if state.ended or (
            read != (state.epoch, _last(state.log)) and self._without != "unchanged"
        ):
            return state, "no"
        if state.lease and self._without != "lease":
            return state, "no"
        takes = command.name == "TAKE"
        if takes and state.stop and self._without != "stop":
            return state, "no"
        fault = "who keeps its lease keeps its stream" if state.lease else state.fault
        if takes and state.stop:
            fault = "no call after a stop"
        claimed = state._replace(
            owner=at,
            epoch=state.epoch + (self._without != "epoch"),
            lease=takes,
            claims=state.claims + 1,
            fault=fault,
        )
        if takes:
            return claimed, "ok"
        number = GAP + _last(state.log)
        end = Event(number, claimed.claims, end=True, base=command.last)
        settled = state.settled + (self._without != "settle")
        return claimed._replace(log=(*state.log, end), ended=True, settled=settled), "ok"


def _with(state: State, at: int, replica: Replica) -> State:
    replicas = (*state.replicas[:at], replica, *state.replicas[at + 1 :])
    return state._replace(replicas=replicas)


def _without(values: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    return (*values[:at], *values[at + 1 :])


def _last(log: tuple[Event, ...]) -> int:
    return log[-1].number if log else 0
