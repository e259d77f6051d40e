"""Answers with what only Responses has, written from OpenAI's reference, as its SDK accepts them."""

from typing import Any

from tests.dialects.openai_responses.written import sse

Item = tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]
"""An item as added, its events without their place, and the members that change until it is done."""

SEARCH = {"type": "search", "query": "tea", "queries": ["tea"], "sources": []}
ROLL = {
    "name": "roll",
    "annotations": {"readOnlyHint": True},
    "input_schema": {},
    "description": "",
}
TEXT: dict[str, Any] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
CITED = {
    **{"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1"},
    **{"filename": "plot.png", "start_index": 0, "end_index": 2},
}
FOUND = {"file_id": "file-1", "filename": "a", "score": 0.5, "text": "Tea", "attributes": {}}
SHELL: dict[str, Any] = {"commands": ["ls"], "timeout_ms": None, "max_output_length": None}


def item(kind: str, id: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "type": kind, "status": "in_progress", **fields}


def ran(kind: str, *names: str) -> list[dict[str, Any]]:
    return [{"type": f"response.{kind}.{name}"} for name in names]


def text(whole: str, *annotations: dict[str, Any], id: str = "msg_1", **more: Any) -> Item:
    at = {"content_index": 0}
    events = [
        {"type": "response.content_part.added", **at, "part": TEXT},
        {"type": "response.output_text.delta", **at, "delta": whole, "logprobs": []},
        *(
            {
                **{"type": "response.output_text.annotation.added", **at},
                **{"annotation_index": index, "annotation": annotation},
            }
            for index, annotation in enumerate(annotations)
        ),
        {"type": "response.output_text.done", **at, "text": whole, "logprobs": []},
    ]
    part = {**TEXT, "text": whole, "annotations": [*annotations]}
    part |= {"novel": 1} if "novel" in more else {}
    events.append({"type": "response.content_part.done", **at, "part": part})
    message = item("message", id, role="assistant", content=[], **more)
    return message, events, {"status": "completed", "content": [part]}


def thought(whole: str, id: str = "rs_1") -> Item:
    """Reasoning as open models have it: its text, and no proof."""
    at = {"content_index": 0}
    part = {"type": "reasoning_text", "text": ""}
    events = [
        {"type": "response.content_part.added", **at, "part": part},
        {"type": "response.reasoning_text.delta", **at, "delta": whole},
        {"type": "response.reasoning_text.done", **at, "text": whole},
        {"type": "response.content_part.done", **at, "part": {**part, "text": whole}},
    ]
    reasoning = item("reasoning", id, summary=[])
    return reasoning, events, {"status": "completed", "content": [{**part, "text": whole}]}


ENDED = {"status": "completed"}
ITEMS: dict[str, list[Item]] = {
    "a web search between two messages": [
        text("Let me see.", phase="commentary"),
        (
            item("web_search_call", "ws_1", action={"type": "search", "query": ""}),
            ran("web_search_call", "in_progress", "searching", "completed"),
            {**ENDED, "action": SEARCH},
        ),
        text("Tea.", id="msg_2", phase="final_answer"),
    ],
    "a search in files": [
        (
            item("file_search_call", "fs_1", queries=[], results=None),
            ran("file_search_call", "in_progress", "searching", "completed"),
            {**ENDED, "queries": ["tea"], "results": [FOUND]},
        ),
        text("Tea.", {"type": "file_citation", "file_id": "file-1", "filename": "a", "index": 3}),
    ],
    "a compaction": [
        text("Let me see."),
        (
            {"id": "cmp_1", "type": "compaction", "encrypted_content": "", "novel": 1},
            ran("compaction", "compacting", "compacting"),
            {"encrypted_content": "E", "created_by": "user_1", "novel": 2},
        ),
        text("Tea.", id="msg_2"),
    ],
    "tools of an MCP server": [
        (
            {"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "dice", "tools": []},
            ran("mcp_list_tools", "in_progress", "completed"),
            {"tools": [ROLL]},
        ),
        (
            item("mcp_call", "mcp_1", name="roll", server_label="dice", arguments=""),
            [
                *ran("mcp_call", "in_progress"),
                {"type": "response.mcp_call_arguments.delta", "delta": '{"n"'},
                {"type": "response.mcp_call_arguments.delta", "delta": ":2}"},
                {"type": "response.mcp_call_arguments.done", "arguments": '{"n":2}'},
                *ran("mcp_call", "completed"),
            ],
            {**ENDED, "arguments": '{"n":2}', "output": "7", "error": None},
        ),
        (
            {
                **{"id": "mcpr_1", "type": "mcp_approval_request", "server_label": "dice"},
                **{"name": "roll", "arguments": "{}"},
            },
            [],
            {},
        ),
    ],
    "code that runs": [
        (
            {
                **item("code_interpreter_call", "ci_1", container_id="cntr_1", code=""),
                "outputs": None,
            },
            [
                *ran("code_interpreter_call", "in_progress"),
                {"type": "response.code_interpreter_call_code.delta", "delta": "1 +"},
                {"type": "response.code_interpreter_call_code.delta", "delta": " 1"},
                {"type": "response.code_interpreter_call_code.done", "code": "1 + 1"},
                *ran("code_interpreter_call", "interpreting", "completed"),
            ],
            {**ENDED, "code": "1 + 1", "outputs": [{"type": "logs", "logs": "2"}]},
        ),
        text("Two", CITED),
    ],
    "an image in pieces": [
        (
            item("image_generation_call", "ig_1", result=None),
            [
                *ran("image_generation_call", "in_progress", "generating"),
                {
                    **{"type": "response.image_generation_call.partial_image"},
                    **{"partial_image_index": 0, "partial_image_b64": "QQ=="},
                },
                *ran("image_generation_call", "completed"),
            ],
            {**ENDED, "result": "QUJD", "output_format": "webp", "revised_prompt": "a cat"},
        ),
        text("A cat."),
    ],
    "a shell of the provider, and a call for the client": [
        (
            item(
                "shell_call",
                "sh_1",
                call_id="c1",
                action=SHELL,
                environment={"type": "container_reference", "container_id": "cntr_1"},
            ),
            [],
            ENDED,
        ),
        (
            {
                **{"id": "sho_1", "type": "shell_call_output", "call_id": "c1"},
                **{"status": "completed", "max_output_length": None, "output": []},
            },
            [],
            {},
        ),
        (
            {
                **item("local_shell_call", "lsh_1", call_id="c2"),
                "action": {"type": "exec", "command": ["ls"], "env": {}},
            },
            [],
            ENDED,
        ),
    ],
    "reasoning without a text or a proof": [
        ({"id": "rs_1", "type": "reasoning", "summary": []}, [], {}),
        (
            item("web_search_call", "ws_1", action=SEARCH),
            ran("web_search_call", "in_progress", "searching", "completed"),
            ENDED,
        ),
        (
            {"id": "rs_2", "type": "reasoning", "summary": [], "encrypted_content": "E"},
            [],
            {"encrypted_content": "EE"},
        ),
        text("Tea."),
    ],
    "reasoning of open models": [thought("Hm."), text("Tea.")],
}
"""Answers as their items; the official client knows them all."""

NOVEL_CITATION = {
    **{"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 2},
    "novel": 1,
}
NOVEL: list[Item] = [
    (
        {"id": "nv_1", "type": "novel_call", "status": "in_progress", "a": 1},
        [{"type": "response.novel_call.progress", "percent": 50}],
        {"status": "completed", "b": {"c": [1]}},
    ),
    ({"id": "nv_2", "type": "novelty", "value": 1}, [], {"value": 2}),
    text("Tea.", NOVEL_CITATION, novel={"a": 1}),
]
"""Items, members and events that nobody has heard of."""

USAGE: dict[str, Any] = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0, "novel_tokens": 3},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 14,
    "num_sources_used": 2,
}
RESPONSE: dict[str, Any] = {
    **{"id": "resp_p", "object": "response", "created_at": 1.0, "model": "m", "background": False},
    **{"error": None, "incomplete_details": None, "instructions": "Be kind.", "metadata": {}},
    **{"parallel_tool_calls": True, "temperature": 0.5, "top_p": 1.0, "tool_choice": "auto"},
    **{"tools": [{"type": "web_search"}], "text": {"format": {"type": "text"}, "verbosity": "low"}},
    **{"reasoning": {"effort": "medium", "summary": None, "context": "auto"}, "store": False},
    **{"truncation": "disabled", "service_tier": "priority", "completed_at": None, "output": []},
}
MORE: dict[str, Any] = {
    **{"moderation": None, "content_filters": [], "billing": {"payer": "developer"}},
    **{"novel": {"web_search": {"num_requests": 1}}, "prompt_cache_retention": "24h"},
}


def payloads(*items: Item, status: str = "completed") -> list[dict[str, Any]]:
    """Return the events of an answer with some items."""
    running = {**RESPONSE, "status": "in_progress", "usage": None}
    found: list[dict[str, Any]] = [
        {"type": f"response.{kind}", "response": running} for kind in ("created", "in_progress")
    ]
    output: list[dict[str, Any]] = []
    for index, (added, events, changes) in enumerate(items):
        whole = {**added, **changes}
        place = {"item_id": added["id"], "output_index": index}
        found += [
            {"type": "response.output_item.added", "output_index": index, "item": added},
            *({**event, **place, "obfuscation": "x"} for event in events),
            {"type": "response.output_item.done", "output_index": index, "item": whole},
        ]
        output.append(whole)
    last = {**RESPONSE, **MORE, "status": status, "completed_at": 2.0, "usage": USAGE}
    found.append(
        {"type": f"response.{status}", "response": {**last, "output": output}, "beside": 1}
    )
    return [{**event, "sequence_number": number} for number, event in enumerate(found)]


def body(*items: Item) -> bytes:
    return sse(*payloads(*items))
