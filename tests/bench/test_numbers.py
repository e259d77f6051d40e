"""One number for one thing: documents quote the benchmark's table."""

import pytest

from bench.numbers import PLACES, ROOT, correct

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("name", sorted({place[0] for place in PLACES}))
def test_documents_have_the_numbers_of_the_table(name):
    text = (ROOT / name).read_text(encoding="utf-8")

    assert text == correct(name, text), "run `python -m bench.numbers`"


def test_another_number_is_found():
    with pytest.raises(ValueError, match="0 times"):
        correct("README.md", "")
    assert "takes 35 KiB" in correct("README.md", "An idle stream takes 39 KiB")
