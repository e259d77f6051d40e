"""`[[webhook]]`: what is read, what is refused, and what the documents say of it."""

import re
from pathlib import Path

import pytest

from app.settings import SettingsError, load_settings
from app.settings.tables import WebhookTable
from tests.webhooks.receiver import KEYS, SECRETS

pytestmark = pytest.mark.pure

DOCUMENT = Path(__file__).parents[2] / "docs" / "webhooks.md"
URL, SECRET = 'url = "https://a.example/ended"', 'secret_env = "S"'


def load(folder: Path, *lines: str, secret: str = SECRETS[0]):
    path = folder / "seseragi.toml"
    path.write_text("\n".join(("[[webhook]]", *lines)))
    return load_settings({"SESERAGI_CONFIG": str(path), "S": secret})


def test_url_is_called_as_it_is_written(tmp_path):
    url = "https://a.example:8443/ended/?token=x%20y"
    [webhook] = load(tmp_path, f'url = "{url}"', SECRET, secret="\n".join(SECRETS)).webhooks

    assert ("a.example", url, tuple(KEYS)) == (webhook.name, webhook.url, webhook.secrets)


def test_secret_without_padding_is_read(tmp_path):
    [webhook] = load(tmp_path, URL, SECRET, secret=SECRETS[0].rstrip("=")).webhooks

    assert (KEYS[0],) == webhook.secrets


def test_settings_do_not_show_secrets(tmp_path):
    settings = load(tmp_path, 'url = "https://a.example/ended?token=x1y2"', SECRET)

    assert "Webhook('a.example')" in repr(settings)
    assert "x1y2" not in repr(settings)


@pytest.mark.parametrize(
    ("lines", "secret", "message"),
    [
        ((SECRET,), SECRETS[0], "webhook[1]: missing key 'url'"),
        ((URL,), SECRETS[0], "webhook[1]: missing key 'secret_env'"),
        ((URL, SECRET, "secret = 'x'"), SECRETS[0], "webhook[1]: unknown key 'secret'"),
        ((URL, 'secret_env = "T"'), SECRETS[0], "webhook[1].secret_env: the variable is not set"),
        ((URL, SECRET), "hunter2hunter2", "the variable needs 'whsec_' and the base64"),
        ((URL, SECRET), SECRETS[0][6:], "the variable needs 'whsec_' and the base64"),
        ((URL, SECRET), "whsec_c2hvcnQ=", "base64 of 24 to 64 random bytes"),
        ((URL, SECRET), f"{SECRETS[0]} whsec_***", "the variable needs 'whsec_'"),
        (('url = "ended"', SECRET), SECRETS[0], "webhook[1].url: must start with http://"),
        (('url = "ftp://a"', SECRET), SECRETS[0], "webhook[1].url: must start with http://"),
        (('url = "https://u:p@a"', SECRET), SECRETS[0], "not into the URL"),
        (('url = "https://a/x?y#z"', SECRET), SECRETS[0], "must not contain a fragment"),
        ((URL, SECRET, 'name = "my phone"'), SECRETS[0], "visible ASCII"),
        (
            (URL, SECRET, "[[webhook]]", URL, SECRET),
            SECRETS[0],
            "webhook[2]: the name 'a.example' is used twice; give it another 'name'",
        ),
    ],
)
def test_mistake_is_named_with_its_cure_and_without_the_secret(tmp_path, lines, secret, message):
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, *lines, secret=secret)

    assert message in str(refused.value)
    assert secret not in str(refused.value)


def test_every_key_is_documented():
    text = DOCUMENT.read_text(encoding="utf-8")

    assert {*WebhookTable.__struct_fields__} == set(re.findall(r"^\| `(\w+)` \|", text, re.M))
