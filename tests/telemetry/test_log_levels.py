"""The levels of loggers in the settings, and the loggers that there are."""

import re
from pathlib import Path

import pytest

from app.settings import SettingsError, load_settings
from app.telemetry.logs import LOGGERS

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "seseragi.generaton=debug",
            "unknown logger 'seseragi.generaton'; did you mean 'seseragi.generation'?",
        ),
        (
            "seseragi.generation=loud",
            "cannot be used: give a level for each logger, such as { 'seseragi.generation' = 'debug' }",
        ),
        ("seseragi.generation", "cannot be used: give a level for each logger"),
        ("a b=debug", "cannot be used: give a level for each logger"),
    ],
)
def test_bad_levels_are_named(said: str, told: str):
    with pytest.raises(SettingsError, match=re.escape(told)):
        load_settings({"SESERAGI_LOG_LEVELS": said})


def test_levels_may_be_written_in_any_form_of_toml(tmp_path):
    for written in (
        'log_levels = { "seseragi.generation" = "debug", uvicorn = "info" }',
        '[log_levels]\n"seseragi.generation" = "debug"\nuvicorn = "info"',
    ):
        file = tmp_path / "seseragi.toml"
        file.write_text(written)
        levels = load_settings({}, config=str(file)).log_levels
        assert {"seseragi.generation": "debug", "uvicorn": "info"} == levels
    file.write_text('log_levels = "x"')
    with pytest.raises(SettingsError, match="log_levels"):
        load_settings({}, config=str(file))
    file.write_text("log_levels = 3")
    with pytest.raises(SettingsError, match="give a level for each logger"):
        load_settings({}, config=str(file))


def test_every_logger_of_the_relay_is_known():
    """A new one has to be added to `LOGGERS`, or its level could not be set."""
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "app").rglob("*.py"))

    assert set(re.findall(r'get_logger\("([^"]+)"\)', code)) == set(LOGGERS)
