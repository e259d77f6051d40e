"""Which settings a running relay takes when it reads them again."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.reload import Configuration
from app.settings import Settings, load_settings
from app.settings.access import settle_identity, settle_signing_key

pytestmark = pytest.mark.pure

KEY = '[[key]]\nname = "one"\nsha256 = "{}"\n'.format("a" * 64)
ISSUER = '[[issuer]]\nissuer = "https://id.example"\naudience = "relay"\n'
ROUTE = '[[route]]\nname = "fast"\ntargets = ["demo/demo"]\n'
LONG = '{ model = "demo/demo", total_timeout_s = 7200 }'
FAR = '[upstream.far]\nbase_url = "https://far.example/v1"\ndialect = "openai_chat"\n'
RELOADED = "settings are reloaded"


def reread(folder: Path, before: str, after: str) -> tuple[Configuration, dict]:
    """Begin with one file, and read another in its place; give the line of the log too."""
    path = folder / "seseragi.toml"

    def load() -> Settings:
        return load_settings({}, config=str(path))

    path.write_text(before)
    start = settle_identity(load())
    configuration = Configuration(
        load, loaded=load(), start=start, settings=settle_signing_key(start.settings)
    )
    path.write_text(after)
    with capture_logs() as lines:
        assert (configuration.read() is None) == (lines[-1]["log_level"] == "error")
    (line,) = lines
    return configuration, dict(line)


@pytest.mark.parametrize(
    ("before", "after", "needs_restart"),
    [
        ("", ROUTE, None),
        (KEY, KEY.replace("one", "two"), None),
        (KEY, KEY + ISSUER, None),
        (KEY, KEY + "[limits]\nusd_per_day = 1\n", None),
        (KEY, "attempts = 3\npassthrough = false\n" + KEY + ROUTE, None),
        (KEY, "port = 9000\nmax_streams = 5\n" + KEY, ["port", "max_streams"]),
        (KEY, KEY + ROUTE.replace('"demo/demo"', LONG), ["total_timeout_s of a target"]),
        (KEY, KEY + "[auth]\nclient_secret_s = 60\n", ["auth.client_secret_s"]),
    ],
)
def test_taken_and_what_needs_a_restart_is_named(before, after, needs_restart, tmp_path):
    configuration, line = reread(tmp_path, before, after)
    given, used = load_settings({}, config=str(tmp_path / "seseragi.toml")), configuration.settings

    assert line["event"].startswith(RELOADED)
    assert needs_restart == line.get("settings")
    assert (given.routes, given.ledger) == (used.routes, used.ledger)
    if before:
        assert given.identity.keys == used.identity.keys
        assert given.identity.issuers == used.identity.issuers
    assert Settings().port == used.port


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (KEY, "port = ", "invalid TOML"),
        (KEY, KEY + ROUTE.replace("demo/demo", "nowhere/m"), "nowhere"),
        (KEY, 'default_model = "none/such"\n' + KEY, "default_model"),
        (KEY, KEY + KEY, "two keys have the name 'one'"),
        ("", KEY, "access is 'open' and would be 'credentials'"),
        (KEY, "", "access is 'credentials' and would be 'open'"),
        ("", FAR, "access is 'open' and would be 'a key for this run'"),
    ],
)
def test_unusable_settings_change_nothing_and_say_why_in_one_line(before, after, why, tmp_path):
    configuration, line = reread(tmp_path, before, after)

    assert "settings are not reloaded, the relay keeps those it has" == line["event"]
    assert why in line["why"]
    assert () == configuration.settings.routes
    assert [key.name for key in configuration.settings.identity.keys] == (
        ["one"] if before else ["this-run"]
    )
