"""`seseragi check`: asks each target for a short answer and a tool call, and says what is wrong."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import structlog

from ...demo import DemoTransport
from ...dialects.model_facts import About
from ...dialects.writing.token_estimate import estimate_tokens
from ...errors import RequestError
from ...generation.accounting import Accounting
from ...generation.deadlines import Limits
from ...identity.principal import ANYONE
from ...ledger.limits import UsageLimits
from ...ledger.money import to_nano, to_usd
from ...ledger.prices import PriceBook
from ...requests import ChatRequest
from ...settings import Settings
from ...upstreams.client import Client, open_client
from ...upstreams.endpoints import Upstream
from ...upstreams.models import ModelLists
from ...upstreams.routes import Route
from ...upstreams.targets import Target
from .advice import (
    Found,
    base_urls,
    explain,
    look_at_answer,
    look_at_refused_tools,
    look_at_tool_call,
    needs_look,
)
from .calls import ANSWER, MAX_TOKENS, TOOL_CALL, CheckClient, Outcome, ask
from .report import (
    CredentialsReport,
    Plan,
    Problem,
    Report,
    TargetReport,
    lines,
    plan_lines,
    report_call,
    safe,
    status_of,
)
from .selection import Selection, select

AT_ONCE: Final = 8
"""How many targets are asked at once."""

TIMEOUT_S: Final = 60.0
MAX_TIMEOUT_S: Final = 3600.0

log = structlog.get_logger("seseragi.check")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes to its parser."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a route, upstream/model, or an upstream (default: every target of the settings)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=_seconds,
        default=TIMEOUT_S,
        help=f"seconds that a call may take (default: {TIMEOUT_S:g})",
    )
    parser.add_argument("--no-tools", action="store_true", help="ask for no tool call")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be asked and what it may cost"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="settings file (default: seseragi.toml if it exists)"
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of seconds; give one up to {MAX_TIMEOUT_S:g}"
        )
    return seconds


async def run(options: argparse.Namespace, settings: Settings, book: PriceBook) -> int:
    """Check the targets, print the report, and return the exit status.

    Raises:
        SettingsError: there is nothing to ask.
    """
    selection = select(options.names, settings)
    chats = {"answer": ANSWER} if options.no_tools else {"answer": ANSWER, "tools": TOOL_CALL}
    plan = _plan(selection, list(chats.values()), book)
    if options.json and options.dry_run:
        print(json.dumps(msgspec.to_builtins(plan), indent=2))
    if not options.json or sys.stderr.isatty():
        for line in plan_lines(plan):
            print(line, file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.dry_run:
        if not options.json:
            for target in selection.targets:
                print(f"{safe(target.name)}  {safe(target.upstream.base_url)}")
        return 0
    check = Check(settings, book, timeout_s=options.timeout, tools=not options.no_tools)
    report = await check.run(selection, plan)
    if options.json:
        print(json.dumps(msgspec.to_builtins(report), indent=2))
    else:
        for line in lines(report):
            print(line)
    sys.stdout.flush()
    return 0 if report.ok else 1


def _plan(selection: Selection, chats: Sequence[ChatRequest], book: PriceBook) -> Plan:
    """Return what is about to be done, and what it may cost at most."""
    targets = [target for target in selection.targets if not _embeds(target)]
    total, unpriced = 0, []
    for target in targets:
        price = book.price_of(target.name)
        if price is None:
            unpriced.append(target.name)
            continue
        for chat in chats:
            ceiling = price.ceiling(estimate_tokens(chat))
            total += ceiling.input + ceiling.output * MAX_TOKENS
    return Plan(
        calls=len(targets) * len(chats),
        targets=[target.name for target in targets],
        ceiling_usd=to_usd(total) if len(unpriced) < len(targets) else None,
        unpriced=unpriced,
    )


def _embeds(target: Target) -> bool:
    """Return whether a model's name says that it makes embeddings, and answers nothing."""
    return "embed" in target.model.lower()


class Check:
    """One run of the check."""

    def __init__(
        self, settings: Settings, book: PriceBook, *, timeout_s: float, tools: bool
    ) -> None:
        self._settings = settings
        self._accounting = Accounting(settings.ledger, book)
        self._book = book
        self._tools = tools
        self._limits = Limits(
            connect_timeout_s=min(settings.connect_timeout_s, timeout_s),
            first_event_timeout_s=timeout_s,
            event_gap_timeout_s=min(settings.event_gap_timeout_s, timeout_s),
            idle_timeout_s=min(settings.idle_timeout_s, timeout_s),
            total_timeout_s=timeout_s,
            max_line=settings.max_line_bytes,
            max_event=settings.max_event_bytes,
        )
        self._lists = ModelLists()
        self._client: Client
        self._calls = 0

    async def run(self, selection: Selection, plan: Plan) -> Report:
        """Ask all targets, some at once, and return what came of it."""
        progress = _Progress([target.name for target in selection.targets])
        gate = asyncio.Semaphore(AT_ONCE)

        async def check(target: Target) -> TargetReport:
            async with gate:
                progress.begin(target.name)
                try:
                    return await self._check(target)
                finally:
                    progress.end(target.name)

        self._client = open_client(
            connect_timeout_s=self._limits.connect_timeout_s,
            mounts={"all://demo": DemoTransport()},
            kind=CheckClient,
        )
        try:
            found = await asyncio.gather(*map(check, selection.targets), return_exceptions=True)
            rows = list(map(_row_of, selection.targets, found))
            rows += await asyncio.gather(*map(self._skip, selection.unnamed))
        finally:
            progress.close()
            await self._client.aclose()
        return _sum_up(rows, plan, calls=self._calls)

    async def _check(self, target: Target) -> TargetReport:
        row = _row(target.upstream, target.model)
        if _embeds(target):
            problem = Problem(
                "warning",
                "not_asked",
                "the model makes embeddings, by its name, and answers nothing",
                "ask it by POST /v1/embeddings",
            )
            return msgspec.structs.replace(row, status="skipped", problems=[problem])
        problems = list(self._look_at_price(target))
        answer = await self._ask(target, ANSWER)
        if answer.works:
            of_answer = list(look_at_answer(target, answer, now=time.time()))
            problems += await self._look_at_length(target)
        else:
            of_answer = [await self._explain(target, answer, "answer")]
        row = msgspec.structs.replace(row, answer=report_call(answer, of_answer))
        problems += of_answer
        if self._tools and answer.works:
            called = await self._ask(target, TOOL_CALL)
            if called.works:
                of_tools = list(look_at_tool_call(called))
            else:
                of_tools = [look_at_refused_tools(await self._explain(target, called, "tools"))]
            row = msgspec.structs.replace(row, tools=report_call(called, of_tools))
            problems += of_tools
        problems.sort(key=lambda problem: problem.level != "failure")  # what to mend first
        return msgspec.structs.replace(row, status=status_of(problems), problems=problems)

    async def _ask(self, target: Target, chat: ChatRequest) -> Outcome:
        limits = target.limits(self._limits)
        least = min(limits.first_event_timeout_s, self._limits.total_timeout_s)
        limits = msgspec.structs.replace(limits, first_event_timeout_s=least)
        self._calls += 1
        return await ask(
            target, chat, client=self._client, limits=limits, accounting=self._accounting
        )

    async def _explain(self, target: Target, outcome: Outcome, call: str) -> Problem:
        error = outcome.end.error
        status = outcome.head.status if outcome.head else None
        found = Found()
        if error is not None and needs_look(error, status):
            found = await self._look(target)
        return explain(
            target,
            outcome,
            found=found,
            call="answer" if call == "answer" else "tools",
            now=time.time(),
        )

    async def _look(self, target: Target) -> Found:
        """Ask for the models of an upstream, and where there are none at other base URLs."""
        models = await self._models(target.upstream)
        if models:
            return Found(models)
        others = [
            msgspec.structs.replace(
                target.upstream, name=f"{target.upstream.name} at {url}", base_url=url
            )
            for url in base_urls(target)
        ]
        lists = await asyncio.gather(*map(self._models, others))
        known = (one.base_url for one, listed in zip(others, lists, strict=True) if listed)
        return Found(base_url=next(known, None))

    async def _models(self, upstream: Upstream) -> Mapping[str, About]:
        return await self._lists.ask(self._client, upstream)

    def _look_at_price(self, target: Target) -> Iterable[Problem]:
        """Yield what an unknown price means."""
        if self._book.price_of(target.name) is not None:
            return
        advice = f'write a [[price]] with target = "{target.name}" (docs/prices.md)'
        route = Route(target.name, (target,))
        try:
            self._accounting.request(ANYONE, route, ANSWER)
        except RequestError as error:
            yield Problem("failure", "budget", error.message, advice, error.code)
            return
        budgets = "the budgets of the settings" if self._limits_output(money=True) else "a budget"
        message = f"the price of {target.name!r} is unknown, so {budgets} would refuse it"
        yield Problem("warning", "price", message, advice)

    async def _look_at_length(self, target: Target) -> Iterable[Problem]:
        """Return what is wrong if answers are reserved for that are longer than the model's."""
        longest = self._settings.ledger.limits.max_output_tokens
        if not self._limits_output():
            return []
        about = (await self._models(target.upstream)).get(target.model)
        if about is None or about.max_output is None or about.max_output >= longest:
            return []
        message = (
            f"requests that say no length ask for {longest} tokens (max_output_tokens), and the "
            f"model gives {about.max_output}"
        )
        advice = f"set max_output_tokens in [limits] to {about.max_output} or less"
        return [Problem("warning", "output_limit", message, advice)]

    def _limits_output(self, *, money: bool = False) -> bool:
        """Return whether anybody's tokens or money are limited by the settings."""
        limits = self._settings.ledger.limits
        every: list[UsageLimits] = [limits.relay, limits.tenant, limits.key, limits.user]
        every += [*limits.tenants.values(), *(key.limits for key in self._settings.identity.keys)]
        return any(
            one.usd_per_day is not None
            or one.usd_per_month is not None
            or (one.tokens_per_minute is not None and not money)
            for one in every
        )

    async def _skip(self, upstream: Upstream) -> TargetReport:
        """Return the row of an upstream of which no model is known."""
        models = list(await self._models(upstream))
        example = f"{upstream.name}/{models[0] if models else 'MODEL'}"
        listed = f"; it lists {len(models)}" if models else ""
        problem = Problem(
            "warning",
            "not_asked",
            f"no model of it is named in the settings{listed}",
            f"name one: seseragi check {example}, or models in [upstream.{upstream.name}]",
        )
        row = _row(upstream, None)
        return msgspec.structs.replace(row, status="skipped", problems=[problem])


def _row(upstream: Upstream, model: str | None) -> TargetReport:
    source = upstream.credentials_source
    return TargetReport(
        target=f"{upstream.name}/{model}" if model else upstream.name,
        upstream=upstream.name,
        model=model,
        dialect=upstream.dialect,
        base_url=upstream.base_url,
        base_url_from=upstream.base_url_source or None,
        credentials=CredentialsReport(source.kind, source.name, source.setting),
        status="ok",
    )


def _row_of(target: Target, found: TargetReport | BaseException) -> TargetReport:
    """Return the row of a target, also where checking it has met a bug."""
    if isinstance(found, TargetReport):
        return found
    if not isinstance(found, Exception):
        raise found
    log.error("check failed", target=target.name, exc_info=found)
    problem = Problem(
        "failure",
        "relay",
        f"the check has failed with {type(found).__name__}",
        "this is a bug: report it with what the command has written to stderr",
        "internal",
    )
    row = _row(target.upstream, target.model)
    return msgspec.structs.replace(row, status="failed", problems=[problem])


def _sum_up(rows: Sequence[TargetReport], plan: Plan, *, calls: int) -> Report:
    costs = [call.cost_usd for row in rows for call in (row.answer, row.tools) if call is not None]
    known = [to_nano(cost) for cost in costs if cost is not None]
    asked = [row.status for row in rows if row.status != "skipped"]
    return Report(
        ok=bool(asked) and "failed" not in asked,
        plan=plan,
        calls=calls,
        cost_usd=to_usd(sum(known)) if known else None,
        cost_complete=len(known) == len(costs),
        targets=rows,
    )


class _Progress:
    """Says on a terminal which targets are waited for; nowhere else."""

    def __init__(self, names: Sequence[str]) -> None:
        self._all = len(names)
        self._done = 0
        self._waiting: dict[str, None] = {}
        self._shown = sys.stderr.isatty()

    def begin(self, name: str) -> None:
        self._waiting[name] = None
        self._show()

    def end(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._done += 1
        self._show()

    def close(self) -> None:
        """Take the line away."""
        self._print("")

    def _show(self) -> None:
        self._print(f"{self._done} of {self._all}, waiting for {safe(', '.join(self._waiting))}")

    def _print(self, text: str) -> None:
        if self._shown:
            print(f"\r\x1b[K{text[:78]}", end="", file=sys.stderr, flush=True)
