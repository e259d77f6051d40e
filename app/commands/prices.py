"""`seseragi prices`: the price of each configured target, and its source."""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

from ..composition import build_price_book
from ..ledger.prices import BUILT_IN, PriceBook
from ..ledger.rates import Rates, to_usd
from ..settings import Settings, load_settings
from ..settings.upstreams import DEMO
from .terminal import add_config, print_table

KINDS: Final = Rates._fields
COLUMNS: Final = ("target", "input", "output", "cached", "written", "from")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments to a parser."""
    parser.description = (
        "Show the price of each target in USD per million tokens, and its source: a [[price]] of "
        "the settings, or the package genai-prices."
    )
    parser.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help="a route, or upstream/model (default: every target of the settings)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_config(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the prices of targets, and return the exit status.

    Raises:
        SettingsError: the settings cannot be used.
    """
    settings = load_settings(environ, config=options.config)
    book = build_price_book(settings)
    names = [name for model in options.models for name in _targets_of(model, settings)]
    described = [describe(name, book) for name in (names or _all_targets(settings))]
    if options.json:
        print(json.dumps(described, indent=2, ensure_ascii=False))
        return 0
    print("USD per million tokens.")
    print_table([COLUMNS, *(line for one in described for line in _lines(one))])
    return 0


def describe(target: str, book: PriceBook) -> dict[str, Any]:
    """Return the price of a target, with money as decimal strings."""
    price = book.price_of(target)
    if price is None:
        return {"target": target, "from": "unknown"}
    first, *steps = price.tariff.steps
    row: dict[str, Any] = {
        "target": target,
        "from": _source(target, price.version, book),
        "version": price.version,
        "usd_per_million": _usd(first.rates),
    }
    if steps:
        row["tiers"] = [
            {"above": step.above, "usd_per_million": _usd(step.rates)} for step in steps
        ]
    if price.tariff.request:
        row["usd_per_request"] = to_usd(price.tariff.request)
    return row


def _source(target: str, version: str, book: PriceBook) -> str:
    if version == BUILT_IN:
        return BUILT_IN
    return "own" if book.is_own(target) else "catalog"


def _usd(rates: Rates) -> dict[str, str]:
    return {kind: to_usd(nano) for kind, nano in zip(KINDS, rates, strict=True)}


def _lines(row: dict[str, Any]) -> list[tuple[str, ...]]:
    name = row["target"]
    if row["from"] == "unknown":
        catalog = (
            "" if find_spec("genai_prices") else "pip install '.[prices]' in the checkout, or "
        )
        return [(name, "-", "-", "-", "-", f"unknown: {catalog}write a [[price]]")]
    source = row["version"] if row["from"] != "own" else f"[[price]], {row['version']}"
    if fee := row.get("usd_per_request"):
        source += f", and {fee} a request"
    rows = [(name, row["usd_per_million"], source)]
    rows += [
        (f"  above {tier['above']} tokens", tier["usd_per_million"], "")
        for tier in row.get("tiers", ())
    ]
    return [
        (
            label,
            *(usd[kind] for kind in ("input", "output", "cached_input", "cache_write")),
            source,
        )
        for label, usd, source in rows
    ]


def _targets_of(model: str, settings: Settings) -> Sequence[str]:
    """Return the targets of a model's name."""
    for route in settings.routes:
        if route.name == model:
            return [target.name for target in route.targets]
    return [f"{DEMO.name}/{model}" if model in DEMO.models else model]


def _all_targets(settings: Settings) -> Iterable[str]:
    """Return the targets that the settings name, each once."""
    names = [target.name for route in settings.routes for target in route.targets]
    demo = (DEMO,) if settings.demo or not settings.upstreams else ()
    for upstream in (*settings.upstreams, *demo):
        models = [*upstream.models, *([upstream.default_model] if upstream.default_model else ())]
        names += [f"{upstream.name}/{model}" for model in models]
    return dict.fromkeys(names)
