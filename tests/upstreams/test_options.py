"""The lists of options: what is in the documents, and what they mean."""

from pathlib import Path
from typing import Any

import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.upstreams.media import find_foreign
from app.upstreams.options import options_of

pytestmark = pytest.mark.pure

PAGE = Path(__file__).parents[2] / "docs/providers/options.md"


def test_every_dialect_has_a_list_and_every_word_of_it_is_documented() -> None:
    page = PAGE.read_text(encoding="utf-8")
    lists = [one.options for one in UPSTREAM_FORMATS.values()]
    said = [words for one in lists for words in (one.safe, *one.refused.values())]

    assert all(one.safe for one in lists)
    assert [] == [name for names in said for name in names.split() if f"`{name}`" not in page]


@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
def test_nothing_is_both_safe_and_refused(dialect: str) -> None:
    names = UPSTREAM_FORMATS[dialect].options
    refused = options_of(dialect, tuple(" ".join(names.refused.values()).split()))
    for name in names.safe.split():
        path = name.replace("*", "x").split(".")
        field: object = 1
        for step in reversed(path[1:]):
            field = {step: field}
        assert refused.list_refused({path[0]: field}), name


@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
@pytest.mark.parametrize("given", [("safe",), None, ("*",)])
def test_the_work_grows_with_the_options(dialect: str, given: tuple[str, ...] | None) -> None:
    """Counted by what is looked at: each member once, none below a pattern's depth."""
    looked = 0

    class Deep(dict[str, object]):
        def items(self) -> Any:
            nonlocal looked
            looked += len(self)
            return super().items()

    deep: object = 1
    for _ in range(1000):
        deep = Deep({"tools": deep, "generationConfig": 1, "options": 1})
    options_of(dialect, given).list_refused({"tools": deep, "generationConfig": deep, "x": deep})

    assert looked < 50


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("https://x/a%20b", False),
        ("https://generativelanguage.googleapis.com/v1/files/a", True),
        ("https://%47enerativelanguage.googleapis.com/v1/files/a", True),
        ("https://x/" + "%20" * 1001, True),
        ("data:text/plain," + "%20" * 1001, False),
        ("data:text/plain,generativelanguage", False),
        ("files/a", True),
    ],
)
def test_a_url_with_many_escapes_counts_as_one_of_a_stored_file(url: str, stored: bool) -> None:
    body = {"parts": [{"fileData": {"fileUri": url}}]}
    found = find_foreign(body, schemes=("https", "data"), stored={"fileUri"})
    assert stored == (found is not None)
