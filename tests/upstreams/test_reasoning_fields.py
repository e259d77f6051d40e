"""What is learnt of the field in which models take reasoning back."""

import pytest

from app.upstreams.reasoning_fields import MAX_MODELS, ReasoningFields

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("seen", "message", "expected"),
    [
        (None, "thinking is enabled but reasoning_content is missing", "reasoning_content"),
        (None, "unknown field 'reasoning'", "no"),
        ("reasoning_content", "property 'reasoning_content' is unsupported", "no"),
        ("reasoning_content", "no such model", "reasoning_content"),
        ("reasoning", "property 'reasoning' is unsupported", "no"),
        ("reasoning", "reasoning models take no temperature", "reasoning"),
    ],
)
def test_a_refusal_that_names_the_field_is_believed(
    seen: str | None, message: str, expected: str
) -> None:
    fields = ReasoningFields()
    if seen is not None:
        fields.saw("m", seen)
    fields.refused("m", message)

    assert fields.of("m") == expected


def test_names_that_clients_make_up_are_forgotten() -> None:
    fields = ReasoningFields()
    for number in range(MAX_MODELS + 1):
        fields.saw(str(number), "reasoning")

    assert ("no", "reasoning") == (fields.of("0"), fields.of("1"))
