"""A Responses request, as an upstream that speaks Responses too is sent it."""

import json
from typing import Any

import pytest

from app.dialects.openai_responses.client.request import parse_request
from app.dialects.openai_responses.compaction_summary import INSTRUCTION, pack_summary
from app.dialects.openai_responses.item_ids import make_id, make_prefix, tag_of, token_of
from app.dialects.openai_responses.upstream.passthrough import pass_on, restore_items
from app.dialects.openai_responses.upstream.request import ENCRYPTED_REASONING, Quirks
from app.dialects.reasoning_signatures import PackedSignature, pack

pytestmark = pytest.mark.pure

TOKEN = "a-b_" + 18 * "c"
TEXT = {"type": "output_text", "text": "Yes.", "annotations": []}
SHELL = {"type": "local_shell_call", "id": "l", "call_id": "c", "action": {"type": "exec"}}


def told(*items: dict[str, Any], quirks: Quirks | None = None, **fields: Any) -> dict[str, Any]:
    body = {"model": "m", "input": [*items] or "hello", **fields}
    client_body = parse_request(json.dumps(body).encode()).chat.client_body
    assert client_body is not None
    return pass_on(client_body, quirks=quirks).body


def test_it_goes_on_as_it_came() -> None:
    fields: dict[str, Any] = {
        **{"instructions": "Be kind.", "client_metadata": {"a": "b"}, "prompt_cache_key": "k"},
        **{"tools": [{"type": "web_search"}, {"type": "custom", "name": "p"}], "store": True},
        **{"include": ["web_search_call.action.sources"], "max_tool_calls": 3},
        **{"text": {"verbosity": "low"}, "truncation": "auto", "safety_identifier": "s"},
        **{"prompt_cache_retention": "24h", "novel": {"a": [1]}},
    }

    assert {"input": "hello", **fields} == told(**fields, stream=True, background=False)


def test_items_lose_the_ids_that_are_the_relays() -> None:
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi", "id": "msg_0"},
        {"type": "message", "role": "assistant", "id": "msg_1", "content": [TEXT]},
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "id": "o", "call_id": "c", "output": "x"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "p", "input": ""},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "E"},
    ]
    kept: list[dict[str, Any]] = [
        SHELL,
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "novel", "id": "n"},
    ]
    without = [{name: v for name, v in item.items() if name != "id"} for item in items]

    assert [*without, *kept] == told(*items, *kept)["input"]


def test_citations_of_files_go_on_but_those_without_an_id() -> None:
    cited = {"type": "file_citation", "file_id": "file-1", "filename": "a", "index": 0}
    annotations = [{**cited, "file_id": ""}, cited, {"type": "url_citation", "url": "https://a"}]
    said = {"type": "message", "role": "assistant"}
    given = {**said, "content": [{**TEXT, "annotations": annotations}]}

    assert [{**said, "content": [{**TEXT, "annotations": annotations[1:]}]}] == told(given)["input"]


def test_signatures_of_others_are_left_out() -> None:
    foreign = pack(PackedSignature("anthropic", signature="sig"))
    asked = pack(PackedSignature("openai.item", data=json.dumps(SHELL)))
    found = told(
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "reasoning", "summary": [], "encrypted_content": foreign},
        {"type": "compaction", "encrypted_content": foreign},
        {"type": "reasoning", "summary": [], "encrypted_content": asked},
        {"role": "user", "content": "Hi"},
    )

    assert [SHELL, {"role": "user", "content": "Hi"}] == found["input"]


@pytest.mark.parametrize("compacts", [True, False])
def test_one_that_does_not_compact_is_asked_for_a_summary(compacts: bool) -> None:
    trigger, hi = {"type": "compaction_trigger", "id": "t"}, {"role": "user", "content": "Hi"}
    summary = {"type": "compaction", "id": "cmp_1", "encrypted_content": pack_summary("All.")}
    given = [trigger, summary, hi, trigger]
    told_of, same, asks = told(*given, quirks=Quirks(compaction=compacts))["input"]

    assert ("user", True) == (told_of["role"], told_of["content"].endswith("\n\nAll."))
    asked = {"role": "user", "content": INSTRUCTION}
    assert [hi, {"type": "compaction_trigger"} if compacts else asked] == [same, asks]


def test_tools_come_with_items_only_if_the_client_runs_them() -> None:
    function = {"type": "function", "name": "f"}
    mcp = {"type": "mcp", "server_url": "https://elsewhere.example"}
    space = {"type": "namespace", "name": "n", "tools": [function, mcp]}
    kept = {**space, "tools": [function]}
    for kind in ("tool_search_output", "additional_tools"):
        (item,) = told(
            {"type": kind, "tools": [function, mcp, space]}, {"role": "user", "content": "a"}
        )["input"][:1]
        assert [function, kept] == item["tools"]
    assert [kept] == told(tools=[space])["tools"]


@pytest.mark.parametrize(
    ("quirks", "fields", "expected"),
    [
        (Quirks(user_field="safety_identifier"), {"user": "u"}, {"safety_identifier": "u"}),
        (
            Quirks(user_field="safety_identifier"),
            {"user": "u", "safety_identifier": "s"},
            {"safety_identifier": "s"},
        ),
        (Quirks(), {"user": "u"}, {"user": "u"}),
        (
            Quirks(),
            {"reasoning": {"effort": "low"}},
            {"reasoning": {"effort": "low"}, "include": [ENCRYPTED_REASONING]},
        ),
        (
            Quirks(encrypted_reasoning="never", reasoning_summary="auto"),
            {"reasoning": {"effort": "low"}, "include": [ENCRYPTED_REASONING]},
            {"reasoning": {"effort": "low", "summary": "auto"}},
        ),
        (Quirks(encrypted_reasoning="always"), {}, {"include": [ENCRYPTED_REASONING]}),
    ],
)
def test_the_upstreams_ways_hold(
    quirks: Quirks, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert {"input": "hello", **expected} == told(quirks=quirks, **fields)


def test_thoughts_go_back_as_the_upstream_takes_them() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    proved = {**thought, "encrypted_content": "E"}
    user = {"role": "user", "content": "a"}
    said: dict[str, Any] = {"type": "reasoning", "summary": []}
    said["content"] = [{"type": "reasoning_text", "text": "Hm."}]

    assert [proved, user] == told(thought, proved, user)["input"]
    assert [said, proved, user] == told(
        thought, proved, user, quirks=Quirks(send_reasoning="text")
    )["input"]
    assert [user] == told(thought, proved, user, quirks=Quirks(send_reasoning="no"))["input"]


def test_items_of_a_provider_go_back_to_it_alone() -> None:
    """Their ids are those that clients have of it; others are left out for other upstreams too."""
    items: list[dict[str, Any]] = [
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "shell_call", "call_id": "c", "environment": {"type": "container_reference"}},
        {"type": "shell_call_output", "id": "o_1", "call_id": "c", "output": []},
        {"type": "custom_tool_call", "id": "x_1", "name": "x_keyword_search", "input": ""},
        {"type": "novelty", "id": "n_1"},
        {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f"},
    ]
    decision = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    shown = [
        {**item, "id": make_id(make_prefix(item.get("id"), tag=tag_of("u")), TOKEN, number)}
        for number, item in enumerate(items)
    ]
    answer = {**decision, "approval_request_id": shown[-1]["id"]}
    asked = {"role": "user", "content": "Hi"}
    for upstream, wanted in (("u", [*items, decision]), ("v", [items[-1], decision])):
        body = told(*shown, answer, asked)
        left = restore_items(body, upstream=upstream, refused=lambda item: False)

        assert [*wanted, asked] == body["input"]
        dropped = [item for item in items if item not in wanted]
        assert sorted(f"input.{item['type']}" for item in dropped) == left.other_upstream
    assert [TOKEN] * len(shown) == [token_of(item["id"]) for item in shown]
