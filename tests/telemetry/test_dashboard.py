"""The dashboard and the alert rules as they are written: metrics that there are, and whole panels."""

import json
import re

import pytest

from app.telemetry.families import FAMILIES
from tests.telemetry.prometheus import DASHBOARD, expressions_of_dashboard, rules_of_alerts

pytestmark = pytest.mark.pure

PROCESS = {"cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds"}


def test_queries_name_metrics_that_there_are():
    served = {"seseragi_build_info"} | {f"seseragi_process_{name}" for name in PROCESS}
    for family in FAMILIES:
        ends = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
        served |= {f"{family.name}{end}" for end in ends[family.kind]}
    asked = [*(rule["expr"] for rule in rules_of_alerts()), *expressions_of_dashboard()]
    names = {name for query in asked for name in re.findall(r"seseragi_\w+", query)}

    assert set() == names - served
    assert 25 < len(names)


def test_every_alert_has_its_paragraph():
    """And no paragraph is left of one that is gone."""
    text = (DASHBOARD.parents[2] / "docs/alerts.md").read_text(encoding="utf-8")
    rules = rules_of_alerts()

    assert {rule["alert"] for rule in rules} == set(re.findall(r"^## (Seseragi\w+)$", text, re.M))
    for rule in rules:
        assert f"docs/alerts.md#{rule['alert'].lower()}" == rule["annotations"]["runbook_url"]


def test_dashboard_is_whole():
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = board["panels"]

    assert len(panels) == len({panel["id"] for panel in panels})
    places = [tuple(panel["gridPos"].values()) for panel in panels]
    assert len(places) == len(set(places))
    for panel in panels:
        assert panel["title"]
        assert panel["type"] == "row" or panel["targets"]
        for target in panel.get("targets", ()):
            assert {"type": "prometheus", "uid": "${datasource}"} == target["datasource"]
