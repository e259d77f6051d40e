"""The mutations of `tests.mutations` fit the code as it is; whether they are caught, it finds."""

from pathlib import Path

import pytest

from tests.mutations.__main__ import ROOT, Mutation, read

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("mutation", [*read()], ids=lambda mutation: mutation.name)
def test_mutation_can_be_made(mutation: Mutation):
    assert 1 == (ROOT / mutation.path).read_text(encoding="utf-8").count(mutation.before)
    assert mutation.before != mutation.after
    for test in mutation.tests:
        assert (ROOT / test.partition("::")[0]).exists()


def test_mutations_are_of_every_folder():
    mutated = {Path(mutation.path).parts[1] for mutation in read()}
    folders = {path.name for path in (ROOT / "app").iterdir() if (path / "__init__.py").exists()}

    assert set() == folders - mutated
