"""`[[issuer]]` in the settings: what it takes, and what is said of mistakes."""

import json
import re
from pathlib import Path

import pytest

from app.identity.config import IssuerConfig, why_unusable
from app.settings import SettingsError, load_settings

pytestmark = pytest.mark.pure

DOCUMENT = Path(__file__).parents[2] / "docs/auth.md"
SECTION = DOCUMENT.read_text(encoding="utf-8").partition("## Identity providers")[2]
SECTION = SECTION.partition("\n## ")[0]
USUAL = {"issuer": "https://idp.example", "audience": "relay"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def load(path, *rows):
    lines = []
    for row in rows:
        lines.append("[[issuer]]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in row.items()]
    file = path / "seseragi.toml"
    file.write_text("\n".join(lines))
    return load_settings({}, config=str(file)).identity.issuers


def test_issuer_of_the_file(tmp_path):
    (row,) = load(
        tmp_path,
        {
            **USUAL,
            "audience": ["a", "b"],
            "audience_claim": "client_id",
            "jwks_url": "http://127.0.0.1:8080/keys?p=x",
            "algorithms": ["EdDSA"],
            "tenant_claim": ["app_metadata", "tenant"],
            "user_claim": "https://idp.example/user",
            "models_claim": "custom:models",
        },
    )

    assert ("a", "b") == row.audience
    assert ("app_metadata", "tenant") == row.tenant_claim
    assert "https://idp.example/user" == row.user_claim
    assert ("https://idp.example", "sub") == (row.all_users, load(tmp_path, USUAL)[0].user_claim)


MISTAKES = [
    ({"algorithms": ["HS256"]}, ".algorithms: 'HS256' cannot be used; did you mean 'RS256'?"),
    (
        {"algorithms": ["none"]},
        ".algorithms: 'none' cannot be used; use algorithms with a public key",
    ),
    ({"algorithms": []}, ".algorithms"),
    ({"audience": []}, ".audience"),
    ({"audience": ""}, ".audience"),
    ({"issuer": "http://idp.example"}, ".issuer: use https"),
    ({"issuer": "idp.example"}, ".issuer: must start with https://"),
    ({"issuer": "https://a:b@idp.example"}, ".issuer: must not contain a user name or password"),
    ({"issuer": "https://idp.example/?p=x"}, ".issuer: set jwks_url, since it has a query"),
    ({"jwks_url": "http://idp.example/keys"}, ".jwks_url: use https"),
    ({"jwks_url": "http://127.0.0.1.evil.example/keys"}, ".jwks_url: use https"),
    ({"jwks_url": "http://127.0.0.1@evil.example/keys"}, ".jwks_url: must not contain a user name"),
    ({"jwks_url": "https://idp.example/keys#x"}, ".jwks_url: must not contain a fragment"),
    ({"jwks_url": "https://idp.example:0/keys"}, ".jwks_url: must start"),
    ({"jwks_url": "https://idp.example:x/keys"}, ".jwks_url: not a URL"),
    ({"user_claim": ""}, ".user_claim"),
    ({"leeway_s": 3000}, ".leeway_s"),
    ({"jwks_uri": "https://idp.example/keys"}, "unknown key 'jwks_uri'; did you mean 'jwks_url'?"),
]


@pytest.mark.parametrize(("changes", "told"), MISTAKES)
def test_mistake_is_named_with_its_place(tmp_path, changes, told):
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, {**USUAL, "issuer": "https://first.example"}, {**USUAL, **changes})

    assert told in str(caught.value)
    assert "issuer[2]" in str(caught.value)
    assert "a:b" not in str(caught.value)


def test_issuer_that_is_only_compared_need_not_be_fetched_from(tmp_path):
    (row,) = load(
        tmp_path,
        {**USUAL, "issuer": "http://keycloak:8080/realms/x", "jwks_url": "https://idp.example/k"},
    )

    assert "http://keycloak:8080/realms/x" == row.issuer


def test_one_issuer_has_one_table(tmp_path):
    with pytest.raises(SettingsError, match=r"issuer\[2\].issuer: .* is also in .*issuer\[1\]"):
        load(tmp_path, USUAL, {**USUAL, "audience": "b"})


@pytest.mark.parametrize(
    "url",
    [
        *("https://a.example", "https://a.example:8443/x?y=z", "http://localhost:1/x"),
        *("http://127.0.0.1", "http://127.9.9.9/", "http://[::1]:80/", "http://idp.localhost/"),
        "http://LOCALHOST./",
    ],
)
def test_urls_that_keys_are_fetched_from(url):
    assert why_unusable(url) is None


@pytest.mark.parametrize(
    "url",
    [
        *("http://a.example", "http://10.0.0.1/", "http://0.0.0.0/", "http://[::]/", "ftp://x/"),
        *("https://a.example/\n", "https://a.exämple/", "https://a .example/", "//a.example"),
        *("http://2130706433/", "http://[::ffff:10.0.0.1]/", "https://a..example/"),
    ],
)
def test_urls_that_no_keys_are_fetched_from(url):
    assert why_unusable(url) is not None


def test_every_key_is_documented_with_its_default():
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ?([^|]*?) ?\|$", SECTION, re.MULTILINE))
    config = IssuerConfig(issuer="x", audience="y")

    assert set(IssuerConfig.__struct_fields__) == set(rows)
    for name in ("audience_claim", "algorithms", "user_claim", "leeway_s"):
        assert f"`{json.dumps(getattr(config, name))}`" == rows[name]
