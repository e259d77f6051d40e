"""`[limits]`, the tables below it, `[tenant.NAME]`, and `limits` where they stand elsewhere."""

from pathlib import Path

import pytest

from app.ledger.config import UNLIMITED, LimitsConfig, UsageLimits, smaller
from app.settings import load_settings

pytestmark = pytest.mark.pure


def load(folder: Path, toml: str) -> LimitsConfig:
    file = folder / "seseragi.toml"
    file.write_text(toml, encoding="utf-8")
    return load_settings({}, config=str(file)).ledger.limits


def test_without_a_word_nothing_is_limited():
    limits = load_settings({}).ledger.limits

    assert LimitsConfig() == limits
    assert not any((limits.relay, limits.tenant, limits.key, limits.user))
    assert 16_384 == limits.max_output_tokens


def test_every_table_is_read(tmp_path):
    limits = load(
        tmp_path,
        """
[limits]
requests_per_minute = 600
tokens_per_minute = 2_000_000
streams = 200
usd_per_day = 100
usd_per_month = 2000.5
max_output_tokens = 4096
[limits.tenant]
usd_per_month = 500
[limits.key]
streams = 0
[limits.user]
usd_per_day = 1
strict = true
[tenant.acme]
usd_per_month = 900
[tenant."会社 2"]
streams = 3
""",
    )

    assert limits == LimitsConfig(
        relay=UsageLimits(
            requests_per_minute=600,
            tokens_per_minute=2_000_000,
            streams=200,
            usd_per_day=100,
            usd_per_month=2000.5,
        ),
        tenant=UsageLimits(usd_per_month=500),
        key=UsageLimits(streams=0),
        user=UsageLimits(usd_per_day=1, strict=True),
        tenants={"acme": UsageLimits(usd_per_month=900), "会社 2": UsageLimits(streams=3)},
        max_output_tokens=4096,
    )


def test_keys_and_issuers_have_their_own(tmp_path):
    file = tmp_path / "seseragi.toml"
    file.write_text(
        f"""
[auth]
signing_key = "{"x" * 32}"
[[key]]
name = "app"
sha256 = "{"0" * 64}"
limits = {{ usd_per_day = 2, streams = 3 }}
[[issuer]]
issuer = "https://a.example"
audience = "b"
limits = {{ usd_per_month = 5 }}
"""
    )
    identity = load_settings({}, config=str(file)).identity

    assert UsageLimits(usd_per_day=2, streams=3) == identity.keys[0].limits
    assert UsageLimits(usd_per_month=5) == identity.issuers[0].limits
    assert not UNLIMITED


def test_one_strict_limit_of_several_makes_an_account_strict():
    strict, lax = UsageLimits(usd_per_day=2, strict=True), UsageLimits(usd_per_day=1, strict=False)

    assert UsageLimits(usd_per_day=1, strict=True) == smaller(strict, lax) == smaller(lax, strict)
