"""The settings: where values come from, and what is said of bad ones."""

import pytest

from app.settings import Settings, SettingsError, load_settings
from app.upstreams.credentials import Key, NoCredentials

pytestmark = pytest.mark.pure


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_defaults_need_nothing():
    assert Settings() == load_settings({})


def test_later_sources_win(tmp_path):
    file = tmp_path / "relay.toml"
    file.write_text('port = 1000\ngate_s = 1\nhost = "::1"\n')
    settings = load_settings(
        {"SESERAGI_PORT": "2000", "SESERAGI_GATE_S": "2.5"},
        config=str(file),
        overrides={"port": "3000"},
    )

    assert (3000, 2.5, "::1") == (settings.port, settings.gate_s, settings.host)


def test_file_is_found_by_name_and_by_variable(tmp_path):
    (tmp_path / "seseragi.toml").write_text("port = 1")
    (tmp_path / "other.toml").write_text("port = 2")

    assert 1 == load_settings({}).port
    assert 2 == load_settings({"SESERAGI_CONFIG": "other.toml"}).port


def test_key_in_the_environment_adds_its_upstream():
    settings = load_settings({"OPENAI_API_KEY": " sk-1\n", "DEEPSEEK_API_KEY": "sk-2"})
    openai, deepseek = settings.upstreams

    assert ("openai", "https://api.openai.com/v1") == (openai.name, openai.base_url)
    assert isinstance(openai.credentials, Key)
    assert "sk-1" == openai.credentials.secret.reveal()
    assert "https://api.deepseek.com" == deepseek.base_url
    assert "sk-1" not in repr(settings)


def test_base_url_alone_is_a_server_without_a_key():
    (upstream,) = load_settings({"OPENAI_BASE_URL": "http://localhost:9000/v1/"}).upstreams

    assert "http://localhost:9000/v1" == upstream.base_url
    assert isinstance(upstream.credentials, NoCredentials)


async def test_upstream_of_the_file(tmp_path):
    (tmp_path / "seseragi.toml").write_text(
        """
        [upstream.mine]
        preset = "azure"
        base_url = "https://res.example/openai/deployments/{model}"
        key_file = "key.txt"
        query = { api-version = "2024-10-21" }
        models = ["gpt-a"]
        """
    )
    (tmp_path / "key.txt").write_text("abc\n")
    (upstream,) = load_settings({}).upstreams

    assert {"api-key": "abc"} == await upstream.credentials.headers("POST", "http://a", b"")
    assert {"api-version": "2024-10-21"} == upstream.query


BAD = [
    ("unknown key", "prot = 1", {}, "seseragi.toml: unknown key 'prot'; did you mean 'port'?"),
    ("bad type", 'port = "x"', {}, "seseragi.toml: port: 'x' cannot be used: give a whole number"),
    ("out of range", "port = 99999", {}, "port: 99999 cannot be used: give a whole number, 65535 or less"),
    ("negative time", "gate_s = -1", {}, "gate_s: -1 cannot be used: give a number, 0 or more"),
    ("retry below its floor", "retry_ms = 100", {}, "retry_ms: 100 cannot be used: give a whole number, 500 or more"),
    ("proxy by name", 'trusted_proxies = ["caddy"]', {}, "trusted_proxies: 'caddy' cannot be used: give the address of a proxy, or a network such as '10.0.0.0/8'"),
    ("log of another kind", 'log = "amqp://x"', {}, "log: 'amqp://x' cannot be used: use 'memory', 'sqlite:///PATH' or 'redis://HOST/DB'"),
    ("log with a password", 'log = "amqp://:secret@x"', {}, "log: it cannot be used: use 'memory', 'sqlite:///PATH' or 'redis://HOST/DB'"),
    ("log in memory by another name", 'log = "sqlite:///:memory:"', {}, "use 'memory', 'sqlite:///PATH' or 'redis://HOST/DB'"),
    ("not TOML", "port = ", {}, "seseragi.toml: it is not valid TOML"),
    ("upstream without URL", "[upstream.x]", {}, "upstream.x: base_url is missing"),
    ("upstream with a bad URL", '[upstream.x]\nbase_url = "localhost:1"', {}, "upstream.x.base_url: it has to start with http"),
    ("upstream with a key in the URL", '[upstream.x]\nbase_url = "http://a:b@c"', {}, "upstream.x.base_url: put the key into key_env"),
    ("upstream's unknown key", "[upstream.x]\nurl = 1", {}, "upstream.x: unknown key 'url'"),
    ("upstream's preset", '[upstream.x]\npreset = "y"', {}, "unknown preset 'y'; presets: openai"),
    ("upstream's dialect", '[upstream.x]\nbase_url = "http://a"\ndialect = "y"', {}, "unknown dialect 'y'"),
    ("key variable that is not set", '[upstream.x]\nbase_url = "http://a"\nkey_env = "NO_SUCH"', {}, "the environment variable NO_SUCH is not set"),
    ("key file that is not there", '[upstream.x]\nbase_url = "http://a"\nkey_file = "no"', {}, "upstream.x.key_file: it cannot be read"),
    ("upstream called demo", '[upstream.demo]\nbase_url = "http://a"', {}, "is not 'demo'"),
    ("a time of nothing", "heartbeat_s = 0", {}, "heartbeat_s: 0 cannot be used: give a number, more than 0"),
    ("no truth", "", {"SESERAGI_DEMO": "maybe"}, "SESERAGI_DEMO: 'maybe' cannot be used: give true or false"),
    ("a list of another kind", "cors_origins = 3", {}, "cors_origins: 3 cannot be used: give a list"),
    ("unknown variable", "", {"SESERAGI_GATE": "1"}, "SESERAGI_GATE is unknown; did you mean 'SESERAGI_GATE_S'?"),
    ("bad variable", "", {"SESERAGI_PORT": "web"}, "the environment variable SESERAGI_PORT: 'web' cannot be used"),
    ("key that is none", "", {"OPENAI_API_KEY": "sk-\u3042"}, "OPENAI_API_KEY: a key has visible ASCII characters only"),
    ("bad base URL", "", {"OPENAI_BASE_URL": "localhost"}, "OPENAI_BASE_URL: it has to start with http"),
    ("base URL that is none", "", {"OPENAI_BASE_URL": "http://[::1/v1"}, "OPENAI_BASE_URL: it is no URL"),
    ("base URL with a bad port", "", {"OPENAI_BASE_URL": "http://127.0.0.1:abc/v1"}, "OPENAI_BASE_URL: it is no URL"),
    ("base URL with a high port", "", {"OPENAI_BASE_URL": "http://127.0.0.1:99999/v1"}, "OPENAI_BASE_URL: it is no URL"),
    ("base URL with an empty label", "", {"OPENAI_BASE_URL": "http://a..b/v1"}, "OPENAI_BASE_URL: it is no URL"),
    ("base URL with control characters", "", {"OPENAI_BASE_URL": "http://a/\x01v1"}, "OPENAI_BASE_URL: it "),
    ("base URL with a space", "", {"OPENAI_BASE_URL": "http://a b/v1"}, "OPENAI_BASE_URL: it "),
    ("base URL with a query", "", {"OPENAI_BASE_URL": "http://h/v1?a=b"}, "it must have no query"),
    ("base URL with a fragment", "", {"OPENAI_BASE_URL": "http://h/v1#f"}, "it must have no query"),
    ("header with a line end", '[upstream.x]\nbase_url = "http://a"\nheaders = { a = "x\\r\\ny: z" }', {}, "upstream.x.headers.a: a header has visible ASCII"),
    ("number of many digits", "gate_s = " + "9" * 5000, {}, "seseragi.toml: it is not valid TOML"),
    ("deep nesting", "gate_s = " + "[" * 3000, {}, "seseragi.toml: it is nested too deeply"),
    ("unknown level", "", {"SESERAGI_LOG_LEVEL": "LOUD"}, "use 'debug' or 'info' or 'warning' or 'error'"),
    ("missing file", "", {"SESERAGI_CONFIG": "no.toml"}, "no.toml: there is no such file"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "environ", "told"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])  # fmt: skip
def test_bad_setting_is_named_in_one_line(file, environ, told, tmp_path):
    if file:
        (tmp_path / "seseragi.toml").write_text(file)
    with pytest.raises(SettingsError) as caught:
        load_settings(environ)

    assert told in str(caught.value)
    assert "\u3042" not in str(caught.value)


def test_empty_variable_is_none():
    names = (
        "SESERAGI_CONFIG",
        "SESERAGI_PORT",
        "SESERAGI_HOST",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
    )

    assert Settings() == load_settings(dict.fromkeys(names, ""))


def test_kubernetes_service_variables_are_no_settings():
    settings = load_settings(
        {
            "SESERAGI_SERVICE_HOST": "10.0.0.1",
            "SESERAGI_PORT": "tcp://10.0.0.1:8000",
            "SESERAGI_PORT_8000_TCP_PROTO": "tcp",
        }
    )

    assert 8000 == settings.port
