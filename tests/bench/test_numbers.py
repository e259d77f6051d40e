"""One number for one thing: documents quote the benchmark's table."""

import re

import pytest

from bench.numbers import DOCUMENTS, ROOT, correct

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_have_the_numbers_of_the_table(name):
    text = (ROOT / name).read_text(encoding="utf-8")

    assert text == correct(name, text), "run `python -m bench.numbers`"


def test_another_number_is_found():
    with pytest.raises(ValueError, match="0 times"):
        correct("README.md", "")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    changed = re.sub(r"\d+(?= KiB)", "999", text)
    assert changed != text == correct("README.md", changed)
