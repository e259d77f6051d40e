"""Access without configured credentials, and what the start prints."""

import json
import os
import re

import pytest
import structlog

from app.identity.keys import digest
from app.main import App
from app.settings import SettingsError, load_settings
from app.settings.access import decide_access, settle_identity
from tests.commands.test_command import run_here

pytestmark = pytest.mark.pure

ANYWHERE = {"SESERAGI_HOST": "0.0.0.0"}  # noqa: S104  (what is tested)
PAID = {"OPENAI_API_KEY": "sk-0123456789"}
SIGNING_KEY = "s" * 43
KEY = re.compile(r"ssk_[\w-]{43}")

THIS_RUN = "a key for this run"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


ISSUER = '[[issuer]]\nissuer = "https://id.example"\naudience = "chat"\n'
A_KEY = f'[[key]]\nname = "a"\nsha256 = "{digest("a")}"\n'
NO_KEY = '[upstream.x]\nbase_url = "{}"\n'

DECISIONS: list[tuple[str, str, dict[str, str], str]] = [
    ("nothing is configured", "", {}, "open"),
    *(
        (host, "", {"SESERAGI_HOST": host}, access)
        for host, access in (
            *(("127.0.0.1", "open"), ("127.9.9.9", "open"), ("::1", "open")),
            *(("localhost", "open"), ("LocalHost", "open")),
            *(("0.0.0.0", THIS_RUN), ("::", THIS_RUN), ("192.168.0.7", THIS_RUN)),  # noqa: S104
            *(("relay.example.com", THIS_RUN), ("::ffff:127.0.0.1", "open")),
        )
    ),
    ("a provider's key on this machine", "", PAID, THIS_RUN),
    ("every address by an empty name", 'host = ""', {}, THIS_RUN),
    ("Ollama beside it", "", {"OLLAMA_HOST": "http://127.0.0.1:11434"}, "open"),
    ("Ollama, and others reach it", "", {**ANYWHERE, "OLLAMA_HOST": "http://127.0.0.1:11434"}, THIS_RUN),
    ("Ollama in the cloud", "", {"OLLAMA_HOST": "https://ollama.com"}, THIS_RUN),
    *(
        (f"{url}, no key", NO_KEY.format(url), {}, access)
        for url, access in (
            *(("http://localhost:8000/v1", "open"), ("http://[::1]:8000/v1", "open")),
            *(("http://10.1.2.3/v1", "open"), ("http://192.168.1.2/v1", "open")),
            *(("http://100.64.0.1/v1", "open"), ("http://[fd00::1]/v1", "open")),
            *(("http://vllm:8000/v1", "open"), ("http://gpu.local/v1", "open")),
            *(("http://vllm.models.svc.cluster.local/v1", "open"), ("http://gpu.internal/v1", "open")),
            *(("http://llm.example/v1", THIS_RUN), ("https://8.8.8.8/v1", THIS_RUN)),
            *(("http://local/v1", "open"), ("http://notlocal.example.local.com/v1", THIS_RUN)),
        )
    ),
    ("a private host that wants a key", "", {**PAID, "OPENAI_BASE_URL": "http://litellm:4000"}, THIS_RUN),
    ("a private host with a header", NO_KEY.format("http://gateway/v1") + 'headers = { a = "b" }', {}, THIS_RUN),
    ("something in front", "", {**ANYWHERE, **PAID, "SESERAGI_AUTH": "none"}, "none"),
    ("something in front, by the file", 'auth = "none"', {**ANYWHERE, **PAID}, "none"),
    ("keys", A_KEY, {**ANYWHERE, **PAID}, "credentials"),
    ("keys on this machine", A_KEY, {}, "credentials"),
    ("a keys file", "", {**PAID, "SESERAGI_KEYS_FILE": "keys.json"}, "credentials"),
    ("an issuer", ISSUER, {**ANYWHERE, **PAID}, "credentials"),
    ("both", A_KEY + ISSUER, {**ANYWHERE, **PAID}, "credentials"),
    ("a Redis and keys", A_KEY, {**ANYWHERE, **PAID, "SESERAGI_LOG": "redis://h/0"}, "credentials"),
    ("a Redis and nothing that costs", "", {"SESERAGI_LOG": "redis://h/0"}, "open"),
    ("keys of operators in front of which something stands", f'auth = "none"\n{A_KEY}roles = ["admin"]', ANYWHERE, "none"),
    ("a file of streams", "", {**ANYWHERE, **PAID, "SESERAGI_LOG": "sqlite:///s.db"}, THIS_RUN),
]  # fmt: skip


@pytest.mark.parametrize(("file", "environ", "access"), [row[1:] for row in DECISIONS], ids=[row[0] for row in DECISIONS])  # fmt: skip
def test_who_says_who_may_ask(file, environ, access, tmp_path):
    (tmp_path / "seseragi.toml").write_text(file)
    (tmp_path / "keys.json").write_text("{}")
    (tmp_path / "keys.json").chmod(0o600)
    settings = load_settings(environ)

    start = settle_identity(settings)

    assert access == decide_access(settings)
    assert (
        access == THIS_RUN or settings.identity.configured
    ) == start.settings.identity.configured
    # Operators need a key, whoever may send chats.
    own = (
        not (settings.identity.keys or settings.identity.configured) and "redis" not in settings.log
    )
    assert own == (start.key is not None)


REFUSED = [
    ("replicas would each have their own", "", {**PAID, "SESERAGI_LOG": "redis://h/0"}, "auth: 'openai' may cost money, but no credentials are configured, and over Redis each relay would create its own key"),
    ("replicas that others reach", "", {**ANYWHERE, "SESERAGI_LOG": "redis://h/0"}, "auth: other machines can reach this relay, but no credentials are configured"),
    ("a key for nobody beside none", f'auth = "none"\n{A_KEY}', {}, "with 'none' only operators need keys: give the key 'a' the role 'admin', or remove it"),
    ("an issuer beside none", f'auth = "none"\n{ISSUER}', {}, "'none' takes no [[issuer]]"),
    ("authentication is on, but no credentials are configured", "[auth]", {}, "auth: authentication is on, but no credentials are configured"),
    ("nothing but a signing key", "", {"SESERAGI_SIGNING_KEY": SIGNING_KEY}, "no credentials are configured"),
    ("no keys file", "", {"SESERAGI_KEYS_FILE": "none.json"}, "auth: none.json: file not found"),
    ("two of a name", A_KEY + A_KEY, {}, "auth: two keys have the name 'a'"),
    ("no time", A_KEY + 'expires_at = "soon"', {}, "auth: the key 'a' has an invalid time: give a time with its zone"),
    ("no zone", A_KEY + "expires_at = 2027-01-01T00:00:00", {}, "the key 'a' has an invalid time"),
    ("no time of day", A_KEY + "expires_at = 2027-01-01", {}, "the key 'a' has an invalid time"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "environ", "told"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])  # fmt: skip
def test_start_is_refused_in_one_line(file, environ, told, tmp_path):
    (tmp_path / "seseragi.toml").write_text(file)
    with pytest.raises(SettingsError, match=r"^[^\n]+$") as caught:
        settle_identity(load_settings(environ))

    assert told in str(caught.value)


def test_times_of_toml_are_taken(tmp_path):
    (tmp_path / "seseragi.toml").write_text(A_KEY + "expires_at = 2027-01-01T00:00:00Z")
    [key] = settle_identity(load_settings({})).settings.identity.keys

    assert "2027-01-01T00:00:00Z" == key.expires_at


def test_key_for_this_run_is_a_key_of_the_settings():
    start, other = (settle_identity(load_settings({**ANYWHERE, **PAID})) for _ in range(2))
    assert start.key is not None
    assert start.key != other.key
    identity = start.settings.identity
    [key] = identity.keys

    assert ("this-run", ("client_secrets", "admin")) == (key.name, key.roles)
    assert digest(start.key) == key.sha256
    assert identity.configured
    assert not identity.trusted
    assert len(identity.auth.signing_key or "") >= 32
    assert identity.auth.signing_key != other.settings.identity.auth.signing_key
    assert start.key not in repr(start.settings)


@pytest.mark.parametrize("host", ["", "::", "192.168.1.5", "fd00::5", "relay.lan", "127.0.0.1"])
@pytest.mark.parametrize("paid", [True, False])
def test_urls_that_are_printed_can_be_opened(host, paid, tmp_path, capfd):
    (tmp_path / "seseragi.toml").write_text(f'host = "{host}"\nlog_format = "console"')
    start = settle_identity(load_settings(PAID if paid else {}))
    start.announce(81)
    told = capfd.readouterr().err
    where = {"": "localhost", "::": "localhost", "fd00::5": "[fd00::5]"}.get(host, host)
    key = "" if not paid and host == "127.0.0.1" else f"#key={start.key}"

    assert [f"http://{where}:81/{key}", f"http://{where}:81/admin#key={start.key}"] == re.findall(
        r"http\S+", told
    )
    assert paid == ("'openai' may cost money" in told)
    assert (host != "127.0.0.1") == ("other machines can reach this relay" in told)


@pytest.mark.parametrize(
    ("environ", "reasons"),
    [
        (ANYWHERE, "other machines can reach this relay"),
        (PAID, "'openai' may cost money"),
        ({**ANYWHERE, **PAID}, "other machines can reach this relay and 'openai' may cost money"),
        ({}, ""),
    ],
)
def test_start_of_a_relay_that_serves_everybody_says_so(environ, reasons):
    start = settle_identity(load_settings({**environ, "SESERAGI_AUTH": "none"}))
    with structlog.testing.capture_logs() as lines:
        start.announce(81)

    told = f"exposed: auth = 'none' serves every client that connects, and {reasons}"
    assert ([told] if reasons else []) == [line["event"] for line in lines]


@pytest.mark.parametrize("broken", [False, True])
def test_keys_file_is_checked_before_anything_listens(tmp_path, broken):
    path = tmp_path / "keys.json"
    path.write_text("{" if broken else "{}")
    path.chmod(0o600 if broken else 0o644)
    done = run_here("--port", "0", cwd=tmp_path, SESERAGI_KEYS_FILE="keys.json")

    assert (2, "") == (done.returncode, done.stdout)
    told = "invalid JSON" if broken else "readable by others (mode 644); run: chmod 600"
    assert 1 == len(done.stderr.splitlines())
    assert f"seseragi: auth: keys.json: {told}" in done.stderr


async def test_app_under_another_server_tells_it_too(capfd, monkeypatch):
    monkeypatch.setattr("structlog.is_configured", lambda: True)  # else for all tests after it
    app = App(load_settings({**ANYWHERE, **PAID}))
    async with app.lifespan():
        told = capfd.readouterr()

    assert "" == told.out
    assert 1 == len({*KEY.findall(told.err)})
    assert ".../#key=ssk_" in told.err


async def test_app_under_another_server_says_why_it_does_not_start(monkeypatch):
    monkeypatch.setattr("structlog.is_configured", lambda: True)
    app = App(load_settings({"SESERAGI_KEYS_FILE": os.devnull}))
    with pytest.raises(SettingsError, match="not a regular file"):
        async with app.lifespan():
            pass


@pytest.mark.parametrize("form", ["console", "json"])
def test_mounted_relay_prints_no_address_that_it_does_not_know(form, tmp_path, capfd):
    (tmp_path / "seseragi.toml").write_text(f'log_format = "{form}"')
    start = settle_identity(load_settings(PAID))

    start.announce(None)

    told = capfd.readouterr().err
    assert f".../#key={start.key}" in told
    assert "http://" not in told
    assert form == "console" or json.loads(told)["timestamp"].startswith("20")
