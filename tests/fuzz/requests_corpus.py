"""Requests of every client format to begin with."""

import json
from typing import Any

MODELS = (
    "m",
    "claude-sonnet-4-5",
    "gemini-2.5-flash",
    "anthropic.claude-x",
    "gemini-" + "9" * 5000,
)

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
FUNCTION = {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
PDF = "data:application/pdf;base64,AAAA"
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
OPAQUE = [{"format": "gemini.thought_signature", "data": "x"}]

CHAT = {
    "model": "demo",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "developer", "content": [{"type": "text", "text": "d"}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}},
                {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}},
                {"type": "file", "file": {"file_id": "gs://a/b.pdf"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "t", "signature": "s", "format": "anthropic"},
                {"type": "opaque", "format": "gemini.part", "data": "{}"},
                {"type": "opaque", "format": "anthropic.compaction", "data": '{"type": "compaction"}'},
                {"type": "text", "text": "b"},
                {"type": "refusal", "refusal": "no"},
            ],
            "tool_calls": [{**CALL, "opaque": OPAQUE}, {**CALL, "id": "call_1"}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"r": [1]}', "is_error": True},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "r"}]},
        {"role": "assistant", "content": "c", "refusal": "r", "reasoning_content": "t"},
        {"role": "user", "content": "e", "name": "n"},
    ],
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
    "reasoning_effort": "low",
    "max_tokens": 4000,
    "temperature": 0.5,
    "top_p": 1,
    "stop": ["x"],
    "seed": 1,
    "metadata": {"a": "b"},
    "user": "u",
    "provider_options": {"options": {"a": 1}, "generationConfig": {"b": 2}},
    "on_disconnect": 5,
}  # fmt: skip
PLAIN = {
    "model": "demo",
    "messages": [{"role": "user", "content": "a"}],
    "stream": True,
    "stop": "x",
}
COMPLETIONS = {
    **{name: value for name, value in CHAT.items() if name != "on_disconnect"},
    "messages": [
        {"role": "user", "content": "a"},
        {
            "role": "assistant",
            "content": "b",
            "reasoning_details": [
                {"type": "reasoning.text", "text": "t", "signature": "s", "format": "anthropic"},
                {"type": "reasoning.encrypted", "data": "d", "format": "x"},
            ],
            "tool_calls": [{**CALL, "extra_content": {"google": {"thought_signature": "x"}, "seseragi": {"a": "b"}}, "index": 0}],
            "annotations": [],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
    ],
    "stream_options": {"include_usage": True},
    "service_tier": "flex",
    "logit_bias": {"1": 2},
    "prediction": {"type": "content"},
}  # fmt: skip
RESPONSES = {
    "model": "demo",
    "input": [
        {"role": "system", "content": "s"},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": "https://a/b.png"},
                {"type": "input_file", "file_data": PDF, "filename": "a"},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            ],
        },
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "e"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "b"}, {"type": "refusal", "refusal": "n"}],
            "phase": "final",
        },
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "status": "completed"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "r"}]},
        {"type": "compaction", "encrypted_content": "seseragi.e30="},
        {"type": "image_generation_call", "id": "i"},
    ],
    "instructions": "i",
    "tools": [{"type": "function", **FUNCTION}],
    "tool_choice": {"type": "function", "name": "f"},
    "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}, "verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "metadata": {"a": "b"},
    "include": ["message.output_text.logprobs"],
    "background": True,
    "max_output_tokens": 4000,
}  # fmt: skip
CLAUDE = {
    "model": "demo",
    "max_tokens": 4000,
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}, "title": "t", "context": "c"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "redacted_thinking", "data": "seseragi.eyJkYXRhIjoiYSJ9"},
                {"type": "text", "text": "b", "citations": [{"encrypted_index": ""}]},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "r"}], "is_error": True}]},
        {"role": "assistant", "content": "c"},
    ],
    "tools": [{"name": "f", "input_schema": SCHEMA, "description": "d"}, {"type": "web_search_20250305", "name": "web_search"}],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
    "metadata": {"user_id": "u"},
    "top_k": 5,
}  # fmt: skip
CLAUDE_PLAIN = {**CLAUDE, "tools": CLAUDE["tools"][:1]}  # type: ignore[index]  # a list
UI = {
    "id": "c",
    "trigger": "submit-message",
    "messages": [
        {"id": "m0", "role": "system", "parts": [{"type": "text", "text": "s"}]},
        {
            "id": "m1",
            "role": "user",
            "parts": [
                {"type": "text", "text": "a"},
                {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA==", "filename": "a.png"},
                {"type": "file", "mediaType": "audio/mpeg", "url": "data:audio/mpeg;base64,AA=="},
            ],
        },
        {
            "id": "m2",
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {"type": "reasoning", "text": "t", "providerMetadata": {"seseragi": {"signature": "s", "format": "anthropic", "opaque": OPAQUE}}},
                {"type": "text", "text": "b"},
                {"type": "tool-f", "toolCallId": "c1", "state": "output-available", "input": {"a": 1}, "output": {"r": [1]}},
                {"type": "dynamic-tool", "toolName": "g", "toolCallId": "c2", "state": "output-error", "rawInput": "x", "errorText": "e"},
                {
                    "type": "tool-h",
                    "toolCallId": "c3",
                    "state": "approval-responded",
                    "input": {},
                    "approval": {"id": "a", "approved": False, "reason": "no"},
                },
                {"type": "step-start"},
                {"type": "source-url", "sourceId": "s", "url": "https://a"},
                {"type": "data-x", "data": {"a": 1}},
                {"type": "text", "text": "c"},
            ],
        },
        {"id": "m3", "role": "user", "parts": [{"type": "text", "text": "d"}]},
    ],
    "model": "demo",
    "tools": [{"type": "function", "function": FUNCTION}],
    "temperature": 1,
}  # fmt: skip
AGUI = {
    "threadId": "t",
    "runId": "r",
    "parentRunId": "p",
    "state": {"a": 1},
    "messages": [
        {"id": "1", "role": "system", "content": "s"},
        {"id": "2", "role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image", "source": {"type": "url", "value": "https://a/b.png", "mimeType": "image/png"}}, {"type": "document", "source": {"type": "data", "value": "AA==", "mimeType": "application/pdf"}}, {"type": "audio", "source": {"type": "file", "value": "f"}}]},
        {"id": "3", "role": "reasoning", "content": "t", "encryptedValue": json.dumps({"signature": "s", "opaque": OPAQUE})},
        {"id": "4", "role": "assistant", "content": "b", "toolCalls": [{**CALL, "encryptedValue": "{}"}]},
        {"id": "5", "role": "tool", "toolCallId": "c1", "content": "r", "error": "e"},
        {"id": "6", "role": "activity", "activityType": "x", "content": {}},
        {"id": "7", "role": "user", "content": "c"},
    ],
    "tools": [FUNCTION],
    "context": [{"description": "d", "value": "v"}],
    "forwardedProps": {"model": "demo", "tools": [{"type": "function", "function": FUNCTION}], "temperature": 1},
}  # fmt: skip

CODEX = {
    "model": "demo",
    "input": [
        {"type": "message", "id": "msg_1", "role": "user", "content": "a", "novel": 1},
        {**{"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "p"}, **{"input": "a", "namespace": "n"}},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "b"},
        {**{"type": "function_call", "call_id": "c2", "name": "f", "namespace": "n"}, **{"arguments": "{}"}},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "text", "text": "b"}]},
        {**{"type": "local_shell_call", "id": "l", "call_id": "c3"}, **{"action": {"type": "exec", "command": ["ls"], "env": {}}}},
        {"type": "local_shell_call_output", "id": "c3", "output": "b"},
        {**{"type": "tool_search_call", "call_id": "c4", "execution": "client"}, **{"arguments": {"query": "a"}}},
        {
            **{"type": "tool_search_output", "call_id": "c4", "execution": "client"},
            "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]}],
        },
        {"type": "additional_tools", "tools": [{"type": "custom", "name": "q"}]},
        {"type": "agent_message", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}},
        {"type": "reasoning", "summary": [], "encrypted_content": "e"},
    ],
    "tools": [
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
        {"type": "custom", "name": "p", "format": {"type": "grammar", "definition": "start: a"}},
        {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}},
        {"type": "local_shell"},
        {"type": "web_search"},
    ],
    "tool_choice": {**{"type": "allowed_tools", "mode": "auto"}, "tools": [{"type": "custom", "name": "p"}, {"type": "function", "name": "f"}]},
    "reasoning": {"effort": "low", "context": "all"},
    "client_metadata": {"a": "b"},
    "stream_options": {"include_obfuscation": False},
}  # fmt: skip

OLDER = {
    **{"model": "demo", "prompt": ["Say hello"], "suffix": "", "max_tokens": 5, "n": 2},
    **{"best_of": 2, "echo": False, "logprobs": 2, "logit_bias": {"1": -1}, "stop": ["\n"]},
    **{"stream": True, "stream_options": {"include_usage": True}, "top_k": 3, "user": "u"},
}

CORPORA: dict[str, list[Any]] = {
    "native": [CHAT, PLAIN],
    "openai_chat": [COMPLETIONS, PLAIN],
    "openai_completions": [OLDER, {"model": "demo", "prompt": "a"}],
    "openai_responses": [RESPONSES, CODEX, {"model": "demo", "input": "a"}],
    "anthropic": [CLAUDE, CLAUDE_PLAIN],
    "ui": [UI],
    "ag_ui": [AGUI],
}
