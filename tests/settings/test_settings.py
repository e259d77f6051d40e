"""The settings: where values come from."""

import pytest

from app.settings import Settings, load_settings
from app.upstreams.credentials import Key, NoCredentials

pytestmark = pytest.mark.pure


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_defaults_need_nothing():
    assert Settings() == load_settings({})


def test_later_sources_win(tmp_path):
    file = tmp_path / "relay.toml"
    file.write_text('port = 1000\nstatus_wait_s = 1\nhost = "::1"\n')
    settings = load_settings(
        {"SESERAGI_PORT": "2000", "SESERAGI_STATUS_WAIT_S": "2.5"},
        config=str(file),
        overrides={"port": "3000"},
    )

    assert (3000, 2.5, "::1") == (settings.port, settings.status_wait_s, settings.host)


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


def test_empty_variable_is_none():
    ours = ("SESERAGI_CONFIG", "SESERAGI_PORT", "SESERAGI_HOST")
    names = (*ours, "OPENAI_API_KEY", "OPENAI_BASE_URL")

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
