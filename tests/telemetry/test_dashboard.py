"""The dashboard and the alert rules as they are written: metrics that there are, and whole panels."""

import json
import re

import pytest

from app.telemetry.families import FAMILIES
from tests.telemetry.prometheus import DASHBOARD, expressions_of_alerts, expressions_of_dashboard

pytestmark = pytest.mark.pure

PROCESS = {"cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds"}


def test_queries_name_metrics_that_there_are():
    served = {"seseragi_build_info"} | {f"seseragi_process_{name}" for name in PROCESS}
    for family in FAMILIES:
        ends = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
        served |= {f"{family.name}{end}" for end in ends[family.kind]}
    asked = [*expressions_of_alerts().values(), *expressions_of_dashboard()]
    names = {name for query in asked for name in re.findall(r"seseragi_\w+", query)}

    assert set() == names - served
    assert 25 < len(names)


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
