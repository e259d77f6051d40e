"""What cannot be used of the settings is named in one line, with its place and a cure."""

import msgspec
import pytest

from app.api.client_secrets import SecretOptions
from app.settings import SettingsError, load_settings
from app.settings.convert import OLD_NAMES
from app.settings.load import find_contradictions
from app.settings.values import SCALARS

pytestmark = pytest.mark.pure

KEY = "sk-0123456789abcdef"
X = '[upstream.x]\nbase_url = "https://a.example"\n'
ALL = [
    ("unknown key", "prot = 1", {}, "seseragi.toml: unknown key 'prot'; did you mean 'port'?"),
    ("misspelled table", "[upstrem.x]", {}, "seseragi.toml: unknown key 'upstrem'; did you mean 'upstream'?"),
    ("plural of a table", "[[routes]]", {}, "seseragi.toml: unknown key 'routes'; did you mean 'route'?"),
    ("key as elsewhere", f"{X}api_key = '{KEY}'", {}, "seseragi.toml: upstream.x: unknown key 'api_key'; a provider's key is in the variable that key_env of its [upstream.NAME] names"),
    ("key in a variable", "", {"SESERAGI_API_KEY": KEY}, "SESERAGI_API_KEY is unknown; a provider's key is in the variable that key_env"),
    ("fallbacks as elsewhere", "fallbacks = ['a/x']", {}, "seseragi.toml: unknown key 'fallbacks'; fallbacks are the further targets of a [[route]]"),
    ("bad type", 'port = "x"', {}, "seseragi.toml: port: 'x' cannot be used: give a whole number"),
    ("out of range", "port = 99999", {}, "port: 99999 cannot be used: give a whole number, 65535 or less"),
    ("proxy by name", 'trusted_proxies = ["caddy"]', {}, "trusted_proxies: 'caddy' cannot be used: give the address of a proxy, or a network such as '10.0.0.0/8'"),
    ("log of another kind", 'log = "amqp://x"', {}, "log: unknown log 'amqp'; known: memory, sqlite, redis"),
    ("log with a password", 'log = "amqp://:secret@x"', {}, "log: unknown log 'amqp'; known: memory, sqlite, redis"),
    ("not TOML", "port = ", {}, "seseragi.toml: invalid TOML"),
    ("upstream without URL", "[upstream.x]", {}, "upstream.x: base_url is missing"),
    ("upstream with a bad URL", '[upstream.x]\nbase_url = "localhost:1"', {}, "upstream.x.base_url: must start with http"),
    ("upstream with a key in the URL", '[upstream.x]\nbase_url = "http://a:b@c"', {}, "upstream.x.base_url: put the key into key_env"),
    ("upstream's unknown key", "[upstream.x]\nurl = 1", {}, "upstream.x: unknown key 'url'"),
    ("key file that is not there", '[upstream.x]\nbase_url = "http://a"\nkey_file = "no"', {}, "upstream.x.key_file: cannot be read"),
    ("upstream called demo", '[upstream.demo]\nbase_url = "http://a"', {}, "is not 'demo'"),
    ("a time of nothing", "heartbeat_s = 0", {}, "heartbeat_s: 0 cannot be used: give a number, more than 0"),
    ("no truth", "", {"SESERAGI_DEMO": "maybe"}, "SESERAGI_DEMO: 'maybe' cannot be used: give true or false"),
    ("old name", "max_requests_bytes = 1024", {}, "seseragi.toml: unknown key 'max_requests_bytes'; it was renamed: write 'max_request_memory_bytes'"),
    ("old name", "breaker_longest_pause_s = 15", {}, "unknown key 'breaker_longest_pause_s'; it was renamed: write 'breaker_max_pause_s'"),
    ("old name elsewhere", X + "gate_s = 5", {}, "upstream.x: unknown key 'gate_s'"),
    ("old variable", "", {"SESERAGI_GATE_S": "5"}, "SESERAGI_GATE_S is unknown; it was renamed: write 'SESERAGI_STATUS_WAIT_S'"),
    ("unknown variable", "", {"SESERAGI_STATUS_WAIT": "1"}, "SESERAGI_STATUS_WAIT is unknown; did you mean 'SESERAGI_STATUS_WAIT_S'?"),
    ("bad variable", "", {"SESERAGI_PORT": "web"}, "the environment variable SESERAGI_PORT: 'web' cannot be used"),
    ("key that is none", "", {"OPENAI_API_KEY": "sk-\u3042"}, "OPENAI_API_KEY: a key may only contain visible ASCII characters"),
    ("bad base URL", "", {"OPENAI_BASE_URL": "localhost"}, "OPENAI_BASE_URL: must start with http"),
    ("base URL that is none", "", {"OPENAI_BASE_URL": "http://[::1/v1"}, "OPENAI_BASE_URL: not a URL"),
    ("base URL with a space", "", {"OPENAI_BASE_URL": "http://a b/v1"}, "OPENAI_BASE_URL: must not contain"),
    ("base URL with a query", "", {"OPENAI_BASE_URL": "http://h/v1?a=b"}, "must not contain a query"),
    ("header with a line end", '[upstream.x]\nbase_url = "http://a"\nheaders = { a = "x\\r\\ny: z" }', {}, "upstream.x.headers.a: only visible ASCII"),
    ("number of many digits", "status_wait_s = " + "9" * 5000, {}, "seseragi.toml: invalid TOML"),
    ("deep nesting", "status_wait_s = " + "[" * 3000, {}, "seseragi.toml: nested too deeply"),
    ("unknown level", "", {"SESERAGI_LOG_LEVEL": "LOUD"}, "use 'debug' or 'error' or 'info' or 'warning'"),
    ("missing file", "", {"SESERAGI_CONFIG": "no.toml"}, "no.toml: file not found"),
]  # fmt: skip

UPSTREAMS = [
    ("unknown key", X + 'base_ur = "x"', {}, "upstream.x: unknown key 'base_ur'; did you mean 'base_url'?"),
    ("wrong type", X + "models = 1", {}, "upstream.x.models: give a list"),
    ("wrong type of the table", "[upstream]\nx = 1", {}, "upstream.x: give a table"),
    ("tables that are a list", "[[upstream]]", {}, "upstream: write tables such as [upstream.openai]"),
    ("unknown preset", X + 'preset = "openia"', {}, "unknown preset 'openia'; did you mean 'openai'?; presets: openai"),
    ("unknown dialect", X + 'dialect = "antropic"', {}, "unknown dialect 'antropic'; did you mean 'anthropic'?; known: openai_chat"),
    ("resume of another dialect", X + "resume = true", {}, "upstream.x.resume: 'openai_chat' cannot read an answer on; dialects that can: gemini_interactions, openai_responses"),
    ("unknown auth", X + 'auth = "basic"', {}, "upstream.x.auth: use 'api-key' or 'aws' or 'bearer'"),
    ("unknown quirk", X + "quirks = { stream_option = false }", {}, "upstream.x.quirks: unknown key 'stream_option'; did you mean 'stream_options'?"),
    ("quirk of a wrong type", X + "quirks = { stream_options = 1 }", {}, "upstream.x.quirks.stream_options: give true or false"),
    ("quirks of another dialect", X + 'dialect = "anthropic"\nquirks = { stream_options = true }', {}, "unknown key 'stream_options'"),
    ("both keys", X + 'key_env = "A"\nkey_file = "b"', {"A": KEY}, "upstream.x: key_env and key_file are both set; remove one"),
    ("variable that is not set", X + 'key_env = "NO_SUCH"', {}, "upstream.x.key_env: the environment variable NO_SUCH is not set"),
    ("variable without a name", X + 'key_env = ""', {}, "upstream.x.key_env: give a string that is not empty"),
    ("header that frames a request", X + 'headers = { Content-Length = "3" }', {}, "upstream.x.headers.Content-Length: the relay sets this header itself"),
    ("auth without a key", X + 'auth = "api-key"', {}, "upstream.x.auth: no key; set key_env or key_file"),
    ("key beside Amazon's", X + 'auth = "aws"\nkey_env = "A"', {"A": KEY}, "upstream.x: auth = 'aws' takes no key"),
    ("provider without a key", "[upstream.groq]", {}, "upstream.groq: no key; set GROQ_API_KEY, key_env or key_file"),
    ("no region", "[upstream.bedrock]", {}, "upstream.bedrock: region is missing; give it, or set AWS_REGION or AWS_DEFAULT_REGION"),
    ("no project", "[upstream.vertex]", {}, "upstream.vertex: project is missing; give it, or set GOOGLE_CLOUD_PROJECT"),
    ("no host", "[upstream.databricks]", {"DATABRICKS_TOKEN": KEY}, "base_url is missing; set the base URL of the API, or set DATABRICKS_HOST"),
    ("place that leads elsewhere", '[upstream.bedrock]\nregion = "evil.example/"', {}, "upstream.bedrock: region cannot be used"),
    ("unknown place", '[upstream.x]\nbase_url = "https://{zone}.example"', {}, "unknown placeholder; use one of {model}, {region}"),
    ("model that leads elsewhere", '[upstream.x]\nbase_url = "https://{model}.example"', {}, "upstream.x.base_url: {model} is only allowed in the path"),
    ("certificates that are not there", "", {"SSL_CERT_FILE": "/no/such.pem"}, "SSL_CERT_FILE: '/no/such.pem' is not a file of certificates"),
    ("proxy that is none", "", {"HTTPS_PROXY": "ftp://me:secret@a"}, "the environment variable HTTPS_PROXY: not a proxy URL"),
    ("proxy that is no URL", "", {"all_proxy": "http://[::1"}, "the environment variable all_proxy: not a proxy URL"),
]  # fmt: skip

TWO_UPSTREAMS = """
[upstream.a]
base_url = "http://a.example/v1"
[upstream.b]
base_url = "http://b.example/v1"
"""
ROUTES = [
    ("route = 1", "route: write tables such as [[route]]"),
    ("[route]\nname = 'r'", "route: write tables such as [[route]]"),
    ("[[route]]\ntargets = ['a/x']", "route[1]: missing key 'name'"),
    ("[[route]]\nname = 'r'", "route[1] ('r'): missing key 'targets'"),
    ("[[route]]\nname = 'r'\ntargets = []", "route[1] ('r').targets: give a list that is not empty"),
    ("[[route]]\nname = 'r'\ntargets = [{ model = 'a/x', attempts = 11 }]", "route[1] ('r').targets[0].attempts: give a whole number, 10 or less"),
    ("[[route]]\nname = 'a b'\ntargets = ['a/x']", "route[1] ('a b').name: give 1 to 200 visible ASCII characters"),
    ("[[route]]\nname = 'r'\ntargets = ['x']", "route 'r': targets[0]: 'x' is not of the form upstream/model"),
    ("[[route]]\nname = 'r'\ntargets = ['bb/x']", "'bb/x': unknown upstream; upstreams: a, b, demo; did you mean 'b'?"),
    ("[[route]]\nname = 'r'\ntargets = ['groq/x/y']", "'groq/x/y': unknown upstream; set GROQ_API_KEY, or write [upstream.groq]"),
    ("[[route]]\nname = 'r'\ntargets = ['vertex/x']", "unknown upstream; write [upstream.vertex]"),
    ("[[route]]\nname = 'r'\ntargets = [{ modell = 'a/x' }]", "route[1] ('r').targets[0]: unknown key 'modell'; did you mean 'model'?"),
    ("[[route]]\nname = 'r'\ntargets = [{ model = 'a/x', order = 0 }]", "targets[0].order: "),
    ("[[route]]\nname = 'r'\ntarget = ['a/x']", "route[1] ('r'): unknown key 'target'; did you mean 'targets'?"),
    ("[[route]]\nname = 'r'\ntargets = ['a/x']\nfallbacks = ['b/x']", "route[1] ('r'): unknown key 'fallbacks'; fallbacks are the further targets of a [[route]]"),
    ("[[route]]\nname = 'r'\ntargets = [1]", "route[1] ('r').targets[0]: give a string or a table"),
    ("[[route]]\nname='r'\ntargets=['a/x']\n[[route]]\nname='r'\ntargets=['a/x']\n", "route 'r': the name is used twice"),
    ("[[route]]\nname='r'\ntargets=['a/x']\naliases=['s']\n[[route]]\nname='s'\ntargets=['a/x']\n", "route 'r': the alias 's' is a route's name"),
    ("[[route]]\nname='r'\ntargets=['a/x']\naliases=['t']\n[[route]]\nname='s'\ntargets=['a/x']\naliases=['t']", "route 's': the alias 't' is also of route 'r'"),
    ("[[route]]\nname='r'\ntargets=['a/x']\nhedge_percentile = 95", "route 'r': hedge_percentile needs a second target"),
    ("[[route]]\nname='r'\ntargets=['a/x']\ntakeover = true", "route 'r'.takeover: nothing can go on with an answer; set rescue = true"),
    ("[[route]]\nname='r'\ntargets=['a/x']\nwhen_spent = 0.5", "route 'r': set both when_spent and spent_target, or neither"),
    ("[[route]]\nname='r'\ntargets=['a/x']\nwhen_spent = 0.5\nspent_target = 'c/x'", "route 'r': spent_target: 'c/x': unknown upstream"),
    ("[[route]]\nname='r'\ntargets=['a/x']\nbalance = 'latncy'", "route 'r'.balance: unknown balance 'latncy'; did you mean 'latency'?; known: affinity, random, least_busy, latency; packages add others by the entry point group 'seseragi.balances'"),
    ("[[route]]\nname='r'\ntargets=['a/x']\ndefaults = { temprature = 1 }", "route 'r'.defaults: 'temprature' cannot have a default; did you mean 'temperature'?"),
    ("[[route]]\nname='r'\ntargets=['a/x']\ndefaults = { temperature = 3 }", "route 'r'.defaults.temperature: give a number, 2 or less"),
    ("[[route]]\nname='r'\ntargets=[{ model = 'a/x', set = { model = 'y' } }]", "targets[0].set: 'model' cannot be changed: the relay sets it"),
    ("[[route]]\nname='r'\ntargets=[{ model = 'a/x', rename = { max_tokens = 'y' } }]", "targets[0].rename: 'max_tokens' cannot be changed, since it determines what is reserved"),
    ("[[route]]\nname='r'\ntargets=[{ model = 'a/x', drop = ['a..b'] }]", "targets[0].drop: 'a..b' is not a field; separate steps by one dot"),
]  # fmt: skip

PRICE = '[[price]]\ntarget = "a/b"\n'
PRICES = [
    ("price = 3", "seseragi.toml: price: write tables such as [[price]]"),
    ("[[price]]\ninput = 1\noutput = 1", "price[1]: missing key 'target'"),
    ('[[price]]\ntarget = "a/b"', "price[1] ('a/b'): missing key 'input'"),
    (PRICE + "input = 1\noutput = 1\ncached = 1", "price[1] ('a/b'): unknown key 'cached'"),
    (PRICE + "input = -1\noutput = 1", "price[1] ('a/b').input: give a number, 0 or more"),
    (PRICE + 'input = "1"\noutput = 1', "price[1] ('a/b').input: give a number"),
    ('[[price]]\ntarget = "gpt-5"\ninput = 1\noutput = 1', "price[1] ('gpt-5').target: 'gpt-5' matches nothing: write 'upstream/model'"),
    (PRICE + 'input = 1\noutput = 1\nversion = ""', "price[1] ('a/b').version: give 1 to 40 visible ASCII characters"),
    (PRICE + "input = 1\noutput = 1\ntiers = [{above = 1, inputs = 2}]", "price[1] ('a/b').tiers[0]: unknown key 'inputs'; did you mean 'input'?"),
    (PRICE + "input = 1\noutput = 1\ntiers = [{above = 9, input = 2, output = 2}, {above = 9, input = 3, output = 3}]", "price[1] ('a/b').tiers: two are above the same length"),
]  # fmt: skip

A_KEY = f"[[key]]\nname = 'a'\nsha256 = '{'0' * 64}'\n"
LIMITS = [
    ("[limits]\nusd_per_dya = 1", "limits: unknown key 'usd_per_dya'; did you mean 'usd_per_day'?"),
    ("[limits]\nrequests_per_minute = 1.5", "limits.requests_per_minute: give a whole number"),
    ("[limits]\nusd_per_day = -1", "limits.usd_per_day: give a number, 0 or more"),
    ("[limits]\nmax_output_tokens = 0", "limits.max_output_tokens: give a whole number, 1 or more"),
    ("[limits.user]\nmax_output_tokens = 5", "limits.user: unknown key 'max_output_tokens'"),
    ("[limits.users]\nstreams = 5", "limits: unknown key 'users'; did you mean 'user'?"),
    ("[limits]\nuser = 5", "limits.user: give a table"),
    ("tenant = 'acme'", "tenant: give a table"),
    ("[tenant]\nacme = 5", "tenant.acme: give a table"),
    ("[tenant.acme]\nstreams = -5", "tenant.acme.streams: give a whole number, 0 or more"),
    ('[tenant."a\\u200b"]\nstreams = 5', "is not a tenant name"),
    (A_KEY + "limits = { usd = 1 }", "key[1].limits: unknown key 'usd'"),
    ("[[issuer]]\nissuer = 'https://a.example'\naudience = 'b'\nlimits = { day = 1 }", "issuer[1].limits: unknown key 'day'"),
]  # fmt: skip

WRITE = "cannot be used: write 'https://a.example', as browsers send it"
ORIGINS = [
    ("cors_origins = ['a.example']", f"seseragi.toml: cors_origins: 'a.example' {WRITE}"),
    ("cors_origins = ['https://a.example/']", f"cors_origins: 'https://a.example/' {WRITE}"),
    ("cors_origins = ['https://a.example/chat']", WRITE),
    ("cors_origins = ['HTTPS://A.example:443']", WRITE),
    ("cors_origins = ['https://u:secret@a.example']", f"cors_origins: it {WRITE}"),
    ("cors_origins = ['https://\u4f8b.example']", "write 'https://xn--fsq.example'"),
    ("cors_origins = ['localhost:3000']", "write 'http://localhost:3000'"),
    ("cors_origins = ['https://*.a.example']", "give the origin of a page, such as 'https://chat.example.com', or '*' for all"),
    ("cors_origins = ['https://a:b']", "give the origin of a page"),
    (A_KEY + "origins = ['a.example']", "key[1].origins[0]: give origins as browsers send them, such as 'https://chat.example.com'"),
    (A_KEY + "origins = ['*']", "key[1].origins[0]: give origins as browsers send them"),
    (A_KEY + "origins = ['HTTPS://A.example']", "key[1].origins[0]: give origins as browsers send them"),
    (A_KEY + "origins = ['https://A.example:443']", f"key[1].origins: 'https://A.example:443' {WRITE}"),
    ("[[issuer]]\nissuer = 'https://i.example'\naudience = 'b'\norigins = ['https://a.example/']", "issuer[1].origins[0]: give origins as browsers send them"),
]  # fmt: skip

MISTAKES = [
    *((file, {}, told, "") for file, told in ORIGINS),
    *(pytest.param(*row, "", id=name) for name, *row in (*ALL, *UPSTREAMS)),
    *((file, {}, told, "") for file, told in (*PRICES, *LIMITS)),
    *((f"{file}\n{TWO_UPSTREAMS}", {}, told, "seseragi.toml: route") for file, told in ROUTES),
]


def test_origins_as_browsers_send_them_can_be_used():
    origins = "*,null,http://127.0.0.1:5173,http://[::1]:8,https://a.example,capacitor://localhost"
    settings = load_settings({"SESERAGI_CORS_ORIGINS": origins})

    assert tuple(origins.split(",")) == settings.cors_origins


@pytest.mark.parametrize(
    "origin", ["tauri://localhost", "capacitor://localhost", "chrome-extension://abcdef", "null"]
)
def test_origin_of_an_app_can_be_that_of_pages_of_a_key_and_of_a_client_secret(
    origin, tmp_path, monkeypatch
):
    options = msgspec.json.decode(f'{{"origins": ["{origin}"]}}', type=SecretOptions)
    assert (origin,) == options.origins
    (tmp_path / "seseragi.toml").write_text(A_KEY + f"origins = ['{origin}']")
    monkeypatch.chdir(tmp_path)
    (key,) = load_settings({}).identity.keys
    assert (origin,) == key.origins


def of_route(targets: str) -> str:
    return f"[upstream.a]\nbase_url = 'http://a'\nmodels = ['m', 'n']\n[[route]]\nname = 'r'\n{targets}"


TOO_SHORT = "total_timeout_s: {} s is below first_event_timeout_s ({} s): raise it, or lower that"
UNLISTED = "route 'r': 'a/x': models of [upstream.a] does not list it; add it there, or correct it"
CONTRADICTIONS = {
    "nothing set": ("", []),
    "all below each other": ("fallback_after_s = 1\nfirst_event_timeout_s = 2\ntotal_timeout_s = 3", []),
    "first event after the whole": ("first_event_timeout_s = 3\ntotal_timeout_s = 2", [TOO_SHORT.format(2, 3)]),
    "another target too late": ("first_event_timeout_s = 70\nfallback_after_s = 80", ["fallback_after_s: 80 s is above first_event_timeout_s (70 s) and has no effect; lower it"]),
    "default that is not reached": ("first_event_timeout_s = 30", []),
    "listed": (of_route("targets = ['a/m']"), []),
    "not listed": (of_route("targets = ['a/x', 'a/m']"), [UNLISTED]),
    "not listed when spent": (of_route("targets = ['a/m']\nwhen_spent = 0.5\nspent_target = 'a/x'"), [UNLISTED]),
    "nothing listed": ("[upstream.a]\nbase_url = 'http://a'\n[[route]]\nname = 'r'\ntargets = ['a/x']", []),
    "of one target": (of_route("targets = [{ model = 'a/m', total_timeout_s = 9 }, 'a/n']"), ["route 'r': 'a/m': " + TOO_SHORT.format(9, 300)]),
    "of all targets": ("total_timeout_s = 9\n" + of_route("targets = [{ model = 'a/m', idle_timeout_s = 1 }]"), [TOO_SHORT.format(9, 300)]),
}  # fmt: skip


@pytest.mark.parametrize(("file", "lines"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_contradictions_are_told_in_one_line_each(file, lines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seseragi.toml").write_text(file)

    assert lines == [*find_contradictions(load_settings({}))]


@pytest.mark.parametrize(("file", "environ", "told", "place"), MISTAKES)
def test_mistake_is_told_in_one_line_that_begins_with_its_place(
    file, environ, told, place, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    if file:
        (tmp_path / "seseragi.toml").write_text(file)
    with pytest.raises(SettingsError) as caught:
        load_settings(environ)

    assert str(caught.value).startswith(place)
    assert told in str(caught.value)
    for unsaid in ("\n", KEY, "secret", "\u3042"):
        assert unsaid not in str(caught.value)


def test_old_names_are_of_no_setting_and_new_ones_are():
    assert not OLD_NAMES.keys() & set(SCALARS)
    assert set(OLD_NAMES.values()) <= set(SCALARS)
