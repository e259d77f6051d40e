"""Bodies written from the providers' documentation are the events that stand beside them."""

import json
from collections import Counter
from pathlib import Path

import pytest

from app import events
from tests.dialects.streams import check, in_bytes, play, specified_bodies

pytestmark = pytest.mark.pure

SPECS = [pytest.param(dialect, path, id=path.name) for dialect, path in specified_bodies()]


@pytest.mark.parametrize(("dialect", "path"), SPECS)
def test_a_specified_body_is_its_events(dialect: str, path: Path) -> None:
    name = path.name.rpartition(".")[0]
    expected = json.loads(path.with_name(f"{name}.events.json").read_text(encoding="utf-8"))
    body = path.read_bytes()
    found = play([body], dialect=dialect)

    check(found)
    assert expected == [json.loads(events.encode(event)) for event in found]
    assert found == play(in_bytes(body), dialect=dialect)
    for at in range(1, len(body), 1 + len(body) // 20):
        assert found == play([body[:at], body[at:]], dialect=dialect)


def test_every_format_has_specified_bodies() -> None:
    assert Counter(dialect for dialect, _ in specified_bodies()) == {
        **{"openai_chat": 14, "openai_responses": 8, "anthropic": 4, "gemini": 7, "cohere": 3},
        **{"gemini_interactions": 5, "ollama": 4, "bedrock_converse": 6, "bedrock_anthropic": 3},
    }
