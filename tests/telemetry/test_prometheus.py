"""The dashboard and the alert rules, by a real Prometheus: each finds what it is made for."""

import subprocess
from typing import Any

import httpx2
import pytest

from app.identity.principal import Principal
from app.testing.upstream import DONE, FINISH, Upstream, head, send, serve_upstream, text
from tests.identities import known
from tests.needs import program
from tests.serving import HELLO, Relay, serve_relay
from tests.telemetry.prometheus import (
    ALERTS,
    expressions_of_dashboard,
    rules_of_alerts,
    run_rules,
    serve_prometheus,
)

pytestmark = pytest.mark.proving

HI = [head(), send(text("hi") + FINISH + DONE)]
OFTEN = "0+60x2000"
"""Once a second, for a day and more."""
RARELY = "0+1x2000"
NEVER = "0x2000"
ALWAYS = "1x2000"

UP = 'up{job="seseragi", instance="%s"}'
HTTP = 'seseragi_http_requests_total{endpoint="%s", status="%s"}'
ENDED = 'seseragi_streams_ended_total{status="%s", code="%s"}'
REFUSED = 'seseragi_refusals_total{code="%s"}'
SPENT = 'seseragi_account_usd%s{account="tenant:shop", period="month"}'
BEGUN = 'seseragi_time_to_first_event_seconds_bucket{route="r", le="%s"}'
LAG = "seseragi_event_loop_lag_seconds_%s"
OPEN = 'seseragi_breakers{instance="i", target="u/m", state="open"}'
BREAKING = 'seseragi_breakers{instance="i", target="u/m", state="half-open"}'

WELL = {
    UP % "i": ALWAYS,
    UP % "j": ALWAYS,
    "seseragi_log_healthy": ALWAYS,
    "seseragi_draining": NEVER,
    OPEN: NEVER,
    BREAKING: NEVER,
    ENDED % ("completed", "none"): OFTEN,
    ENDED % ("failed", "upstream_timeout"): RARELY,
    ENDED % ("failed", "content_filtered"): OFTEN,
    ENDED % ("failed", "internal"): NEVER,
    ENDED % ("interrupted", "producer_lost"): NEVER,
    ENDED % ("cancelled", "none"): OFTEN,
    "seseragi_streams_orphaned_total": NEVER,
    BEGUN % "0.5": "0+50x2000",
    BEGUN % "1": OFTEN,
    BEGUN % "10": OFTEN,
    BEGUN % "+Inf": OFTEN,
    'seseragi_retries_total{target="u/m"}': RARELY,
    'seseragi_fallbacks_total{target="u/m"}': RARELY,
    'seseragi_attempts_total{target="u/m"}': OFTEN,
    'seseragi_log_lines_total{level="error"}': NEVER,
    'seseragi_log_lines_total{level="warning"}': OFTEN,
    HTTP % ("/v1/chat", 200): "0+600x2000",
    HTTP % ("/v1/chat", 503): OFTEN,  # the provider's, as are these
    HTTP % ("/v1/chat", 429): OFTEN,
    HTTP % ("/readyz", 503): OFTEN,
    HTTP % ("none", 401): RARELY,
    SPENT % "": "70x2000",
    SPENT % "_limit": "100x2000",
    REFUSED % "budget_exceeded": NEVER,
    REFUSED % "rate_limited": RARELY,
    REFUSED % "overloaded": RARELY,
    LAG % 'bucket{le="0.1"}': OFTEN,
    LAG % "count": OFTEN,
    'seseragi_process_cpu_seconds_total{worker="1"}': "0+30x2000",
    'seseragi_process_open_fds{worker="1"}': "100x2000",
    'seseragi_process_max_fds{worker="1"}': "1024x2000",
    "seseragi_records_waiting": "3x2000",
}
"""Series of a relay that has nothing to complain of, a sample a minute."""

AT = "0x20 "
"""Nothing until shortly before the alerts are looked at."""

SOON, LATE = "40m", "1500m"
OF_A_DAY = "SeseragiSlowToBegin"
"""It compares with the day before."""

FAULTS: dict[str, dict[str, str]] = {
    "SeseragiDown": {UP % "i": "1x20", UP % "j": "1x20"},  # and then there is no such job
    "SeseragiRelayDown": {UP % "j": f"1x20 {NEVER}"},
    "SeseragiLogFailing": {"seseragi_log_healthy": "1x20 0x50"},
    "SeseragiStopHangs": {"seseragi_draining": f"{AT}1x50"},
    "SeseragiTargetOpen": {OPEN: f"{AT}1 0 1 0 1 0 1x50", BREAKING: f"{AT}0 1 0 1 0 1 0x50"},
    "SeseragiStreamsFail": {ENDED % ("failed", "upstream_timeout"): "0+10x2000"},
    "SeseragiBug": {ENDED % ("failed", "internal"): "0x38 1x50"},
    "SeseragiStreamsInterrupted": {ENDED % ("interrupted", "producer_lost"): "0x38 1x50"},
    "SeseragiRelayLost": {"seseragi_streams_orphaned_total": "0x38 1x50"},
    "SeseragiSlowToBegin": {
        BEGUN % "0.5": "0+50x1400 70000x600",
        BEGUN % "1": "0+60x1400 84000x600",
    },
    "SeseragiAttemptsFail": {'seseragi_fallbacks_total{target="u/m"}': "0+20x2000"},
    "SeseragiErrorLogged": {'seseragi_log_lines_total{level="error"}': "0x38 1x50"},
    "SeseragiOverloaded": {REFUSED % "overloaded": "0+20x2000"},
    "SeseragiManyLimited": {REFUSED % "rate_limited": "0+60x2000"},
    "SeseragiManyUnknown": {HTTP % ("none", 401): "0+300x2000"},
    "SeseragiBudgetNearlyUsedUp": {SPENT % "": "81x2000"},
    "SeseragiBudgetUsedUp": {REFUSED % "budget_exceeded": "0x38 1x50"},
    "SeseragiLoopStalls": {LAG % 'bucket{le="0.1"}': "0+50x2000"},
    "SeseragiCoreBusy": {'seseragi_process_cpu_seconds_total{worker="1"}': "0+50x2000"},
    "SeseragiFilesRunOut": {'seseragi_process_open_fds{worker="1"}': "900x2000"},
    "SeseragiRecordsWait": {"seseragi_records_waiting": "20000x2000"},
}


def test_rules_are_well_formed():
    done = subprocess.run(
        [program("promtool"), "check", "rules", ALERTS], capture_output=True, text=True
    )

    assert 0 == done.returncode, done.stdout + done.stderr


def test_every_alert_fires_on_its_fault_and_no_other_does(tmp_path):
    assert set(FAULTS) == {rule["alert"] for rule in rules_of_alerts()}

    def case(fault: str | None) -> dict[str, Any]:
        series = WELL | (FAULTS[fault] if fault else {})
        assert set(series) == set(WELL), fault
        fires = [{"labels": f'{{alertname="{fault}"}}', "value": 1}] if fault else []
        query = 'group by (alertname) (ALERTS{alertstate="firing"})'
        return {
            "name": fault or "well",
            "interval": "1m",
            "input_series": [{"series": name, "values": row} for name, row in series.items()],
            "promql_expr_test": [
                {
                    "expr": query,
                    "eval_time": LATE if fault == OF_A_DAY else SOON,
                    "exp_samples": fires,
                }
            ],
        }

    cases = [case(fault) for fault in (None, *FAULTS)]

    assert "" == run_rules(tmp_path, cases)


async def load(relay: Relay, upstream: Upstream, headers: dict[str, str]) -> None:
    """Ask for what there is a panel for."""

    async def ask(model: str = "openai/m", **more: Any) -> httpx2.Response:
        body = {**HELLO, "model": model}
        return await relay.client.post("/v1/chat", json=body, headers={**headers, **more})

    upstream.script = HI
    done = await ask()
    url = f"/v1/streams/{done.headers['stream-id']}/events?after=2"
    await relay.client.get(url, headers=headers)
    await ask("openai/x", **{"idempotency-key": "k"})
    await ask("openai/y", **{"idempotency-key": "k"})
    upstream.script = [head("503 Busy"), send("{}")]
    for _ in range(3):
        await ask()
    upstream.script = HI
    await ask("openai/z")


async def test_every_query_returns_data_under_a_load(tmp_path):
    keys = known(
        me=Principal("t", "me", "k"),
        prometheus=Principal("", "", "p", roles=frozenset(["metrics"])),
    )
    headers = {"authorization": "Bearer key-me"}
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, attempts=2, authenticator=keys) as relay,
        serve_prometheus(tmp_path, [f"127.0.0.1:{relay.port}"], key="key-prometheus") as prometheus,
    ):
        await prometheus.until('up{job="seseragi"} == 1')
        for _ in range(3):  # what was counted first has grown
            await load(relay, upstream, headers)
            await prometheus.scraped()
        for query in expressions_of_dashboard():
            asked = query.replace("$__rate_interval", "30s").replace("$__range", "30s")
            assert await prometheus.until(asked)
        for rule in rules_of_alerts():
            if rule["alert"] in ("SeseragiStreamsFail", "SeseragiAttemptsFail"):
                assert await prometheus.until(rule["expr"].replace(">= 10", ">= 1"))
        firing = await prometheus.ask('ALERTS{alertstate="firing"}')
        failed = await prometheus.ask("prometheus_rule_evaluation_failures_total > 0")
        series = await prometheus.ask('count({job="seseragi"})')

    assert [] == failed
    assert [] == firing
    assert 100 < float(series[0]["value"][1]) < 400
