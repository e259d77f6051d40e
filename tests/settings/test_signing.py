"""What client secrets and stream tokens are signed with."""

import pytest
from structlog.testing import capture_logs

from app.settings import SettingsError, load_settings
from app.settings.signing import choose_signing_key

pytestmark = pytest.mark.pure

LONG = "a signing key of 32 characters.."


def test_key_of_the_settings_comes_first():
    settings = load_settings({"SESERAGI_SIGNING_KEY": LONG})

    assert LONG == choose_signing_key(settings, kept="k" * 43)


def test_key_of_the_keys_file_comes_next_with_any_log():
    for log in ("memory", "sqlite:///x.db", "redis://127.0.0.1/0"):
        settings = load_settings({"SESERAGI_LOG": log})
        with capture_logs() as lines:
            assert "k" * 43 == choose_signing_key(settings, kept="k" * 43)
        assert [] == lines


def test_without_any_each_run_has_its_own():
    with capture_logs() as lines:
        first, second = (choose_signing_key(load_settings({})) for _ in "12")

    assert first != second
    assert len(first) >= 32
    assert [] == lines


def test_run_is_told_that_its_links_end_before_its_log():
    settings = load_settings({"SESERAGI_LOG": "sqlite:///x.db"})
    with capture_logs() as lines:
        key = choose_signing_key(settings)

    assert ["links to streams end with this run, which the log outlives"] == [
        line["event"] for line in lines
    ]
    assert key not in str(lines)


def test_replicas_have_to_have_the_same():
    settings = load_settings({"SESERAGI_LOG": "redis://127.0.0.1/0"})
    with pytest.raises(
        SettingsError, match=r"^auth\.signing_key: .* the same .*SESERAGI_SIGNING_KEY"
    ):
        choose_signing_key(settings)


@pytest.mark.parametrize(
    ("environ", "kept"), [({"SESERAGI_SIGNING_KEY": LONG[1:]}, None), ({}, LONG[1:])]
)
def test_key_that_can_be_guessed_is_refused_and_not_shown(environ, kept):
    with pytest.raises(SettingsError, match="has 31 characters") as failure:
        choose_signing_key(load_settings(environ), kept=kept)

    assert LONG[1:] not in str(failure.value)


def test_settings_do_not_show_it():
    assert LONG not in repr(load_settings({"SESERAGI_SIGNING_KEY": LONG}))
