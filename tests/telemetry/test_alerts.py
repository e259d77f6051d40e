"""Alert rules over hours of made series: what wakes somebody, what waits, and what does neither."""

from typing import Any

import pytest

from tests.telemetry.prometheus import run_rules

pytestmark = pytest.mark.proving

UP = 'up{job="seseragi", instance="%s"}'
ENDED = 'seseragi_streams_ended_total{instance="i", route="%s", status="%s", code="%s"}'
REFUSED = 'seseragi_refusals_total{instance="%s", code="%s"}'
ASKED = 'seseragi_http_requests_total{instance="%s", endpoint="/v1/chat", status="%s"}'
SENT = 'seseragi_%s_total{instance="i", target="%s"}'
DRAINS = 'seseragi_draining{instance="%s"}'
LAG = "seseragi_event_loop_lag_seconds_%s"
BEGUN = 'seseragi_time_to_first_event_seconds_bucket{route="night", le="%s"}'
CUT = 'seseragi_streams_ended_total{route="r", status="interrupted", ended_by="shutdown"}'

STREAMS_FAIL = {("SeseragiStreamsFail", "critical"), ("SeseragiStreamsFail", "warning")}
SLOWLY = {("SeseragiStreamsFail", "warning")}
ATTEMPTS_FAIL = {("SeseragiAttemptsFail", "warning")}
OVERLOADED = {("SeseragiOverloaded", "critical"), ("SeseragiOverloaded", "warning")}
DOWN, RELAY_DOWN = {("SeseragiDown", "critical")}, {("SeseragiRelayDown", "warning")}
INTERRUPTED = {("SeseragiStreamsInterrupted", "info")}

BUSY = {UP % "i": "1x3000", UP % "j": "1x3000", ENDED % ("a", "completed", "none"): "0+40x3000"}
"""Two relays and a route with 40 streams a scrape."""

QUIET = {UP % "i": "1x720", ENDED % ("night", "completed", "none"): "0x200 1x200 2x320"}
"""Two streams in a night of twelve hours."""

ROLL = {
    UP % "i": "1x400 0x4 1x400",  # it is away for a minute
    UP % "j": "1x440 0x4 1x360",
    DRAINS % "i": "0x398 1x2 0x404",
    ENDED % ("a", "completed", "none"): "0+5x400 _x4 0+5x400",
    REFUSED % ("i", "overloaded"): "0x398 10 20 _x4 0x400",
    ASKED % ("i", 200): "0+1x400 _x4 0+1x400",
}

Case = tuple[dict[str, str], set[tuple[str, str]]]

# A sample a minute, but for those that say "fast": four a minute.
CASES: dict[str, Case] = {
    "quiet night": (QUIET, set()),
    "one failed stream": (
        QUIET | {ENDED % ("night", "failed", "upstream_timeout"): "0x300 1x420"},
        set(),
    ),
    "one 503": (
        QUIET | {REFUSED % ("i", "overloaded"): "0x300 1x420", ASKED % ("i", 503): "0x300 1x420"},
        set(),
    ),
    "a few of each in a night": (
        QUIET
        | {
            REFUSED % ("i", "rate_limited"): "0x300 5x420",
            ASKED % ("i", 429): "0x300 5x420",
            ASKED % ("i", 401): "0x300 5x420",
            SENT % ("fallbacks", "u/m"): "0x300 2x420",
            SENT % ("retries", "u/m"): "0x720",
            SENT % ("attempts", "u/m"): "0x300 2x420",
        },
        set(),
    ),
    "one slow stream at night": (
        QUIET | {BEGUN % "1": "0+1x600 600x120", BEGUN % "+Inf": "0+1x600 600x60 601x60"},
        set(),
    ),
    "a dead route beside one with forty times its traffic": (
        BUSY | {ENDED % ("b", "failed", "upstream_auth"): "0x100 0+1x620"},
        STREAMS_FAIL,
    ),
    "a dead route with two streams an hour": (
        BUSY | {ENDED % ("b", "failed", "upstream_auth"): " ".join(f"{n}x29" for n in range(24))},
        SLOWLY,
    ),
    "requests that are at fault themselves": (
        BUSY | {ENDED % ("b", "failed", "context_length_exceeded"): "0+1x720"},
        set(),
    ),
    "a dead target behind a fallback, beside a large one": (
        BUSY
        | {
            SENT % ("attempts", "u/large"): "0+40x720",
            SENT % ("retries", "u/large"): "0x720",
            SENT % ("fallbacks", "u/large"): "0x720",
            SENT % ("attempts", "u/dead"): "0x100 0+1x620",
            SENT % ("retries", "u/dead"): "0x720",
            SENT % ("fallbacks", "u/dead"): "0x100 0+1x620",
        },
        ATTEMPTS_FAIL,
    ),
    "slow burn: 4 % for hours": (
        BUSY | {ENDED % ("a", "failed", "upstream_timeout"): "0+2x720"},
        SLOWLY,
    ),
    "an ordinary 1 %": (
        BUSY | {ENDED % ("a", "failed", "upstream_timeout"): "0+0.4x720"},
        set(),
    ),
    "a relay that refuses all": (
        BUSY | {REFUSED % ("j", "overloaded"): "0+5x720", ASKED % ("j", 503): "0+5x720"},
        OVERLOADED,
    ),
    "scrape gap": (
        {
            UP % "i": "1x300 _x4 1x416",
            ENDED % ("a", "completed", "none"): "0+40x300 _x4 12200+40x416",
            ENDED % ("a", "failed", "upstream_timeout"): "0+0.1x300 _x4 30.5+0.1x416",
        },
        set(),
    ),
    "one failed scrape": ({UP % "i": "1x300 0 1x419"}, set()),
    "no relay": ({UP % "i": "1x300 0x419", UP % "j": "1x300 0x419"}, DOWN | RELAY_DOWN),
    "one relay of two": (BUSY | {UP % "j": "1x300 0x419"}, RELAY_DOWN),
    "fast: roll": (ROLL, set()),
    "fast: roll that cuts answers": (ROLL | {CUT: "0x398 2x402"}, INTERRUPTED),
    "fast: restart": (
        {
            UP % "i": "1x1000 0x6 1x1000",
            ENDED % ("a", "completed", "none"): "0+9x1000 _x6 0+9x1000",
            ENDED % ("a", "failed", "upstream_timeout"): "0+0.05x1000 _x6 0+0.05x1000",
            LAG % 'bucket{le="0.1"}': "0+14x1000 _x6 0+12x4 48+15x1000",
            LAG % "count": "0+14x1000 _x6 0+15x4 60+15x1000",
        },
        set(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_alerts_that_fire_within_the_time(tmp_path, name):
    series, fires = CASES[name]

    test: dict[str, Any] = {
        "name": name,
        "interval": "15s" if name.startswith("fast") else "1m",
        "input_series": [{"series": one, "values": row} for one, row in series.items()],
        "promql_expr_test": [
            {
                "expr": 'group by (alertname, severity) (max_over_time(ALERTS{alertstate="firing"}[12h]))',
                "eval_time": "3h" if name.startswith("fast") else "11h50m",
                "exp_samples": [
                    {"labels": f'{{alertname="{alert}", severity="{severity}"}}', "value": 1}
                    for alert, severity in fires
                ],
            }
        ],
    }

    assert "" == run_rules(tmp_path, [test])


def test_page_ends_with_its_cause(tmp_path):
    """The short window ends it, ten minutes after an outage of half an hour."""
    failed = ENDED % ("b", "failed", "upstream_auth")
    series = BUSY | {
        failed: "0x100 0+1x30 30x600",
        ENDED % ("b", "completed", "none"): "0x130 0+1x600",
    }
    page = 'ALERTS{severity="critical", alertstate="firing"}'
    test: dict[str, Any] = {
        "interval": "1m",
        "input_series": [{"series": one, "values": row} for one, row in series.items()],
        "promql_expr_test": [
            {"expr": f"count({page})", "eval_time": "95m", "exp_samples": []},
            {
                "expr": f"count({page})",
                "eval_time": "115m",
                "exp_samples": [{"labels": "{}", "value": 1}],
            },
            {"expr": f"count({page})", "eval_time": "142m", "exp_samples": []},
        ],
    }

    assert "" == run_rules(tmp_path, [test])
