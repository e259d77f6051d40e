"""What is learnt of a refusal, and what is left of requests then."""

from typing import Any

import pytest

from app.dialects.reading.refusal_wordings import Refusal
from app.upstreams.refusals import MAX_CHANGES, MAX_MODELS, Change, Refusals, find_changes, fit

pytestmark = pytest.mark.pure


def test_what_is_learnt_is_bounded() -> None:
    refusals = Refusals()
    for number in range(MAX_MODELS + 5):
        refusals.learn(f"m-{number}", [Change("field", "seed")])
    for number in range(MAX_CHANGES + 5):
        refusals.learn("m", [Change("field", "temperature", str(number))])

    assert MAX_MODELS == len(refusals.known)
    newest = [str(number) for number in range(5, MAX_CHANGES + 5)]
    assert newest == [change.value for change in refusals.known["m"]]


@pytest.mark.parametrize(
    ("body", "name", "path"),
    [
        ({"temperature": 1}, "temperature", "temperature"),
        ({"generationConfig": {"topK": 1}}, "top_k", "generationConfig.topK"),
        ({"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}}, "thinking_level",
         "generationConfig.thinkingConfig.thinkingLevel"),
        ({"inferenceConfig": {"topP": 1}}, "/inferenceConfig/topP", "inferenceConfig.topP"),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, "reasoning.summary",
         "reasoning.summary"),
        ({"options": {"top_k": 1}}, "body.options.top_k", "options.top_k"),
    ],
)  # fmt: skip
def test_a_field_is_found_wherever_a_format_has_it(
    body: dict[str, Any], name: str, path: str
) -> None:
    [change] = find_changes(Refusal("field", (name,), ()), body, {})

    assert Change("field", path) == change


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"temperature": 1}},
        {"response_format": {"json_schema": {"schema": {"properties": {"temperature": {}}}}}},
        {"format": {"schema": {"properties": {"temperature": {}}}}},
        {"messages": [{"temperature": 1}]},
    ],
)
def test_what_the_client_named_so_is_no_field(body: dict[str, Any]) -> None:
    changes = find_changes(Refusal("field", ("temperature",), ()), body, {})

    fitted = fit(changes, body, {})
    assert (body, [], []) == (fitted.body, fitted.left_out, fitted.changes)


def test_a_request_is_not_changed_itself() -> None:
    part = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    body = {"messages": [{"content": [part]}], "generationConfig": {"topK": 1}}
    changes = [Change("mark", "cache_control"), Change("field", "generationConfig.topK")]

    fitted = fit(changes, body, {})

    assert [{"content": [{"type": "text", "text": "Hi"}]}] == fitted.body["messages"]
    assert "cache_control" in part
    assert {"topK": 1} == body["generationConfig"]


@pytest.mark.parametrize("holder", ["input", "args", "response", "metadata", "json"])
def test_data_of_the_client_stays(holder: str) -> None:
    block = {holder: {"strict": True, "scope": 1, "parameters": {"title": "x"}}}
    body = {"messages": [{"content": [block]}]}

    for kind, name in (("mark", "strict"), ("mark", "scope"), ("keyword", "title")):
        assert body == fit([Change(kind, name)], body, {}).body  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        (("tools", "input_schema"), {}),
        (("tools", "function", "parameters"), {}),
        (("toolConfig", "toolSpec", "inputSchema", "json"), {}),
        (("text", "format", "schema"), {}),
        (("generationConfig", "responseJsonSchema"), {}),
        (("response_format", "json_schema", "schema"), {}),
    ],
)
def test_a_keyword_is_left_out_of_all_schemas(path: tuple[str, ...], schema: Any) -> None:
    def wrap(schema: Any) -> Any:
        for step in reversed(path):
            schema = {step: schema}
        return schema

    literal = {"title": "kept"}
    schema = {"title": "T", "properties": {"title": {"title": "t", "default": literal}}}
    left = {"properties": {"title": {"default": literal}}}

    assert wrap(left) == fit([Change("keyword", "title")], wrap(schema), {}).body


@pytest.mark.parametrize("name", ["type", "properties", "required", "enum", "$ref", "anyOf"])
def test_the_structure_of_schemas_stays(name: str) -> None:
    assert not find_changes(Refusal("field", (f"tools.0.{name}",), ()), {}, {})


def test_betas_are_left_out_of_bodies_and_headers() -> None:
    body = {"additionalModelRequestFields": {"anthropic_beta": ["a", "b"]}}
    headers = {"anthropic-beta": "c, b", "x": "y"}

    some = fit([Change("beta", "b")], body, headers)
    none = fit([Change("beta", "a,b,c")], body, headers)

    assert {"additionalModelRequestFields": {"anthropic_beta": ["a"]}} == some.body
    assert {"anthropic-beta": "c", "x": "y"} == some.headers
    assert {"additionalModelRequestFields": {"anthropic_beta": []}} == none.body
    assert {"x": "y"} == none.headers
    assert ["a,b,c"] == none.left_out
