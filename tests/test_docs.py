"""The documents say what is true: settings, events, codes, calls, and commands that run."""

import json
import os
import re
from pathlib import Path

import msgspec
import pytest

from app.commands import GROUP
from app.commands.plugins import REGISTRIES
from app.demo import MODELS
from app.dialects.native.client.renderer import Writer
from app.errors import CODES
from app.events import Event, TextDelta
from app.identity.config import AuthConfig, KeyConfig
from app.ledger.config import LIMITS, UsageLimits
from app.policies.balance import BALANCES
from app.settings import load_settings
from app.settings.tables import RouteTable, TargetTable
from app.settings.upstreams import UpstreamTable
from app.settings.values import SCALARS, Settings
from tests.serving import routes_of

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROTOCOL = (ROOT / "PROTOCOL.md").read_text(encoding="utf-8")
CONFIGURATION = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")


def rows(document: str) -> dict[str, str]:
    """Table rows by the first cell's words in backquotes."""
    found = {}
    for line in document.splitlines():
        if line.startswith("| `"):
            for name in re.findall(r"`([^`]+)`", line.split("|")[1]):
                found[name] = line
    return found


def section(title: str, document: str) -> str:
    """A section of a document, with those below it."""
    return document.split(f"\n## {title}\n")[1].split("\n## ")[0]


def block(name: str, document: str = "README.md") -> str:
    """A code block of a document that is marked as one to run."""
    text = (ROOT / document).read_text(encoding="utf-8")
    match = re.search(rf"<!-- run: {name} -->\n```\w+\n(.*?)```", text, re.DOTALL)
    assert match is not None, name
    return match[1]


def test_every_setting_is_documented_with_its_default():
    defaults = msgspec.structs.asdict(Settings())
    for name in SCALARS:
        row = rows(section("Settings", CONFIGURATION)).get(name)
        assert row is not None, name
        default = defaults[name]
        shown = "" if default in (None, "") else f"`{default}`"
        if isinstance(default, tuple | bool):
            shown = f"`{json.dumps(default)}`"
        assert shown == row.split("|")[2].strip(), name


def test_no_setting_is_documented_that_is_not_there():
    assert set(SCALARS) == set(rows(section("Settings", CONFIGURATION)))


@pytest.mark.parametrize(
    ("title", "kinds"), [("Providers", [UpstreamTable]), ("Routes", [RouteTable, TargetTable])]
)
def test_every_key_of_a_table_is_documented(title, kinds):
    keys = {name for kind in kinds for name in kind.__struct_fields__}

    assert keys <= set(rows(section(title, CONFIGURATION)))


def test_every_key_of_identity_is_documented():
    told = rows(section("Identity", CONFIGURATION))
    keys = {
        name: field
        for kind in (AuthConfig, KeyConfig)
        for name, field in zip(kind.__struct_fields__, msgspec.structs.fields(kind), strict=True)
    }

    assert {"auth", *keys} == set(told)
    assert f"| `{keys['client_secret_s'].default}` |" in told["client_secret_s"]


def test_every_limit_is_documented_for_accounts_and_for_client_secrets():
    names = UsageLimits.__struct_fields__
    secret = rows(section("Client secrets", PROTOCOL))["limits"]

    assert set(names) <= set(rows(section("Limits and budgets", CONFIGURATION)))
    assert set(names) <= set(re.findall(r"`(\w+)`", secret))
    assert {limit.name for limit in LIMITS} == set(names) - {"strict"}


def test_commands_of_guides_run_in_the_environment_that_the_readme_activates():
    assert "python3 -m venv .venv && . .venv/bin/activate && pip " in block("start")
    for path in ROOT.glob("docs/**/*.md"):
        assert not re.search(r"\.venv/bin/(pip|seseragi)\b", path.read_text(encoding="utf-8")), path


def test_readme_stays_short():
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("package", ["dialects", "eventlog", "generation"])
def test_rules_of_a_package_are_one_page(package):
    assert len((ROOT / "app" / package / "README.md").read_text("utf-8").splitlines()) <= 70


def test_every_kind_of_part_is_in_the_table_of_what_plugs_in():
    table = section("What plugs in", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    groups = {one.group for one in REGISTRIES} | {GROUP}

    assert groups == set(re.findall(r"`(seseragi\.\w+)` \|", table))
    for balance in BALANCES:
        assert f"`{balance}`" in table


def test_every_demo_model_is_documented():
    assert set(MODELS) <= set(rows(README))


@pytest.mark.parametrize("kind", Event.__args__, ids=lambda kind: kind.__struct_config__.tag)
def test_every_event_is_documented_with_its_fields(kind):
    row = rows(PROTOCOL).get(kind.__struct_config__.tag)
    assert row is not None
    for field in kind.__struct_fields__:
        assert f"`{field}`" in row, field


def test_every_code_is_documented_with_its_status():
    table = rows(PROTOCOL.split("## Errors")[1])

    assert {code: f"{info.status}" for code, info in CODES.items()} == {
        code: row.split("|")[2].strip() for code, row in table.items()
    }


def test_every_call_is_documented():
    for route in routes_of(load_settings({})):
        path = getattr(route, "path", "").replace("{stream}", "{id}").replace(":path}", "}")
        for method in sorted(getattr(route, "methods", None) or ()):
            if method != "HEAD":
                assert f"`{method} {path}`" in PROTOCOL


def test_example_of_the_protocol_is_a_real_frame():
    shown = re.search(r"((?:^    .+\n)+)", PROTOCOL.split("## Frames")[1], re.MULTILINE)
    assert shown is not None
    renderer = Writer("st_4fJ9qXw0V1cT8mYbR2nZkQ", after=2, retry_ms=2000)
    frame = renderer.feed(TextDelta(0, "こん")).decode()

    assert frame.rstrip("\n") == re.sub(r"(?m)^    ", "", shown[1]).rstrip("\n")


def test_documents_name_nothing_of_this_machine():
    found = []
    # Past folders that go while they are looked into: Vite has some for a moment.
    for folder, below, files in os.walk(ROOT):
        below[:] = {*below} - {"node_modules", ".venv"}
        found += [Path(folder, name) for name in files if name.endswith(".md")]

    assert ROOT / "docs/operations.md" in found
    for path in found:
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text, path
        assert str(Path.home()) not in text, path


def test_log_lines_to_watch_are_written_by_the_relay():
    table = (ROOT / "docs/operations.md").read_text(encoding="utf-8").split("## What to watch")[1]
    lines = [name for name in rows(table) if re.fullmatch(r"[\w,]+( [\w,]+)+", name)]
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "app").rglob("*.py"))

    assert len(lines) > 8
    assert [] == [line for line in lines if f'"{line}"' not in code]


def test_links_of_the_documents_lead_somewhere():
    found = [
        one
        for pattern in (
            "*.md",
            "app/**/*.md",
            "conformance/*.md",
            "docs/**/*.md",
            "examples/*/README.md",
        )
        for one in ROOT.glob(pattern)
    ]
    for path in found:
        for link in re.findall(r"\]\((?!https?://|#)([^)]+)\)", path.read_text(encoding="utf-8")):
            file, _, anchor = link.partition("#")
            there = path.parent / file
            assert there.exists(), f"{path.name}: {link}"
            if anchor:
                titles = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}
                assert anchor in slugs, f"{path.name}: {link}"
