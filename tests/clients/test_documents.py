"""What the documents and examples for clients promise, as far as it needs no other program.

Their code is run by the other tests of this folder, tests/agents and tests/e2e.
"""

import json
import re
from pathlib import Path

import httpx2
import pytest

from app import __version__
from app.settings import load_settings
from tests.agents.agents import PAGE as AGENTS
from tests.agents.agents import SHOWN_MODEL, SHOWN_URL
from tests.clients.families.probe import COLUMNS, NOTHING
from tests.clients.families.test_families import FAMILIES, rows
from tests.clients.families.test_families import PAGE as FRAMEWORKS
from tests.clients.families.test_families import SNIPPETS as OF_FRAMEWORKS
from tests.clients.test_backends import BLOCKS, DOCUMENT, fastapi_app
from tests.clients.test_package import ENTRIES, PACKAGE, PARTS, STATIC
from tests.clients.test_snippets import ELSEWHERE, SNIPPETS
from tests.e2e.asking import Asking
from tests.serving import serve_relay
from tests.test_docs import block

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LONGEST_EXAMPLE = 80
"""Lines of its own, with its README."""


def blocks(document: str | Path, language: str = r"\w+") -> list[str]:
    """Return the names of a document's code blocks; "" for one that is not marked to be run."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"(?m)(?:^<!-- run: ([\w-]+) -->\n)?^```{language}$", text)


def test_every_code_block_is_run():
    clients = {
        (path.name, name)
        for path in (ROOT / "docs" / "clients").glob("*.md")
        if path.name != "frameworks.md"
        for name in blocks(path)
    }

    assert {*SNIPPETS, *ELSEWHERE} == clients
    assert sorted(OF_FRAMEWORKS) == sorted(blocks(FRAMEWORKS))
    assert {*BLOCKS} == {*blocks(DOCUMENT, "(?:js|python)")}


def test_no_client_shows_nothing():
    table = rows()

    assert FAMILIES.keys() <= table.keys()
    assert [] == [name for name, cells in table.items() if any(NOTHING in cell for cell in cells)]
    assert {len(COLUMNS)} == {len(cells) for cells in table.values()}


def test_versions_of_the_page_are_those_that_are_installed():
    folders = ("", "tests/clients/ai_sdk", "tests/clients/families")
    locks = [json.loads((ROOT / one / "package-lock.json").read_text("utf-8")) for one in folders]
    installed = {
        (one.get("name") or path.rpartition("node_modules/")[2], one.get("version"))
        for lock in locks
        for path, one in lock["packages"].items()
    }
    _, _, table = (ROOT / FRAMEWORKS).read_text("utf-8").partition("## Versions that are tested")
    shown = {
        (name, version)
        for name, versions in re.findall(r"`([^`]+)` ([\d., ]+)", table)
        for version in re.findall(r"[\d.]+", versions)
    }

    assert len(shown) > 10
    assert set() == shown - installed


def test_settings_of_editors_lead_to_the_relay():
    (provider,) = json.loads(block("vscode", AGENTS))
    (model,) = provider["models"]

    assert f"{SHOWN_URL}/v1/chat/completions" == model["url"]
    assert SHOWN_MODEL == model["id"]


def test_routes_of_the_page_are_settings(tmp_path):
    config = tmp_path / "seseragi.toml"
    config.write_text(block("claude_routes", AGENTS), encoding="utf-8")
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GROQ_API_KEY")
    settings = load_settings({"SESERAGI_CONFIG": str(config), **dict.fromkeys(keys, "sk-1234567")})

    assert ["claude-sonnet-5", "claude-haiku-4-5"] == [route.name for route in settings.routes]


@pytest.mark.parametrize("name", ["eventsource", "next", "react", "tanstack", "vanilla", "vue"])
def test_example_is_short_and_of_the_packages_that_are_tested(name):
    built = {"node_modules", ".next", "dist"}
    packages = EXAMPLES / name / "package.json"
    own = [
        path
        for path in (EXAMPLES / name).rglob("*")
        if path.is_file()
        and not built & {*path.parts}
        and path.name not in ("package.json", "package-lock.json")
    ]

    assert LONGEST_EXAMPLE >= sum(len(path.read_text("utf-8").splitlines()) for path in own)
    assert EXAMPLES / name / "README.md" in own
    if packages.exists():
        said = json.loads(packages.read_text())
        needs = {**said["dependencies"], **said.get("devDependencies", {})}
        assert "file:../../static" == needs.pop("seseragi")
        needs.pop("next", None)
        tests = "clients/families" if name == "tanstack" else "examples"
        tested = json.loads((ROOT / "tests" / tests / "package.json").read_text())
        assert needs.items() <= tested["dependencies"].items()


def test_package_is_of_the_relays_version_and_licence():
    assert __version__ == PACKAGE["version"]
    assert (ROOT / "LICENSE").read_bytes() == (STATIC / "LICENSE").read_bytes()


def test_names_are_made_in_one_place():
    made = [path.name for path in STATIC.rglob("*.js") if "getRandomValues" in path.read_text()]

    assert ["ids.js"] == made


async def test_relay_serves_the_modules_and_not_what_npm_reads():
    modules = {*PARTS, *(f"{entry.removeprefix('seseragi/')}.js" for entry in ENTRIES)}
    expected = {
        **dict.fromkeys(modules, 200),
        "package.json": 404,
        "README.md": 404,
        "LICENSE": 404,
    }
    async with serve_relay() as relay:
        replies = {name: await relay.client.get(f"/static/{name}") for name in expected}

    assert expected == {name: reply.status_code for name, reply in replies.items()}


async def test_backend_in_fastapi_gives_a_secret_to_who_is_signed_in_and_to_nobody_else(
    monkeypatch,
):
    asking = Asking()
    told = []
    async with serve_relay(watch=asking) as relay:
        monkeypatch.setenv("RELAY_URL", relay.url)
        for key, user in (("ssk_backend", None), ("ssk_backend", "1234"), ("ssk_revoked", "1234")):
            monkeypatch.setenv("RELAY_KEY", key)
            transport = httpx2.ASGITransport(fastapi_app(block("fastapi", DOCUMENT)))
            async with httpx2.AsyncClient(transport=transport, base_url="http://app") as client:
                headers = {"x-user": user} if user else {}
                told.append(await client.post("/api/llm-secret", headers=headers))
    _, given, failed = told

    assert [401, 200, 502] == [reply.status_code for reply in told]
    assert {"value": "ek_1", "expires_at": given.json()["expires_at"]} == given.json()
    assert "no-store" == given.headers["cache-control"]
    assert ["1234"] == asking.users
    assert "ssk_" not in failed.text


def test_backend_in_django_is_python():
    compile(block("django", DOCUMENT), DOCUMENT, "exec")
