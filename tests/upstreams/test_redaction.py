"""Secrets in what an upstream says: the forms that are replaced, and what is left."""

import base64
import json
import time
from collections.abc import Callable
from urllib.parse import quote

import pytest

from app.upstreams.redaction import Redactor

pytestmark = pytest.mark.pure

KEY = 'sk-Ab/9+cd==&<x>"7\\Zq-0123456789'
"""With characters that each encoding escapes."""

FORMS: dict[str, Callable[[str], str]] = {
    "verbatim": lambda key: key,
    "in a URL": lambda key: quote(key, safe=""),
    "in a URL, lower-case hexadecimals": lambda key: quote(key, safe="").replace("%2B", "%2b").replace("%2F", "%2f"),
    "in a path": quote,
    "in JSON": lambda key: json.dumps(key)[1:-1],
    "in JSON with escaped slashes": lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
    "in JSON for HTML": lambda key: json.dumps(key)[1:-1].replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003E"),
    "in JSON in JSON": lambda key: json.dumps(json.dumps(key))[3:-3],
    "in JSON, three times": lambda key: nested(key, 3),
    "in base64": lambda key: base64.b64encode(key.encode()).decode(),
    "after a name in base64": lambda key: base64.b64encode(b"me:" + key.encode()).decode(),
    "after two letters in base64": lambda key: base64.b64encode(b"xy" + key.encode()).decode(),
    "before more in base64": lambda key: base64.b64encode(key.encode() + b"@host").decode(),
    "after a letter in base64 of URLs": lambda key: base64.urlsafe_b64encode(b"x" + key.encode()).decode(),
}  # fmt: skip


def nested(text: str, levels: int) -> str:
    return nested(json.dumps(text)[1:-1], levels - 1) if levels else text


def pieces(text: str) -> set[str]:
    return {text[at : at + 8] for at in range(len(text) - 7)}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_form_of_a_key_is_replaced(form):
    encoded = form(KEY)
    shown = Redactor(KEY).redact(f"bad key {encoded}, sorry")

    assert shown.startswith("bad key ")
    assert shown.endswith(", sorry")
    assert "[key]" in shown
    assert not pieces(encoded[4:-4]) & pieces(shown)


@pytest.mark.parametrize("cut", range(12, len(KEY)))
@pytest.mark.parametrize("mark", ["", "…"])
def test_a_key_at_which_a_text_was_truncated_is_replaced(cut, mark):
    assert "it was [key]" == Redactor(KEY).redact(f"it was {KEY[:cut]}{mark}")


def test_a_short_secret_is_replaced_verbatim():
    assert "no [key] here" == Redactor("abc").redact("no abc here")


def test_earlier_secrets_are_replaced_until_there_are_too_many():
    redactor = Redactor("first-0123456789", max_secrets=2)
    redactor.add("second-0123456789")
    assert "[key] [key]" == redactor.redact("first-0123456789 second-0123456789")
    redactor.add("third-0123456789")

    assert "first-0123456789 [key]" == redactor.redact("first-0123456789 third-0123456789")


def test_the_longer_of_two_secrets_is_replaced_whole():
    assert "[key]" == Redactor("sk-012345", "sk-0123456789").redact("sk-0123456789")


@pytest.mark.parametrize("text", ["", "Incorrect API key provided", "sk-...6789", "x" * 5000])
@pytest.mark.parametrize("redactor", [Redactor(KEY), Redactor()], ids=["key", "none"])
def test_other_text_is_left(redactor, text):
    assert text == redactor.redact(text)


def cost(text: str, size: int) -> float:
    """Return the time to redact a text of this size, in seconds of the processor."""
    redactor = Redactor(KEY * 20)
    redactor.redact("")
    told = text * (size // len(text)) + " "
    times = []
    for _ in range(3):
        started = time.thread_time()
        redactor.redact(told)
        times.append(time.thread_time() - started)
    return min(times)


@pytest.mark.parametrize(
    "text", ["x", "\\", "%25", KEY, f"{KEY[:8]} ", KEY[:12], f"{KEY[:12]} ", KEY[:-1]]
)
def test_the_time_to_redact_grows_with_the_text(text):
    assert cost(text, 2**16) < 24 * cost(text, 2**13) + 0.001  # 8 times as long
