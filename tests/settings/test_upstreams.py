"""Upstreams by variables and by tables: what they become."""

import pytest

from app.settings import load_settings
from app.upstreams.aws import AwsCredentials
from app.upstreams.credentials import CredentialsSource, Key, NoCredentials, UpstreamCredentials
from app.upstreams.google import GoogleCredentials

pytestmark = pytest.mark.pure

KEY = "sk-0123456789abcdef"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def load(tmp_path):
    def load(table: str, **environ: str):
        (tmp_path / "seseragi.toml").write_text(table)
        return load_settings(environ).upstreams

    return load


def key_of(credentials: UpstreamCredentials) -> tuple[str, str]:
    assert isinstance(credentials, Key)
    return credentials.auth, credentials.secret.reveal()


VARIABLES = [
    ({"OPENAI_API_KEY": KEY}, "openai", "https://api.openai.com/v1", "bearer"),
    ({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://eu.api.openai.com/v1/"}, "openai", "https://eu.api.openai.com/v1", "bearer"),
    ({"ANTHROPIC_API_KEY": KEY}, "anthropic", "https://api.anthropic.com", "x-api-key"),
    ({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "https://gw.example/anthropic"}, "anthropic", "https://gw.example/anthropic", "x-api-key"),
    ({"GEMINI_API_KEY": KEY}, "gemini", "https://generativelanguage.googleapis.com/v1beta", "x-goog-api-key"),
    ({"GOOGLE_API_KEY": KEY}, "gemini", "https://generativelanguage.googleapis.com/v1beta", "x-goog-api-key"),
    ({"GEMINI_API_KEY": KEY, "GOOGLE_API_KEY": "maps-0123456789"}, "gemini", "https://generativelanguage.googleapis.com/v1beta", "x-goog-api-key"),
    ({"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": "https://gw.example/"}, "gemini", "https://gw.example/v1beta", "x-goog-api-key"),
    ({"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": "https://gw.example/v1beta"}, "gemini", "https://gw.example/v1beta", "x-goog-api-key"),
    ({"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/"}, "azure", "https://r.openai.azure.com/openai/v1", "api-key"),
    ({"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/openai/v1/"}, "azure", "https://r.openai.azure.com/openai/v1", "api-key"),
    ({"AWS_BEARER_TOKEN_BEDROCK": KEY, "AWS_REGION": "eu-west-1"}, "bedrock", "https://bedrock-runtime.eu-west-1.amazonaws.com", "bearer"),
    ({"AWS_BEARER_TOKEN_BEDROCK": KEY, "AWS_DEFAULT_REGION": "us-east-1"}, "bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com", "bearer"),
    ({"COHERE_API_KEY": KEY}, "cohere", "https://api.cohere.com", "bearer"),
    ({"GROQ_API_KEY": KEY, "GROQ_BASE_URL": "https://api.groq.com"}, "groq", "https://api.groq.com/openai/v1", "bearer"),
    ({"OLLAMA_HOST": "ollama", "OLLAMA_API_KEY": KEY}, "ollama", "http://ollama:11434", "bearer"),
]  # fmt: skip


@pytest.mark.parametrize(("environ", "name", "base_url", "auth"), VARIABLES)
def test_variables_add_an_upstream(environ, name, base_url, auth):
    (upstream,) = load_settings(environ).upstreams

    assert (name, base_url) == (upstream.name, upstream.base_url)
    assert (auth, KEY) == key_of(upstream.credentials)


ANY = '[upstream.u]\nbase_url = "https://a.example"\n'
BEDROCK = '[upstream.bedrock]\nauth = "aws"\nregion = "eu-west-1"\n'
GEMINI = {"GOOGLE_API_KEY": KEY, "GEMINI_API_KEY": " "}
TABLE_URL = "seseragi.toml: upstream.u.base_url"
SOURCES = [
    ("", {"OPENAI_API_KEY": KEY}, ("environment", "OPENAI_API_KEY", None), ""),
    ("", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://gw.example"}, ("environment", "OPENAI_API_KEY", None), "OPENAI_BASE_URL"),
    ('[upstream.u]\npreset = "gemini"', GEMINI, ("environment", "GOOGLE_API_KEY", None), ""),
    (ANY + 'key_env = "MINE"', {"MINE": KEY}, ("environment", "MINE", "seseragi.toml: upstream.u.key_env"), TABLE_URL),
    (ANY + 'key_file = "a.key"', {}, ("file", "a.key", "seseragi.toml: upstream.u.key_file"), TABLE_URL),
    (ANY, {}, ("none", None, None), TABLE_URL),
    (BEDROCK + 'profile = "work"', {}, ("aws", "profile 'work'", None), ""),
    (BEDROCK, {}, ("aws", None, None), ""),
    ('[upstream.vertex]\nproject = "p"\nlocation = "eu"', {}, ("google", None, None), ""),
]  # fmt: skip


@pytest.mark.parametrize(("table", "environ", "source", "base_url_source"), SOURCES)
def test_an_upstream_knows_where_its_key_and_its_url_came_from(
    load, tmp_path, table, environ, source, base_url_source
):
    (tmp_path / "a.key").write_text(KEY)
    upstream, *_ = load(table, **environ)

    assert CredentialsSource(*source) == upstream.credentials_source
    assert base_url_source == upstream.base_url_source
    assert KEY not in f"{upstream.credentials_source} {upstream.credentials_source!r}"


HOSTS = {
    "ollama": "http://ollama:11434",
    "ollama:80": "http://ollama:80",
    ":5000": "http://127.0.0.1:5000",
    "0.0.0.0": "http://127.0.0.1:11434",  # noqa: S104  (a variable that servers read too)
    "0.0.0.0:5000": "http://127.0.0.1:5000",
    "[::1]": "http://[::1]:11434",
    "[::1]:5000": "http://[::1]:5000",
    "ollama/path/": "http://ollama:11434/path",
    "https://ollama.com": "https://ollama.com",
    "http://ollama:5000/": "http://ollama:5000",
}


@pytest.mark.parametrize(("host", "base_url"), HOSTS.items())
def test_ollama_host_has_its_own_forms(host, base_url):
    (upstream,) = load_settings({"OLLAMA_HOST": host}).upstreams

    assert base_url == upstream.base_url
    assert isinstance(upstream.credentials, NoCredentials)


@pytest.mark.parametrize("host", ["dbc-1.cloud.databricks.com", "https://dbc-1.cloud.databricks.com/"])  # fmt: skip
def test_databricks_host_may_have_no_scheme(host, load):
    (upstream,) = load("[upstream.databricks]", DATABRICKS_HOST=host, DATABRICKS_TOKEN=KEY)

    assert "https://dbc-1.cloud.databricks.com/serving-endpoints" == upstream.base_url


def test_any_other_host_is_three_lines(load):
    (upstream,) = load(
        '[upstream.other]\nbase_url = "https://llm.example/v1"\nkey_env = "OTHER_API_KEY"\n',
        OTHER_API_KEY=KEY,
    )

    assert ("other", "openai_chat") == (upstream.name, upstream.dialect)
    assert ("bearer", KEY) == key_of(upstream.credentials)
    assert upstream.lists_models


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('[upstream.other]\nbase_url = "https://llm.example/v1"', "as_received"),
        ('[upstream.openai]\nbase_url = "https://llm.example/v1"', "as_received"),
        ("[upstream.openai]", "no"),
        ("[upstream.groq]", "no"),
        ("[upstream.deepseek]", "reasoning_content"),
    ],
)
def test_reasoning_goes_back_to_hosts_that_are_known_or_have_sent_it(load, table, expected):
    keys = dict.fromkeys(("OPENAI_API_KEY", "GROQ_API_KEY", "DEEPSEEK_API_KEY"), KEY)

    assert expected == load(table, **keys)[0].quirks.send_reasoning


def test_table_overrules_the_preset(load):
    (upstream,) = load(
        """
        [upstream.azure]
        resource = "r-1"
        models = ["a", "b"]
        auth = "bearer"
        quirks = { stream_options = false }
        """,
        AZURE_OPENAI_API_KEY=KEY,
        AZURE_OPENAI_ENDPOINT="",
    )

    assert "https://r-1.openai.azure.com/openai/v1" == upstream.base_url
    assert ("a", "b") == upstream.models
    assert "bearer" == key_of(upstream.credentials)[0]
    assert upstream.quirks is not None
    assert "max_completion_tokens" == getattr(upstream.quirks, "max_tokens_field", None)
    assert upstream.quirks.stream_options is False


def test_deployments_have_the_model_in_the_url(load):
    (upstream,) = load('[upstream.azure-deployments]\nresource = "r-1"', AZURE_OPENAI_API_KEY=KEY)

    assert upstream.base_url.endswith("/openai/deployments/{model}")
    assert {"api-version": "2024-10-21"} == upstream.query


def test_listed_models_are_the_default_rather_than_the_presets(load):
    (upstream,) = load('[upstream.openai]\nmodels = ["gpt-x"]', OPENAI_API_KEY=KEY)

    assert upstream.default_model is None


def test_bedrock_signs_unless_there_is_a_key(load):
    table = '[upstream.bedrock]\nregion = "eu-west-1"'
    (signed,) = load(table)
    (keyed,) = load(table, AWS_BEARER_TOKEN_BEDROCK=KEY)
    (told,) = load(table + '\nauth = "aws"', AWS_BEARER_TOKEN_BEDROCK=KEY)

    assert isinstance(signed.credentials, AwsCredentials)
    assert isinstance(keyed.credentials, Key)
    assert isinstance(told.credentials, AwsCredentials)


def test_vertex_takes_googles_credentials(load):
    (upstream,) = load('[upstream.vertex-anthropic]\nproject = "p"', GOOGLE_CLOUD_LOCATION="eu")

    assert isinstance(upstream.credentials, GoogleCredentials)
    assert upstream.base_url.startswith("https://aiplatform.eu.rep.googleapis.com/v1/projects/p/")


def test_auth_none_sends_no_key(load):
    (upstream,) = load(
        '[upstream.openai]\nbase_url = "http://127.0.0.1:1/v1"\nauth = "none"', OPENAI_API_KEY=KEY
    )

    assert isinstance(upstream.credentials, NoCredentials)


def test_base_url_may_leave_places_open(load):
    (upstream,) = load(
        '[upstream.x]\nbase_url = "https://{region}.llm.example/{account}/v1"\naccount = "a"',
        AWS_REGION="eu",
    )

    assert "https://eu.llm.example/a/v1" == upstream.base_url


def test_headers_replace_ours_however_they_are_written(load):
    (upstream,) = load('[upstream.x]\nbase_url = "http://a"\nheaders = { User-Agent = "mine" }')

    assert {"user-agent": "mine"} == upstream.headers


AZURE = {"AZURE_OPENAI_API_KEY": KEY}
DOORS = [
    ("OpenAI", {"OPENAI_API_KEY": KEY}, ["openai_responses"]),
    ("a region of OpenAI", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://eu.api.openai.com/v1"}, ["openai_responses"]),
    ("another host", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://api.openai.com.example/v1"}, []),
    ("another path", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://api.openai.com/x/v1"}, []),
    ("Azure", {**AZURE, "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com"}, ["openai_responses"]),
    ("Foundry", {**AZURE, "AZURE_OPENAI_ENDPOINT": "https://r.services.ai.azure.com"}, ["openai_responses"]),
    ("a deployment", {**AZURE, "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/openai/deployments/d"}, []),
    ("xAI", {"XAI_API_KEY": KEY}, ["openai_responses"]),
    ("DeepSeek", {"DEEPSEEK_API_KEY": KEY}, []),
]  # fmt: skip


@pytest.mark.parametrize(("environ", "dialects"), [row[1:] for row in DOORS], ids=[row[0] for row in DOORS])  # fmt: skip
def test_a_providers_own_host_has_its_other_api(environ, dialects):
    (upstream,) = load_settings(environ).upstreams

    assert "openai_chat" == upstream.dialect
    assert dialects == [door.upstream.dialect for door in upstream.doors]


@pytest.mark.parametrize(
    ("dialect", "doors"),
    [
        ('"openai_chat"', []),
        ('["openai_chat"]', []),
        ('["openai_chat", "openai_responses"]', ["openai_responses"]),
    ],
)
def test_dialect_of_a_table_fixes_the_apis(dialect, doors, load):
    (upstream,) = load(f"[upstream.openai]\ndialect = {dialect}", OPENAI_API_KEY=KEY)

    assert doors == [door.upstream.dialect for door in upstream.doors]
    assert all(door.upstream.credentials is upstream.credentials for door in upstream.doors)


def test_quirks_of_a_table_are_of_its_first_dialect(load):
    (upstream,) = load(
        '[upstream.openai]\nquirks = { send_reasoning = "reasoning" }', OPENAI_API_KEY=KEY
    )
    (door,) = upstream.doors

    assert "reasoning" == upstream.quirks.send_reasoning
    assert (True, "encrypted") == (
        door.upstream.quirks.compaction,
        door.upstream.quirks.send_reasoning,
    )
