"""Price catalog of genai-prices, if it is installed: its bundled snapshot.

It is never updated over the network. Only the base URL of an upstream selects the provider:
other hosts have other prices for a model of the same name, and a private host has none.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from .prices import Price
from .rates import PriceStep, Rates, Tariff, rates, tariff

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, Provider

TIERS: Final = ("service_tier", "speed")
"""The catalog's conditions for prices other than the default."""

MAX_NAME: Final = 256
"""The longest name that is looked up; the catalog's longest has 80 characters, an ARN 150."""

OTHER_HOSTS: Final = {"https://api.together.ai": "https://api.together.xyz"}
"""Hosts of a provider that the catalog lists under another name."""

HUGGING_FACE: Final = "https://router.huggingface.co/v1"
"""Its model names end with the provider's: `openai/gpt-oss-120b:groq`."""

FREE: Final = ":free"
"""The suffix of free models; others without a price are unknown."""

MINUTE: Final = timedelta(minutes=1)
"""The cache time of a tariff: prices change at full minutes."""

NO_TIME: Final = timedelta(0)
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def open_catalog(base_urls: Mapping[str, str], *, now: Clock = utc_now) -> "GenaiCatalog | None":
    """Return the catalog for upstreams by name; None if genai-prices is not installed.

    It takes a quarter of a second, and 20 MB.
    """
    try:
        from genai_prices import __version__
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    return GenaiCatalog(
        get_snapshot().providers, base_urls, version=f"genai-prices {__version__}", now=now
    )


class GenaiCatalog:
    """A `Catalog` of the providers of genai-prices."""

    def __init__(
        self,
        providers: "Sequence[Provider]",
        base_urls: Mapping[str, str],
        *,
        version: str,
        now: Clock = utc_now,
    ) -> None:
        self.version = version
        self._now = now
        self._providers = {provider.id: provider for provider in providers}
        self._by_upstream = {
            name: HUGGING_FACE if url.startswith(HUGGING_FACE) else _provider_at(url, providers)
            for name, url in base_urls.items()
        }
        self._prices: dict[tuple[str, int], GenaiPrice | None] = {}
        """By provider and model, so at most as many as the catalog has."""

    def find(self, upstream: str, model: str) -> "GenaiPrice | None":
        """Return the price of an upstream's model; None if unknown."""
        provider_id = self._by_upstream.get(upstream)
        if provider_id == HUGGING_FACE:
            model, _, host = model.rpartition(":")
            provider_id = f"huggingface_{host}"
        provider = self._providers.get(provider_id or "")
        if provider is None or len(model) > MAX_NAME:
            return None
        # 0.5 ms for an unknown name at the largest provider; `PriceBook` caches what it finds.
        found = provider.find_model(_bare(model), all_providers=[*self._providers.values()])
        if found is None:
            return None
        key = provider.id, id(found)
        if key not in self._prices:
            price = GenaiPrice(
                found,
                version=self.version,
                # A host of other makers' models has tiers of its own.
                tiered=any(found is own for own in provider.models),
                now=self._now,
            )
            self._prices[key] = price if price.known else None
        return self._prices[key]


class GenaiPrice(Price):
    """The price of one model, which may change with the day and the hour."""

    def __init__(
        self, model: "ModelInfo", *, version: str, tiered: bool = True, now: Clock = utc_now
    ) -> None:
        self.version = version
        self.model = model.id
        self.context_length = model.context_window
        self._model = model
        self._now = now
        whens = [variant.when for variant in (model.price_variants or ()) if tiered]
        self._tiers = {tier for when in whens for key in TIERS if (tier := when.get(key))}
        self._memo: tuple[datetime, dict[str | None, Sequence[Tariff]]] = (LONG_AGO, {})
        """The tariffs of one minute, by service tier."""

    @property
    def known(self) -> bool:
        """Whether its tokens have a price."""
        return _parse_tariff(self._model.get_prices(self._now()), self.model) is not None

    def tariffs(self, service_tier: str | None) -> Sequence[Tariff]:
        now = self._now()
        minute, known = self._memo
        if not NO_TIME <= now - minute < MINUTE:
            minute, known = self._memo = now.replace(second=0, microsecond=0), {}
        tier = service_tier if service_tier in self._tiers else None
        if tier not in known:
            known[tier] = self._find(tier, now)
        return known[tier]

    def _find(self, tier: str | None, now: datetime) -> Sequence[Tariff]:
        model = self._model
        tomorrow = now + timedelta(days=1)
        found = [model.get_prices(now), model.get_prices(tomorrow)]
        if tier is not None:
            context = dict.fromkeys(TIERS, tier)
            found = [*(model.get_prices(at, context) for at in (now, tomorrow)), *found]
        if isinstance(model.prices, list):
            found += [row.prices for row in model.prices if hasattr(row.constraint, "start_time")]
        tariffs = [_parse_tariff(prices, model.id) for prices in found]
        return list(dict.fromkeys(tariff for tariff in tariffs if tariff is not None))


def _provider_at(base_url: str, providers: "Sequence[Provider]") -> str | None:
    """Return the provider of a base URL's host."""
    for host, known in OTHER_HOSTS.items():
        base_url = base_url.replace(host, known, 1) if base_url.startswith(host) else base_url
    for provider in providers:
        found = re.match(provider.api_pattern, base_url)
        # Some patterns end within the host name, which then has to end there, or a label of
        # it.
        if found and (found[0][-1:] in "/." or base_url[found.end() :][:1] in ("", "/", ":")):
            return provider.id
    return None


def _bare(model: str) -> str:
    """Return a model's name without its path on some hosts."""
    if model.startswith("arn:"):
        return model.rpartition("/")[2]
    return model.removeprefix("models/")


def _parse_tariff(prices: "ModelPrice", model: str) -> Tariff | None:
    """Return the token prices; None if there are none.

    Counts that are not distinguished have the highest price: images within the output. Units
    other than tokens, such as searches, are ignored.
    """
    known = {key: value for key, value in vars(prices).items() if value is not None}
    if "input_mtok" not in known:
        free = not known and model.endswith(FREE)
        return tariff([PriceStep(-1, rates(0, 0))]) if free else None
    lengths = {tier.start for value in known.values() for tier in getattr(value, "tiers", ())}
    steps = [PriceStep(above, _rates(known, above)) for above in (-1, *lengths)]
    return tariff(steps, request=_at(known.get("requests_kcount"), -1) / 1000)


def _rates(known: Mapping[str, Any], above: int) -> Rates:
    """Return the rates for an input longer than `above` tokens."""

    def usd(*keys: str) -> Decimal | None:
        found = [_at(known[key], above) for key in keys if key in known]
        return max(found, default=None)

    return rates(
        usd("input_mtok", "input_image_mtok", "input_video_mtok") or 0,
        usd("output_mtok", "output_image_mtok", "output_video_mtok"),
        cached_input=usd("cache_read_mtok", "cache_image_read_mtok"),
        cache_write=usd("cache_write_mtok", "cache_write_5m_mtok"),
        cache_write_1h=usd("cache_write_1h_mtok"),
        audio_input=usd("input_audio_mtok"),
        reasoning=usd("output_reasoning_mtok"),
        audio_output=usd("output_audio_mtok"),
    )


def _at(price: Any, above: int) -> Decimal:
    """Return a price for an input longer than `above` tokens; 0 if there is none."""
    if price is None:
        return Decimal(0)
    if not hasattr(price, "tiers"):
        return Decimal(price)
    reached = [tier for tier in price.tiers if tier.start <= above]
    return Decimal(max(reached, key=lambda tier: tier.start).price if reached else price.base)
