"""Upstreams by variables and by tables: what they become, and how a mistake is told."""

import pytest

from app.settings import SettingsError, load_settings
from app.upstreams.aws import AwsCredentials
from app.upstreams.credentials import Credentials, CredentialsSource, Key, NoCredentials
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


def key_of(credentials: Credentials) -> tuple[str, str]:
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


@pytest.mark.parametrize(
    ("table", "environ", "source", "base_url_source"),
    [
        ("", {"OPENAI_API_KEY": KEY}, ("environment", "OPENAI_API_KEY", None), ""),
        (
            "",
            {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://gw.example"},
            ("environment", "OPENAI_API_KEY", None),
            "OPENAI_BASE_URL",
        ),
        (
            '[upstream.u]\npreset = "gemini"',
            {"GOOGLE_API_KEY": KEY, "GEMINI_API_KEY": " "},
            ("environment", "GOOGLE_API_KEY", None),
            "",
        ),
        (
            '[upstream.u]\nbase_url = "https://a.example"\nkey_env = "MINE"',
            {"MINE": KEY},
            ("environment", "MINE", "seseragi.toml: upstream.u.key_env"),
            "seseragi.toml: upstream.u.base_url",
        ),
        (
            '[upstream.u]\nbase_url = "https://a.example"\nkey_file = "a.key"',
            {},
            ("file", "a.key", "seseragi.toml: upstream.u.key_file"),
            "seseragi.toml: upstream.u.base_url",
        ),
        (
            '[upstream.u]\nbase_url = "https://a.example"',
            {},
            ("none", None, None),
            "seseragi.toml: upstream.u.base_url",
        ),
        (
            '[upstream.bedrock]\nauth = "aws"\nregion = "eu-west-1"\nprofile = "work"',
            {},
            ("aws", "profile 'work'", "seseragi.toml: upstream.bedrock.profile"),
            "",
        ),
        (
            '[upstream.bedrock]\nauth = "aws"\nregion = "eu-west-1"',
            {"AWS_ACCESS_KEY_ID": "AKIA0123456789"},
            ("aws", "AWS_ACCESS_KEY_ID", None),
            "",
        ),
        (
            '[upstream.vertex]\nproject = "p"\nlocation = "eu"',
            {"GOOGLE_APPLICATION_CREDENTIALS": "/run/sa.json"},
            ("google", "GOOGLE_APPLICATION_CREDENTIALS", None),
            "",
        ),
    ],
)
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


X = '[upstream.x]\nbase_url = "https://a.example"\n'

BAD = {
    "unknown key": (X + 'base_ur = "x"', {}, "upstream.x: unknown key 'base_ur'; did you mean 'base_url'?"),
    "wrong type": (X + "models = 1", {}, "upstream.x.models: give a list"),
    "wrong type inside": (X + "models = [1]", {}, "upstream.x.models[0]: give a text"),
    "wrong type of the table": ("[upstream]\nx = 1", {}, "upstream.x: give a table"),
    "tables that are a list": ("[[upstream]]", {}, "upstream: write tables such as [upstream.openai]"),
    "unknown preset": (X + 'preset = "openia"', {}, "unknown preset 'openia'; did you mean 'openai'?; presets: openai"),
    "unknown dialect": (X + 'dialect = "antropic"', {}, "unknown dialect 'antropic'; did you mean 'anthropic'?; dialects:"),
    "unknown auth": (X + 'auth = "basic"', {}, "upstream.x.auth: use 'bearer', 'api-key'"),
    "unknown quirk": (X + "quirks = { stream_option = false }", {}, "upstream.x.quirks: unknown key 'stream_option'; did you mean 'stream_options'?"),
    "quirk of a wrong type": (X + "quirks = { stream_options = 1 }", {}, "upstream.x.quirks.stream_options: give true or false"),
    "quirk of a wrong value": (X + 'quirks = { max_tokens_field = "x" }', {}, "upstream.x.quirks.max_tokens_field: invalid enum value"),
    "quirks of another dialect": (X + 'dialect = "anthropic"\nquirks = { stream_options = true }', {}, "unknown key 'stream_options'"),
    "both keys": (X + 'key_env = "A"\nkey_file = "b"', {"A": KEY}, "upstream.x: key_env and key_file are both given; keep one"),
    "variable that is not set": (X + 'key_env = "NO_SUCH"', {}, "upstream.x.key_env: the environment variable NO_SUCH is not set"),
    "variable without a name": (X + 'key_env = ""', {}, "upstream.x.key_env: give a text that is not empty"),
    "model without a name": (X + 'models = [""]', {}, "upstream.x.models[0]: give a text that is not empty"),
    "header that frames a request": (X + 'headers = { Content-Length = "3" }', {}, "upstream.x.headers.Content-Length: the relay sets this header itself"),
    "auth without a key": (X + 'auth = "api-key"', {}, "upstream.x.auth: there is no key; give key_env or key_file"),
    "key beside Amazon's": (X + 'auth = "aws"\nkey_env = "A"', {"A": KEY}, "upstream.x: auth = 'aws' takes no key"),
    "key beside none": (X + 'auth = "none"\nkey_file = "a"', {}, "upstream.x: auth = 'none' takes no key"),
    "provider without a key": ("[upstream.groq]", {}, "upstream.groq: there is no key; set GROQ_API_KEY, or give key_env or key_file"),
    "provider of several names without a key": ("[upstream.cohere]", {}, "there is no key; set CO_API_KEY or COHERE_API_KEY"),
    "no region": ("[upstream.bedrock]", {}, "upstream.bedrock: region is missing; give it, or set AWS_REGION or AWS_DEFAULT_REGION"),
    "no region by variables alone": ("", {"AWS_BEARER_TOKEN_BEDROCK": KEY}, "upstream 'bedrock': region is missing"),
    "no region to sign for": (X + 'auth = "aws"', {}, "upstream.x: region is missing"),
    "no project": ("[upstream.vertex]", {}, "upstream.vertex: project is missing; give it, or set GOOGLE_CLOUD_PROJECT"),
    "no resource": ("[upstream.azure]", {"AZURE_OPENAI_API_KEY": KEY}, "resource is missing; give it, or set AZURE_RESOURCE_NAME"),
    "no account": ("[upstream.snowflake]", {"SNOWFLAKE_PAT": KEY}, "account is missing; give it, or set SNOWFLAKE_ACCOUNT"),
    "no host": ("[upstream.databricks]", {"DATABRICKS_TOKEN": KEY}, "base_url is missing; give the URL the API is under, or set DATABRICKS_HOST"),
    "place that leads elsewhere": ('[upstream.bedrock]\nregion = "evil.example/"', {}, "upstream.bedrock: region cannot be used"),
    "place in a variable that leads elsewhere": ("[upstream.vertex]", {"GOOGLE_CLOUD_PROJECT": "p/../q"}, "project cannot be used"),
    "unknown place": ('[upstream.x]\nbase_url = "https://{zone}.example"', {}, "what may stand in braces is {model}, {region}"),
    "brace alone": ('[upstream.x]\nbase_url = "https://a.example/{"', {}, "what may stand in braces is"),
    "model that leads elsewhere": ('[upstream.x]\nbase_url = "https://{model}.example"', {}, "upstream.x.base_url: {model} may stand in the path only"),
    "header that is there twice": (X + 'headers = { X-A = "1", x-a = "2" }', {}, "upstream.x.headers: 'x-a' is there twice"),
    "certificates that are not there": ("", {"SSL_CERT_FILE": "/no/such.pem"}, "SSL_CERT_FILE: '/no/such.pem' is no file of certificates"),
    "proxy that is none": ("", {"HTTPS_PROXY": "ftp://me:secret@a"}, "the environment variable HTTPS_PROXY: it is no URL of a proxy"),
    "proxy that is no URL": ("", {"all_proxy": "http://[::1"}, "the environment variable all_proxy: it is no URL of a proxy"),
}  # fmt: skip


@pytest.mark.parametrize(("table", "environ", "told"), BAD.values(), ids=BAD)
def test_mistake_is_told_in_one_line(table, environ, told, load):
    with pytest.raises(SettingsError) as caught:
        load(table, **environ)

    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)
    assert "secret" not in str(caught.value)
