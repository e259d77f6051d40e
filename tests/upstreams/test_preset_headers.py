"""A preset's headers reach the provider, unless the upstream's table replaces them."""

from pathlib import Path

import msgspec
import pytest

from app.testing.upstream import DONE, FINISH, head, send, text
from app.upstreams.presets import PRESETS
from tests.serving import chat, serve_script, text_of

ODD = {"x-title": "Example", "x-edition": "2"}


@pytest.mark.parametrize(
    ("table", "expected"),
    [("", ODD), ('headers = { X-Title = "Mine" }', {"x-title": "Mine", "x-edition": "2"})],
)
async def test_headers_of_a_preset_are_sent(
    table: str, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seseragi.toml").write_text(f"[upstream.openai]\n{table}\n")
    preset = msgspec.structs.replace(PRESETS["openai"], headers=ODD)
    monkeypatch.setitem(PRESETS, "openai", preset)

    async with serve_script([head(), send(text("fine") + FINISH + DONE)]) as (relay, script):
        assert "fine" == text_of(await chat(relay))

    (call,) = script.calls
    assert expected == {name: call.headers[name] for name in ODD}
