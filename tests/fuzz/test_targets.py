"""Each fuzzing target holds for its seeds, what is near them and all findings.

`python -m tests.fuzz` looks for more, and `.ci/run` does so for a minute, with one seed.
"""

from functools import cache

import pytest

from tests.fuzz import __main__ as command
from tests.fuzz.target import inputs
from tests.fuzz.targets import NAMES
from tests.fuzz.targets import load as load_target

pytestmark = pytest.mark.pure

FINDINGS = sorted(command.FOUND.glob("*/*"))
NEAR = 60
NEAR_COSTLY = 20

load = cache(load_target)


@pytest.mark.parametrize("name", NAMES)
def test_all_laws_hold_for_the_seeds_and_what_is_near_them(name: str) -> None:
    target = load(name)
    for data in inputs(target, seed=name, most=NEAR_COSTLY if target.costly else NEAR):
        try:
            target.check(data)
        except BaseException as error:
            error.add_note(f"{name}: {data!r}")
            raise


def test_what_was_found_is_mended() -> None:
    for path in FINDINGS:
        try:
            load(path.parent.name).check(path.read_bytes())
        except BaseException as error:
            error.add_note(f"python -m tests.fuzz {path.parent.name} {path}")
            raise


def test_a_target_is_left_out_by_name_without_the_fuzzer_and_fails_in_ci(
    monkeypatch, capsys
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    assert 0 == command.main(["sse", "--seconds", "1"])
    assert "skipped: fuzzing needs atheris" in capsys.readouterr().out

    monkeypatch.setenv("CI", "true")
    assert 1 == command.main(["sse", "--seconds", "1"])
    assert "atheris is missing: pip install" in capsys.readouterr().err
