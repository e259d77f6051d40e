"""`seseragi prices`."""

import json

import pytest

from app.__main__ import main

pytestmark = pytest.mark.pure

CONFIG = """
[upstream.openai]
base_url = "https://api.openai.com/v1"
auth = "none"
models = ["gpt-5", "made-up"]

[upstream.ollama]
models = ["llama4"]

[[route]]
name = "fast"
targets = ["openai/gpt-6-luna", "ollama/llama4"]

[[price]]
target = "ollama/*"
input = 0
output = 0
request = 0.001
"""


@pytest.fixture
def prices(tmp_path, capsys, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "x.toml"
    config.write_text(CONFIG)

    def prices(*arguments: str) -> str:
        main(["prices", "--config", str(config), *arguments])
        return capsys.readouterr().out

    return prices


def test_every_target_has_a_line_that_says_from_where(prices):
    pytest.importorskip("genai_prices")
    lines = prices().splitlines()

    cells = {line.split("  ")[0]: line for line in lines[2:] if line[:1] != " "}
    assert {"openai/gpt-6-luna", "ollama/llama4", "openai/gpt-5", "openai/made-up"} < cells.keys()
    assert "demo/demo" in cells
    assert ["1.25", "10", "0.125", "1.25", "genai-prices"] == cells["openai/gpt-5"].split()[1:6]
    assert "[[price]], own " in cells["ollama/llama4"]
    assert "0.001 a request" in cells["ollama/llama4"]
    assert "unknown: write a [[price]]" in cells["openai/made-up"]
    assert any("above 272000 tokens" in line for line in lines)


def test_a_route_stands_for_its_targets(prices):
    pytest.importorskip("genai_prices")
    rows = json.loads(prices("fast", "demo", "openai/made-up", "--json"))

    assert [
        ("openai/gpt-6-luna", "catalog"),
        ("ollama/llama4", "own"),
        ("demo/demo", "built-in"),
        ("openai/made-up", "unknown"),
    ] == [(row["target"], row["from"]) for row in rows]
    assert {"input": "0.2", "output": "0.75"}.items() <= rows[0]["tiers"][0][
        "usd_per_million"
    ].items()
    assert "0.001" == rows[1]["usd_per_request"]


def test_a_setting_that_cannot_be_used_is_told_in_one_line(tmp_path, capsys):
    config = tmp_path / "x.toml"
    config.write_text("[[price]]\ntarget = 'gpt-5'\ninput = 1\noutput = 1\n")

    with pytest.raises(SystemExit):
        main(["prices", "--config", str(config)])

    assert "price[1] ('gpt-5').target" in capsys.readouterr().err
