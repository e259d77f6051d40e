"""The key that signs client secrets and stream tokens."""

import json

import pytest
from structlog.testing import capture_logs

from app.identity.keys_file import KeysUnusable
from app.settings import SettingsError, load_settings
from app.settings.access import settle_signing_key

pytestmark = pytest.mark.pure

LONG = "a signing key of 32 characters.."
KEPT = "k" * 43
LOGS = ("memory", "sqlite:///x.db", "redis://127.0.0.1/0")


@pytest.fixture
def choose(tmp_path):
    """Return the key that the settings of these variables lead to, with a key in the keys file."""

    def choose(environ: dict[str, str], kept: str | None = None) -> str:
        path = tmp_path / "keys.json"
        path.write_text(json.dumps({"signing_key": kept}))
        path.chmod(0o600)
        settings = load_settings({"SESERAGI_KEYS_FILE": str(path), **environ})
        key = settle_signing_key(settings).identity.auth.signing_key
        assert key is not None
        return key

    return choose


def test_key_of_the_settings_comes_first(choose):
    assert LONG == choose({"SESERAGI_SIGNING_KEY": LONG}, kept=KEPT)


@pytest.mark.parametrize("url", LOGS)
def test_key_of_the_keys_file_comes_next_with_any_log(choose, url):
    with capture_logs() as lines:
        assert KEPT == choose({"SESERAGI_LOG": url}, kept=KEPT)
    assert [] == lines


def test_without_any_each_run_has_its_own(choose):
    with capture_logs() as lines:
        first, second = choose({}), choose({})

    assert first != second
    assert len(first) >= 32
    assert [] == lines


def test_a_relay_without_authentication_signs_nothing():
    assert settle_signing_key(load_settings({})).identity.auth.signing_key is None


def test_run_is_told_that_its_tokens_end_before_its_log(choose):
    with capture_logs() as lines:
        key = choose({"SESERAGI_LOG": LOGS[1]})

    assert ["stream tokens end with this run, but the log does not"] == [
        line["event"] for line in lines
    ]
    assert key not in str(lines)


def test_replicas_have_to_have_the_same(choose):
    with pytest.raises(
        SettingsError, match=r"^auth\.signing_key: .* the same .*SESERAGI_SIGNING_KEY"
    ):
        choose({"SESERAGI_LOG": LOGS[2]})


def test_key_that_can_be_guessed_is_refused_and_not_shown(choose):
    with pytest.raises(SettingsError, match="has 31 characters") as failure:
        choose({"SESERAGI_SIGNING_KEY": LONG[1:]})

    assert LONG[1:] not in str(failure.value)


def test_key_of_the_keys_file_that_can_be_guessed_is_refused_and_not_shown(choose):
    with pytest.raises(KeysUnusable, match="signing_key") as failure:
        choose({}, kept="k" * 31)

    assert "k" * 31 not in str(failure.value)


def test_settings_do_not_show_it():
    assert LONG not in repr(load_settings({"SESERAGI_SIGNING_KEY": LONG}))
