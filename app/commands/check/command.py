"""`seseragi check`: calls each target once and reports what needs to be fixed."""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from ...composition import build_price_book
from ...demo import DemoTransport
from ...errors import RequestError
from ...generation.reservation import Reservations
from ...generation.settlement import Settlements
from ...identity.principal import ANYONE
from ...ledger.prices import PriceBook
from ...ledger.rates import to_nano, to_usd
from ...policies.deadlines import Limits
from ...server.serving import loop_factory
from ...settings import Settings, SettingsError, load_settings
from ...settings.load import find_contradictions
from ...settings.upstreams import DEMO
from ...telemetry.logs import configure_logs
from ...upstreams.endpoints import Upstream
from ...upstreams.http import open_client
from ...upstreams.routes import Route, Upstreams
from ...upstreams.targets import Target
from ..terminal import add_config, escape
from .report import (
    ANSWER,
    MAX_TOKENS,
    CheckReport,
    Status,
    TargetProblem,
    TargetReport,
    ask,
    count,
    explain,
    find_defects,
    lines,
)

AT_ONCE: Final = 8
"""Targets called at once."""

DEMO_MODEL: Final = "demo"
"""Checked if there is no provider."""

TIMEOUT_S: Final = 60.0
MAX_TIMEOUT_S: Final = 3600.0


class Selection(NamedTuple):
    """Targets and upstreams to check."""

    targets: Sequence[Target]
    unnamed: Sequence[Upstream] = ()
    """Upstreams without a known model."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments to a parser."""
    parser.description = (
        "Call each target once for a short answer, and report what works, what it cost, and how "
        "to fix the rest. Calls to providers cost money."
    )
    parser.epilog = "exit status: 0 all work, 1 a target fails, 2 the check could not start"
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a route, upstream/model, or an upstream (default: every target of the settings)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=float,
        default=TIMEOUT_S,
        help=f"time limit of a call in seconds (default: {TIMEOUT_S:g})",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the targets and their URLs only"
    )
    add_config(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Check the targets of the settings, print the report, and return the exit status.

    Raises:
        SettingsError: the settings cannot be used, or there is nothing to call.
    """
    if not 0 < options.timeout <= MAX_TIMEOUT_S:
        raise SettingsError(f"--timeout: not above 0 and up to {MAX_TIMEOUT_S:g} seconds")
    settings = load_settings(environ, config=options.config)
    configure_logs(format=settings.log_format, level="error")  # the report has the rest
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(check(options, settings, build_price_book(settings)))


async def check(options: argparse.Namespace, settings: Settings, book: PriceBook) -> int:
    """Check the targets, print the report, and return the exit status.

    Raises:
        SettingsError: there is nothing to call.
    """
    for line in find_contradictions(settings):
        print(f"warning: {escape(line)}", file=sys.stderr)
    selection = select(options.names, settings)
    if options.dry_run:
        for target in selection.targets:
            print(f"{escape(target.name)}  {escape(target.upstream.base_url)}")
        return 0
    called = count(sum(not _embeds(target) for target in selection.targets), "call")
    message = f"{called} of at most {MAX_TOKENS} tokens."
    if not options.json or sys.stderr.isatty():
        print(message, file=sys.stderr if options.json else sys.stdout, flush=True)
    report = await Check(settings, book, timeout_s=options.timeout).run(selection)
    if options.json:
        print(json.dumps(msgspec.to_builtins(report), indent=2))
    else:
        print("\n".join(lines(report)))
    return 0 if report.ok else 1


def _embeds(target: Target) -> bool:
    """Return whether a model makes embeddings, by its name."""
    return "embed" in target.model.lower()


class Check:
    """One run of the check."""

    def __init__(self, settings: Settings, book: PriceBook, *, timeout_s: float) -> None:
        self._reservations = Reservations(settings.ledger.limits, book)
        self._settlements = Settlements(book)
        self._book = book
        self._limits = Limits(
            connect_timeout_s=min(settings.connect_timeout_s, timeout_s),
            first_event_timeout_s=timeout_s,
            event_gap_timeout_s=min(settings.event_gap_timeout_s, timeout_s),
            idle_timeout_s=min(settings.idle_timeout_s, timeout_s),
            total_timeout_s=timeout_s,
            max_line=settings.max_line_bytes,
            max_event=settings.max_event_bytes,
        )
        self._client = open_client(
            connect_timeout_s=self._limits.connect_timeout_s,
            mounts={"all://demo": DemoTransport()},
        )
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def run(self, selection: Selection) -> CheckReport:
        """Call all targets, some at once, and return the report."""
        async with self._client:
            rows = await asyncio.gather(*map(self._check, selection.targets))
        rows += map(_skip, selection.unnamed)
        costs = [row.answer.cost_usd for row in rows if row.answer is not None]
        known = [to_nano(cost) for cost in costs if cost is not None]
        called = [row.status for row in rows if row.status != "skipped"]
        return CheckReport(
            ok=bool(called) and "failed" not in called,
            calls=len(costs),
            cost_usd=to_usd(sum(known)) if known else None,
            cost_complete=len(known) == len(costs),
            targets=rows,
        )

    async def _check(self, target: Target) -> TargetReport:
        row = _row(target.upstream, target.model)
        if _embeds(target):
            message = "the model makes embeddings, by its name"
            problem = TargetProblem("warning", message, "call it by POST /v1/embeddings")
            return replace(row, status="skipped", problems=[problem])
        limits = target.limits(self._limits)
        least = min(limits.first_event_timeout_s, self._limits.total_timeout_s)
        limits = replace(limits, first_event_timeout_s=least)
        async with self._gate:
            outcome = await ask(
                target, client=self._client, limits=limits, settlements=self._settlements
            )
        completed = outcome.end.status == "completed"
        problems = find_defects(outcome) if completed else [explain(target, outcome)]
        problems += self._check_price(target)
        problems.sort(key=lambda problem: problem.level != "failure")
        status: Status = "ok" if not problems else "warning"
        if any(problem.level == "failure" for problem in problems):
            status = "failed"
        return replace(row, answer=outcome.call, status=status, problems=problems)

    def _check_price(self, target: Target) -> Iterable[TargetProblem]:
        """Yield the consequence of an unknown price."""
        if self._book.price_of(target.name) is not None:
            return
        advice = f'write a [[price]] with target = "{target.name}" (docs/prices.md)'
        try:
            self._reservations.request(ANYONE, Route(target.name, (target,)), ANSWER)
        except RequestError as error:
            yield TargetProblem("failure", error.message, advice, code=error.code)
            return
        message = f"the price of {target.name!r} is unknown, so a budget would refuse it"
        yield TargetProblem("warning", message, advice)


def _skip(upstream: Upstream) -> TargetReport:
    """Return the row of an upstream without a known model."""
    advice = f"name one: seseragi check {upstream.name}/MODEL, or models in [upstream.{{}}]"
    problem = TargetProblem("warning", "no model of it is known", advice.format(upstream.name))
    return replace(_row(upstream, None), status="skipped", problems=[problem])


def _row(upstream: Upstream, model: str | None) -> TargetReport:
    source = upstream.credentials_source
    return TargetReport(
        target=f"{upstream.name}/{model}" if model else upstream.name,
        upstream=upstream.name,
        model=model,
        dialect=", ".join([upstream.dialect, *(one.upstream.dialect for one in upstream.doors)]),
        base_url=upstream.base_url,
        base_url_from=upstream.base_url_source or None,
        credentials=None if source.kind == "none" else str(source),
    )


def select(names: Sequence[str], settings: Settings) -> Selection:
    """Return the targets of these routes, targets and upstreams; all if `names` is empty.

    Raises:
        SettingsError: a name is unknown, or has no model.
    """
    demo = (DEMO,) if settings.demo or not settings.upstreams else ()
    upstreams = Upstreams(
        (*demo, *settings.upstreams), routes=settings.routes, default_model=settings.default_model
    )
    known = [target for route in settings.routes for target in route.targets]
    if settings.default_model is not None:
        known += upstreams.resolve(None).targets
    for upstream in settings.upstreams:
        default = (upstream.default_model,) if upstream.default_model else ()
        known += [Target(upstream, model) for model in (*upstream.models, *default)]
    if names:
        return Selection(_unique(one for name in names for one in _find(name, upstreams, known)))
    reached = {target.upstream.name for target in known}
    unnamed = [upstream for upstream in settings.upstreams if upstream.name not in reached]
    if not known and not unnamed:
        known = [Target(DEMO, DEMO_MODEL)]
    return Selection(_unique(known), unnamed)


def _find(name: str, upstreams: Upstreams, known: Sequence[Target]) -> Sequence[Target]:
    """Return the targets of a name on the command line."""
    # Targets of routes may be checked even if clients may not name them.
    own = [target for target in known if name in (target.name, target.upstream.name)]
    if own and name not in upstreams.routes:
        return own
    if any(name == upstream.name for upstream in upstreams.all if upstream is not DEMO):
        raise SettingsError(f"{name}: no model is known; name one, such as '{name}/MODEL'")
    try:
        return upstreams.resolve(name.removeprefix(f"{DEMO.name}/")).targets
    except RequestError as error:
        raise SettingsError(str(error)) from None


def _unique(targets: Iterable[Target]) -> list[Target]:
    """Return the targets without duplicate names."""
    return list({target.name: target for target in targets}.values())
