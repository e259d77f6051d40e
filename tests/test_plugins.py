"""Parts of installed packages: formats, logs, observers, commands."""

import json
import sys
from pathlib import Path

import pytest

from app.__main__ import main
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.plugins import PluginError
from app.settings import SettingsError, load_settings
from app.testing.upstream import DONE, FINISH, head, send, serve_upstream, text
from tests.installed import install
from tests.serving import HELLO, serve_relay

CODE = """
from app.dialects.openai_chat.upstream.format import DIALECT
from app.dialects.native.client.format import CLIENT_FORMAT
from app.eventlog.opening import LOGS
from app.telemetry.observer import Observer

broken = 1 / 1
number = 7
mine = DIALECT._replace(path="mine")
native2 = CLIENT_FORMAT._replace(name="native2", path="/v1/native2")
ended = []


def build_log(url, **options):
    return LOGS["memory"]("memory", **options)


class Ends(Observer):
    def ended(self, one):
        ended.append(one.end.status)


def add_arguments(parser):
    parser.add_argument("word")


def run(options, environ):
    print("said", options.word)
    return 0
"""
GROUPS = {
    "seseragi.upstream_formats": {
        "mine": "mine",
        "seven": "number",
        "lost": "nothing",
        "openai_chat": "number",
    },
    "seseragi.client_formats": {"native2": "native2"},
    "seseragi.logs": {"twin": "build_log"},
    "seseragi.observers": {"ends": "Ends"},
    "seseragi.commands": {"say": ""},
}


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, CODE, GROUPS)


async def test_parts_of_a_package_are_used_by_a_relay(tmp_path: Path) -> None:
    config = tmp_path / "seseragi.toml"
    async with serve_upstream() as upstream:
        upstream.script = [head(), send(text("hello") + FINISH + DONE)]
        config.write_text(
            'observers = ["ends"]\n'
            f'[upstream.a]\nbase_url = "{upstream.base_url}"\ndialect = "mine"\n'
        )
        async with serve_relay(config=config, log="twin://here") as relay:
            answer = await relay.client.post("/v1/native2", json={**HELLO, "model": "a/m"})

    assert "hello" in answer.text
    assert ["/v1/mine"] == [call.path for call in upstream.calls]
    assert ["completed"] == sys.modules["extension"].ended


def test_a_part_that_cannot_be_used_is_named_with_its_package() -> None:
    assert UPSTREAM_FORMATS["openai_chat"] is UPSTREAM_FORMATS.find("openai_chat")
    for name, wants in {
        "nothing": "unknown dialect 'nothing'; known: openai_chat,",
        "openai_chatt": "did you mean 'openai_chat'?",
        "seven": r"'seven' \(extension:number\) is not a seseragi.dialects.upstream_format",
        "lost": r"'lost' \(extension:nothing\) cannot be loaded: AttributeError",
    }.items():
        with pytest.raises(PluginError, match=wants):
            UPSTREAM_FORMATS.find(name)


def test_a_setting_that_names_an_unknown_part_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "seseragi.toml"
    config.write_text('[upstream.a]\nbase_url = "http://127.0.0.1"\ndialect = "none"\n')

    with pytest.raises(SettingsError, match=r"upstream\.a\.dialect: unknown dialect 'none'"):
        load_settings({}, config=str(config))


def test_commands_of_packages_run_and_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["say", "hello"])
    assert "said hello\n" == capsys.readouterr().out

    main(["plugins", "--json"])
    listed = json.loads(capsys.readouterr().out)
    found = {(one["kind"], one["name"]): one["source"] for one in listed}
    assert "extension:build_log of extension" == found["log", "twin"]
    assert "built-in" == found["log", "memory"]
    assert "extension of extension" == found["command", "say"]
