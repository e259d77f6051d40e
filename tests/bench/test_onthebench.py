"""The entry for a public benchmark of gateways loads, and has a route for each column."""

import json
from pathlib import Path

import pytest

from app.settings import load_settings

pytestmark = pytest.mark.pure

ENTRY = Path(__file__).parents[2] / "bench" / "onthebench"


def test_entry_has_a_route_for_each_wire_format_of_the_benchmark(tmp_path):
    entry = json.loads((ENTRY / "definition.json").read_text())
    (file,) = entry["config_files"]
    text, config = (ENTRY / file["template"]).read_text(), tmp_path / "seseragi.toml"
    for name, value in {"GW_MODEL": entry["model"], "GW_PORT": "8000", "MOCK_PORT": "9"}.items():
        text = text.replace(f"{{{name}}}", value)
    config.write_text(text.replace("/tmp/", f"{tmp_path}/"))

    settings = load_settings({}, config=str(config))

    columns = [name.removeprefix("openai-") for name in entry["egress"][1:]]
    names = [entry["model"], *(f"{entry['model']}-{column}" for column in columns)]
    assert names == [route.name for route in settings.routes]
    assert entry["port"] == settings.port
    assert all(len(row) == len(columns) + 1 for row in entry["matrix"])
    assert {line.split()[0] for line in (ENTRY / "why").read_text().splitlines()[1:]} == {
        line.partition("=")[0].strip(" [].").partition(".")[0] for line in text.splitlines() if line
    }
