"""What is removed of a continuation, whatever its pieces."""

import pytest
from msgspec import convert

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.generation.overlap import Overlap
from app.upstreams.presets import PRESETS
from tests.generation.overlap_texts import TEXTS

pytestmark = pytest.mark.pure

LONG = "The quick brown fox jumps over"
EXACT = [
    ("ha", "ha", "ha"),
    ("a\n", "\nb", "b"),
    ("a\n", "\n\nb", "\nb"),
    ("a ", "b", "b"),
    ("", " b", " b"),
    (LONG, LONG + " it", " it"),
    (LONG + "  ", LONG + " it", "it"),
    (LONG, LONG[:20] + "!", LONG[:20] + "!"),
    (LONG, "The", "The"),
]
ECHOED = [
    ("ha", "ha", ""),
    ("ha", "haha", "ha"),
    ("ha ", "ha ha", "ha"),
    ("*", "**Bold", "*Bold"),
    ("I", "I am", " am"),
    ("I", " am", " am"),
    ("I am", "I", "I"),
    ("", "I", "I"),
]
ASKED = [
    ("the ma", "mat is", "t is"),
    ("the ma", "the mat is", "t is"),
    ("the ma", "t is", "t is"),
    ("the mat", " is", " is"),
    ("the mat", "\n\nthe mat is", " is"),
    ("ban", "ana", "ana"),
    ("a banana", "nanas", "nanas"),
    ("今日は猫", "猫がいる", "がいる"),
    (LONG, LONG + " it", " it"),
    (LONG, "fox jumps over it", " it"),
    ("x" * 500, "x" * 500 + "y", "x" * 300 + "y"),
    ("", "Hello", "Hello"),
    ("one. ", "Two", "Two"),
    ("one", "   ", "   "),
    ("it is very", " very good", " good"),
    ("Row, row, row your boat. Row, row,", " row your boat", " row your boat"),
    ("| Plan | Price |\n|---|", "---|\n", "---|\n"),
    ('{"a": {"b": {}', "}}", "}}"),
    ("[[0, 0, 0, 0],\n [0, 0,", " 0, 0]]", " 0, 0]]"),
    ("<tr><td>1</td><td>2</td></tr>\n<tr><td></td>", "<td></td></tr>", "<td></td></tr>"),
    ("もうい", "いでしょう", "いでしょう"),
    (LONG * 20 + ".\n", "\n\n" + LONG * 20 + ".\nIt", "It"),
    (LONG * 20 + " ", LONG * 20 + " it", "it"),
]


CASES = [
    *(({"exact": True}, *case) for case in EXACT),
    *(({"exact": True, "echoes": True}, *case) for case in ECHOED),
    *(({"exact": False}, *case) for case in ASKED),
]


@pytest.mark.parametrize(("provider", "text", "sent", "wanted"), CASES)
def test_a_continuation_repeats_nothing(provider, text, sent, wanted):
    for size in (1, 2, 3, 7, 1000):
        overlap = Overlap(text, **provider)
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        found = "".join(map(overlap.feed, pieces)) + ("" if overlap.done else overlap.close())
        if text == "x" * 500:
            assert sent.endswith(found)
        else:
            assert (found, overlap.removed) == (wanted, len(sent) - len(wanted))


@pytest.mark.parametrize("kind", TEXTS)
def test_an_echoed_text_is_removed_wherever_it_was_cut(kind):
    text = TEXTS[kind][:40]
    for at in range(1, len(text)):
        overlap = Overlap(text[:at], exact=True, echoes=True)
        assert "".join(map(overlap.feed, text)) + overlap.close() == text[at:]


def test_an_empty_piece_ends_no_repetition():
    overlap = Overlap(LONG * 20, exact=False)
    assert [overlap.feed(piece) for piece in (LONG * 10, "", LONG * 10, " it")][-1] == " it"


def test_the_providers_that_return_the_prefix_are_known():
    assert preset_quirks("mistral").echoes
    assert not any(preset_quirks(name).echoes for name in ("moonshot", "groq", "vllm", "anthropic"))
    assert convert({"prefill": "prefix"}, UPSTREAM_FORMATS["openai_chat"].quirks).echoes


def preset_quirks(name):
    preset = PRESETS[name]
    return convert(dict(preset.quirks), UPSTREAM_FORMATS[preset.dialect].quirks)


def test_a_repetition_costs_linear_time():
    text = "ab" * 30_000
    overlap = Overlap(text, exact=False)
    for _ in range(200_000):
        overlap.feed("a")
    assert overlap.done
