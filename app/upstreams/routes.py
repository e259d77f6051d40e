"""Resolves model names to routes and targets, and tracks the health of the targets.

A name is a route's, one listed by an upstream, `upstream/model`, or, if only one upstream
accepts any model, any name of that upstream. All but routes require passthrough.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache, partial
from typing import NamedTuple

import msgspec
import structlog

from ..dialects.model_facts import NOTHING, ModelFacts, least
from ..errors import RequestError
from ..events import Notice
from ..identity.principal import Principal
from ..policies.affinity import draw, hash_conversation
from ..policies.balance import BALANCES, Balance, Candidate, TargetStats, arrange
from ..policies.capacity import Capacity
from ..policies.deadlines import Limits
from ..policies.retry import Breaker, Plan, Rules, State, TargetPolicy
from ..requests import ChatRequest
from .cassettes import CASSETTE, PREFIX, find_cassette
from .cassettes import public_name as cassette_name
from .endpoints import Upstream
from .http import HttpClient
from .models import LIST_S, ModelLists, look_up
from .targets import Target
from .transforms import RequestChanges

MAX_BREAKERS = 10_000
"""Targets with a breaker: clients may name any model."""

MAX_FAILING = 100
"""Failing targets in the health report, beside those of the routes."""

MAX_NAME = 2048
"""Characters of a model name from a client: Amazon's are the longest."""

REMEMBERED = 512
"""Cached names that are not routes, with their targets: 2 to 8 KiB each."""

OWNER = "seseragi"
"""The owner of routes in the list of models."""

log = structlog.get_logger("seseragi.routes")


class Hedge(msgspec.Struct, frozen=True):
    """The condition of a second attempt."""

    percentile: float
    """Of the target's recent times until the first event: then the first attempt is late."""
    share: float
    """The maximum share of requests with a second attempt."""


class Spent(msgspec.Struct, frozen=True):
    """Another target for accounts that have spent a share of a budget."""

    share: float
    target: Target


class Route(msgspec.Struct, frozen=True):
    """A public model name and its ordered targets."""

    name: str
    targets: tuple[Target, ...]
    budget_s: float | None = None
    """The time until an answer begins, over all attempts."""
    balance: Balance = BALANCES["affinity"]
    """How a target is chosen among those of the same order."""
    record_content: bool = False
    """Whether the records store the request and the answer."""
    aliases: tuple[str, ...] = ()
    """Other names for clients."""
    changes: RequestChanges | None = None
    """The changes of requests; each target has them too."""
    hedge: Hedge | None = None
    """When a second attempt is made beside a late one; None: never."""
    rescue: bool = False
    """Whether another target continues an answer whose upstream died."""
    takeover: bool = False
    """Whether another relay goes on with an answer whose relay died."""
    stages: tuple[str, ...] = ()
    """The stages of installed packages that its answers pass, in their order."""
    spent: Spent | None = None
    counted: bool = False
    """Whether its requests are counted, since some route chooses by their target's capacity."""
    notices: tuple[Notice, ...] = ()
    """Of what changed a request before its stream began."""
    requested_name: str = ""
    """The name in `stream.start`, if it is not the route's: a replay has the recorded one."""
    has_doors: bool = False
    """Whether the request decides about the API of some target's provider."""

    def for_request(self, chat: ChatRequest) -> "Route":
        """Return the route with its targets at the APIs that a request takes."""
        targets = tuple([target.for_request(chat) for target in self.targets])
        return msgspec.structs.replace(self, targets=targets)

    @property
    def is_timed(self) -> bool:
        """Whether it needs the times of its targets until the first event."""
        return self.hedge is not None or self.balance.by_time


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """The health of a target."""

    target: str
    state: State
    retry_after_s: float | None = None
    """The remaining time of its pause, or of its open breaker."""


PriceOf = Callable[[str], tuple[int, int] | None]
"""Returns the prices of a target per million input and output tokens, in nano-USD.

Thread-safe.
"""


class Listed(NamedTuple):
    """An entry of the list of models."""

    name: str
    owner: str
    about: ModelFacts


class ModelList(list[Listed]):
    """The list of models, never changed, and hashed by its identity."""

    __hash__ = object.__hash__  # type: ignore[assignment]


Lists = Mapping[str, Mapping[str, ModelFacts]]
"""The models of each upstream that was queried."""


class Breakers:
    """The breakers of recently used targets by name, shared by all routes."""

    def __init__(
        self,
        rules: Rules = Rules(),  # noqa: B008  (it is frozen)
        *,
        max_breakers: int = MAX_BREAKERS,
    ) -> None:
        self._rules = rules
        self._max_breakers = max_breakers
        self._breakers: OrderedDict[str, Breaker] = OrderedDict()

    def __len__(self) -> int:
        return len(self._breakers)

    def of(self, target: Target) -> Breaker:
        """Return the target's breaker: a new one for a replay, whose failures are scripted."""
        if target.replays:
            return Breaker(self._rules)
        breaker = self._breakers.get(target.name)
        if breaker is None:
            breaker = self._breakers[target.name] = Breaker(self._rules)
        self._breakers.move_to_end(target.name)
        if len(self._breakers) > self._max_breakers:
            self._breakers.popitem(last=False)
        return breaker

    def named(self, name: str) -> Breaker:
        """Return the breaker of `upstream/model`, a new one for an unknown target."""
        return self._breakers.get(name) or Breaker()

    def state(self, name: str, now: float) -> State:
        """Return the state of a target."""
        return self.named(name).state(now)

    def failing(self, among: Container[str], now: float) -> list[str]:
        """List the given targets that failed recently, at most the last used."""
        last = [
            name
            for name, breaker in self._breakers.items()
            if name in among and not breaker.is_well(now)
        ]
        return last[-MAX_FAILING:]


class Upstreams:
    """All configured upstreams and routes, by model name."""

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        *,
        routes: Sequence[Route] = (),
        default_model: str | None = None,
        passthrough: bool = True,
        attempts: int = 2,
        rules: Rules = Rules(),  # noqa: B008  (it is frozen)
        chance: Callable[[], float] = random.random,
        cassettes: Callable[[], Sequence[str]] | None = None,
        affinity_secret: bytes = b"",
    ) -> None:
        """Set the configuration; `cassettes` lists the cassettes, None without a folder."""
        self._affinity_secret = affinity_secret
        self._cassettes = cassettes
        self.all = tuple(upstreams)
        self._counted = {
            target.name for route in routes if len(route.targets) > 1 for target in route.targets
        }
        routes = [self.with_targets(route, route.targets) for route in routes]
        self.routes = {route.name: route for route in routes}
        self._aliases = {alias: route for route in routes for alias in route.aliases}
        self.breakers = Breakers(rules)
        self.stats = TargetStats()
        self._capacities: dict[str, Capacity] = {}
        self._failed: set[str] = set()
        self._passthrough = passthrough
        self._choice = TargetPolicy(attempts=attempts)
        self._chance = chance
        self._by_name = {upstream.name: upstream for upstream in upstreams}
        self._listed = {
            upstream.public_name(model): (upstream, model)
            for upstream in upstreams
            for model in upstream.models
            if passthrough or not upstream.prefixed
        }
        self._found = lru_cache(REMEMBERED)(self._route_to)
        self._lists = ModelLists()
        of_routes = {target.upstream.name for route in routes for target in route.targets}
        self._queried = [
            upstream
            for upstream in self.all
            if upstream.name in of_routes
            or (passthrough and not upstream.models)
            or not upstream.prefixed
        ]
        self._sources: object = None
        """What the list of models was made of."""
        self._made: asyncio.Future[ModelList]
        self.default_model = default_model or self._first_default()

    def become(self, other: "Upstreams") -> None:
        """Replace the upstreams and routes by those of another instance; their state stays."""
        kept = {name: getattr(self, name) for name in ("breakers", "stats", "_capacities")}
        vars(self).update(vars(other), **kept)

    def resolve(self, model: str | None) -> Route:
        """Find the route of a model name; None means the default.

        Raises:
            RequestError: `model_not_found`, with the names that exist.
        """
        name = model or self.default_model
        if name is None:
            raise RequestError("invalid_request", f"model: name one of {self._known()}")
        route = self.routes.get(name) or self._aliases.get(name)
        if route is not None:
            return route
        if self._cassettes is not None and (replay := find_cassette(name)) is not None:
            return Route(name, (replay,))
        return self._found(name)

    def _route_to(self, name: str) -> Route:
        """Return a route with the one target of a name that is not a route."""
        upstream, own_name = self._listed.get(name) or self._find(name)
        target = Target(upstream, own_name, self._choice)
        return self.with_targets(Route(name, ()), (target,))

    def with_targets(self, route: Route, targets: tuple[Target, ...]) -> Route:
        """Return a route with these targets."""
        counted = any(target.name in self._counted for target in targets)
        doors = any(target.upstream.doors for target in targets)
        return msgspec.structs.replace(route, targets=targets, counted=counted, has_doors=doors)

    def resolve_for(self, principal: Principal, model: str | None) -> Route:
        """Find the route of a model name for a principal.

        Raises:
            RequestError: `model_not_found`; `forbidden`, the principal may not use it.
        """
        if principal.models is None:
            return self.resolve(model)
        try:
            route = self.resolve(model)
        except RequestError as error:  # its message lists all models
            what = f"unknown model {model[:120]!r}" if model else "model: name one"
            raise RequestError(error.code, f"{what}; GET /v1/models lists them") from None
        name = self.public_name(route)
        if not principal.may_use(name):
            which = f"model {name[:120]!r}" if model else f"the default model {name!r}"
            raise RequestError(
                "forbidden",
                f"{which} is not allowed for this credential; GET /v1/models lists those that are",
            )
        return route

    def public_name(self, route: Route) -> str:
        """Return the canonical name of a route.

        Rights are checked by it: an unlisted name may begin like another upstream's.
        """
        if route.name in self.routes:
            return route.name
        if self._cassettes is not None and route.targets[0].replays:
            return cassette_name(route.name)
        target = route.targets[0]
        return target.upstream.public_name(target.model)

    def plan(
        self,
        route: Route,
        *,
        now: float,
        deadline: float,
        limits: Limits,
        chat: ChatRequest | None = None,
        metadata: Mapping[str, str] | None = None,
        owner: str = "",
        tokens: int = 0,
    ) -> Plan:
        """Return the order in which to try a route's targets, for a conversation if it is one."""
        choices = [target.policy for target in route.targets]
        breakers = [*map(self.breakers.of, route.targets)]
        order = [0]
        if len(choices) > 1:
            order = arrange(
                choices,
                breakers,
                now=now,
                order=partial(self._order, route, now, chat, metadata, owner),
                is_full=lambda index: self.is_full(route.targets[index], tokens=tokens, now=now),
            )
            if route.balance.by_time:
                self.stats.tried(route.targets[order[0]].name, now=now)
        breakers[order[0]].claim(now)
        each_s = [
            target.silence_s(limits, last=index == order[-1])
            for index, target in enumerate(route.targets)
        ]
        return Plan(
            choices,
            order,
            now=now,
            deadline=deadline,
            each_s=each_s,
            chance=self._chance,
        )

    def capacity_of(self, target: Target) -> Capacity:
        """Return the capacity of a target of a route that is counted."""
        capacity = self._capacities.get(target.name)
        if capacity is None:
            capacity = self._capacities[target.name] = Capacity()
        return capacity

    def is_full(self, target: Target, *, tokens: int, now: float) -> bool:
        """Return whether a target of a route with several ones lacks room for so many tokens."""
        return not self.capacity_of(target).has_room(target.capacity, tokens=tokens, now=now)

    def _order(
        self,
        route: Route,
        now: float,
        chat: ChatRequest | None,
        metadata: Mapping[str, str] | None,
        owner: str,
        equal: Sequence[int],
    ) -> list[int]:
        """Order equal targets by the route's balance, for a conversation if it is one."""
        key = None
        if chat is not None and route.balance.by_conversation:
            key = hash_conversation(chat, metadata, owner=owner, secret=self._affinity_secret)
        candidates = [
            Candidate(
                index,
                target.name,
                target.policy.weight,
                draw=self._chance() if key is None else draw(key, target.name),
                running=self.capacity_of(target).running,
                expected_s=self.stats.expect(target.name, now=now),
            )
            for index in equal
            for target in (route.targets[index],)
        ]
        try:
            order = [*route.balance.order(candidates), *candidates]
            return [one.position for one in dict.fromkeys(order)]
        except Exception:  # it may be another package's; the stream is in the log already
            name = type(route.balance).__name__
            if name not in self._failed:
                self._failed.add(name)
                log.exception("balance failed; its targets are tried by chance", balance=name)
            return [one.position for one in BALANCES["random"].order(candidates)]

    def health(self, *, now: float) -> list[Health]:
        """Return the health of the routes' targets, and of failing configured models.

        Other names came from clients, and are not shown to others.
        """
        names = self._targets_of_routes()
        failing = self.breakers.failing(self.configured_targets(), now)
        return [
            Health(name, breaker.state(now), round(breaker.open_for(now), 1) or None)
            for name in dict.fromkeys([*names, *failing])
            for breaker in (self.breakers.named(name),)
        ]

    def _targets_of_routes(self) -> list[str]:
        targets = [target.name for route in self.routes.values() for target in route.targets]
        spent = [route.spent.target.name for route in self.routes.values() if route.spent]
        return [*targets, *spent]

    def configured_targets(self) -> set[str]:
        """Return the configured targets, as `upstream/model`."""
        configured = {f"{one.name}/{model}" for one in self.all for model in one.models}
        configured |= {f"{one.name}/{one.default_model}" for one in self.all if one.default_model}
        if self.default_model is not None:
            configured |= {target.name for target in self.resolve(None).targets}
        return configured.union(self._targets_of_routes())

    def listed_name(self, model: str) -> str:
        """Return the name in the list of models: that of its route for an alias."""
        route = self._aliases.get(model)
        return model if route is None else route.name

    def configured_name(self, model: str) -> str | None:
        """Return the route of a name, or the upstream that it passes through to; None if neither.

        The result is always a configured name, never text from a client.
        """
        if (name := self.listed_name(model)) in self.routes:
            return name
        if self._cassettes is not None and model.startswith(PREFIX):
            return CASSETTE.name
        try:
            upstream, _ = self._listed.get(model) or self._find(model)
        except RequestError:
            return None
        return upstream.name

    def states(self, *, now: float) -> list[tuple[str, State]]:
        """Return the state of each configured target."""
        return [
            (name, self.breakers.state(name, now)) for name in sorted(self.configured_targets())
        ]

    async def models(self, client: HttpClient, price_of: PriceOf) -> ModelList:
        """List the models with their facts, the default first; the same list until one changes.

        An upstream without configured models is queried; if it does not answer, it lists none,
        but still accepts `upstream/model`. Upstreams of routes are queried for the facts of their
        models.
        """
        lists = await self._fetch_lists(client)
        names = [] if self._cassettes is None else await asyncio.to_thread(self._cassettes)
        # Prices depend on the time of day.
        sources = (lists, names, price_of, asyncio.get_running_loop().time() // LIST_S)
        if self._sources != sources or _has_failed(self._made):
            # In a thread, and of a copy: a reload may replace the routes meanwhile.
            work = asyncio.to_thread(copy(self)._list_models, lists, names, price_of)
            self._sources, self._made = sources, asyncio.ensure_future(work)
        return await asyncio.shield(self._made)

    async def _fetch_lists(self, client: HttpClient) -> Lists:
        """Query the upstreams whose model lists add facts to the settings."""
        answers = await asyncio.gather(*(self._lists.get(client, one) for one in self._queried))
        return {one.name: found for one, found in zip(self._queried, answers, strict=True)}

    def _list_models(self, lists: Lists, cassettes: Sequence[str], price_of: PriceOf) -> ModelList:
        rows = {
            name: _Row(OWNER, [(t.upstream, t.model) for t in route.targets])
            for name, route in self.routes.items()
        }
        rows |= {name: _Row(place[0].name, [place]) for name, place in self._listed.items()}
        rows |= {
            upstream.public_name(model): _Row(upstream.name, [(upstream, model)])
            for upstream in self.all
            if self._passthrough and not upstream.models
            for model in lists.get(upstream.name, {})
        }
        if self.default_model is not None:
            default = self.resolve(None)
            targets = [(target.upstream, target.model) for target in default.targets]
            first = rows.get(default.name) or _Row(targets[0][0].name, targets)
            rows = {default.name: first, **rows}
        found = ModelList(_find_facts(rows, lists, price_of))
        found += [Listed(f"{PREFIX}{name}", CASSETTE.name, NOTHING) for name in cassettes]
        return found

    def _find(self, name: str) -> tuple[Upstream, str]:
        """Find the upstream of an unlisted name, and the model's name there."""
        if self._passthrough and len(name) <= MAX_NAME:
            prefix, _, rest = name.partition("/")
            upstream = self._by_name.get(prefix)
            if upstream is not None and rest and upstream.prefixed:
                return upstream, rest
            open_ended = [upstream for upstream in self.all if upstream.prefixed]
            if len(open_ended) == 1:
                return open_ended[0], name
        raise RequestError(
            "model_not_found", f"unknown model {name[:120]!r}; models: {self._known()}"
        )

    def _first_default(self) -> str | None:
        if self.routes:
            return next(iter(self.routes))
        # A built-in model is the default only without providers.
        providers = [upstream for upstream in self.all if upstream.prefixed]
        for upstream in providers or self.all:
            model = upstream.default_model or next(iter(upstream.models), None)
            if model and (self._passthrough or not upstream.prefixed):
                return upstream.public_name(model)
        return None

    def _known(self) -> str:
        names = [repr(name) for name in (*self.routes, *self._listed)]
        if self._cassettes is not None:
            names.append(repr(f"{PREFIX}..."))
        if self._passthrough:
            names += [repr(f"{one.name}/...") for one in self.all if one.prefixed]
        return ", ".join(names)


class _Row(NamedTuple):
    """A model to list, with its targets."""

    owner: str
    targets: Sequence[tuple[Upstream, str]]


def _find_facts(rows: Mapping[str, _Row], lists: Lists, price_of: PriceOf) -> Iterator[Listed]:
    """Yield each model with its facts."""
    for name, (owner, targets) in rows.items():
        abouts = []
        for upstream, model in targets:
            about = lists.get(upstream.name, {}).get(model, NOTHING)
            if about.context_length is None:
                more = look_up(model, upstream.base_url)
                name_of, length = about.name or more.name, more.context_length
                about = msgspec.structs.replace(about, name=name_of, context_length=length)
            prices = price_of(f"{upstream.name}/{model}")
            abouts.append(msgspec.structs.replace(about, prices=prices))
        yield Listed(name, owner, least(abouts) if owner == OWNER else abouts[0])


def _has_failed(made: "asyncio.Future[ModelList]") -> bool:
    """Return whether a list could not be made, which the next request tries again."""
    return made.done() and (made.cancelled() or made.exception() is not None)
