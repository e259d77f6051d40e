"""The relay before upstreams of other people's making, whose faults are switched on."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.testing.upstream import Call, Step, answer, serve_upstream
from tests.judges.folder import package
from tests.needs import program
from tests.serving import Relay, events_of, read_messages, serve_relay, text_of

pytestmark = pytest.mark.proving

TEXT = "Hi there! せせらぎ🌊 and a few more words, so that it comes in more than one piece."
CALL = {"name": "get_weather", "arguments": {"city": "Ōsaka"}}
CUTS = range(1, 9)
FAULTS = {
    "drop": {"dropRate": 1},
    "garble": {"malformedRate": 1},
    "limit": {"rateLimitRate": 1},
    "hang up": {"disconnectRate": 1},
}
STATUS_WAIT_S = 60
"""A fault is to be known before the status is sent, also after three attempts on a busy machine."""
MIXED = {"dropRate": 0.2, "malformedRate": 0.2, "disconnectRate": 0.2}
"""Without rate limits, whose wait would be one of the test too."""


ROUTE = """
[upstream.other]
base_url = "{base_url}"
quirks = {{ prefill = "prefix" }}
[[route]]
name = "whole"
targets = ["mock/m", "other/m"]
rescue = true
"""


def fixture(asked: str, response: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"match": {"userMessage": asked}, "response": response, **options}


FIXTURES = [
    fixture("say it", {"content": TEXT}),
    fixture("call it", {"toolCalls": [CALL]}),
    fixture("say and call", {"content": TEXT, "toolCalls": [CALL]}),
    fixture(
        "refuse it", {"error": {"message": "no", "type": "invalid_request_error"}, "status": 400}
    ),
    fixture("mixed faults", {"content": TEXT}, chaos=MIXED),
    *[fixture(name, {"content": TEXT}, chaos=chaos) for name, chaos in FAULTS.items()],
    *[fixture(f"cut {count}.", {"content": TEXT}, truncateAfterChunks=count) for count in CUTS],
]
UPSTREAMS: dict[str, tuple[str, str]] = {
    "openai": ("/v1", ""),
    "openai-responses": ("/v1", ""),
    "azure": ("/openai/v1", ""),
    "azure-deployments": ("/openai/deployments/{model}", ""),
    "anthropic": ("", ""),
    "gemini": ("/v1beta", ""),
    "gemini-interactions": ("/v1beta", ""),
    "vertex": ("/v1/projects/p/locations/l/publishers/google", 'auth = "bearer"'),
    "bedrock": ("", 'auth = "bearer"'),
    "bedrock-anthropic": ("", 'auth = "bearer"'),
    "cohere": ("", ""),
    "ollama": ("", ""),
    "openrouter": ("/api/v1", ""),
    "mistral": ("/v1", ""),
    "groq": ("/openai/v1", ""),
    "xai": ("/v1", ""),
    "deepseek": ("", ""),
}
"""By preset: the path of its base URL at aimock, and what else it needs."""


@pytest.fixture(scope="module")
def mock() -> Iterator[str]:
    """Run aimock; return its address."""
    node = program("node")
    package("@copilotkit/aimock")
    script = str(Path(__file__).with_name("aimock.mjs"))
    command = [node, script, json.dumps(FIXTURES)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.communicate(timeout=60)


@pytest.fixture(params=UPSTREAMS)
def config(mock: str, request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a relay before one of its providers."""
    path, more = UPSTREAMS[request.param]
    lines = [
        "[upstream.mock]",
        f'preset = "{request.param}"',
        f'base_url = "{mock}{path}"',
        'key_env = "MOCK_KEY"',
        'models = ["m"]',
        more,
    ]
    file = tmp_path / "seseragi.toml"
    file.write_text("\n".join(lines), encoding="utf-8")
    return {"SESERAGI_CONFIG": str(file), "MOCK_KEY": "k"}


async def ask(relay: Relay, words: str, **fields: Any) -> list[dict[str, Any]]:
    """Return the events of an answer, or the problem instead of one."""
    body = {"model": "mock/m", "messages": [{"role": "user", "content": words}], **fields}
    async with relay.client.stream("POST", "/v1/chat", json=body) as reply:
        if reply.status_code != 200:
            problem = json.loads(await reply.aread())
            return [{**problem, "type": "problem"}]
        return events_of(await read_messages(reply))


def calls_of(events: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    names = [event["name"] for event in events if event["type"] == "tool_call.start"]
    ends = [event["arguments"] for event in events if event["type"] == "tool_call.end"]
    return [(name, json.loads(end)) for name, end in zip(names, ends, strict=True)]


async def test_answers_come_whole(config):
    tool = {
        "type": "function",
        "function": {"name": "get_weather", "parameters": {"type": "object"}},
    }
    async with serve_relay(environ=config, status_wait_s=STATUS_WAIT_S) as relay:
        said = await ask(relay, "say it")
        called = await ask(relay, "call it", tools=[tool])
        both = await ask(relay, "say and call", tools=[tool])
        refused = await ask(relay, "refuse it")

    call = [(CALL["name"], CALL["arguments"])]
    assert (TEXT, [], "completed") == (text_of(said), calls_of(said), said[-1]["status"])
    assert ("", call, "completed") == (text_of(called), calls_of(called), called[-1]["status"])
    assert (TEXT, call, "completed") == (text_of(both), calls_of(both), both[-1]["status"])
    assert {"stop"} == {said[-1]["finish_reason"]}
    assert {"tool_calls"} == {called[-1]["finish_reason"], both[-1]["finish_reason"]}
    assert ["upstream_invalid_request"] == [event["code"] for event in refused]


async def test_answer_that_is_cut_is_never_completed(config):
    ends = []
    async with serve_relay(environ=config, status_wait_s=STATUS_WAIT_S) as relay:
        for count in CUTS:
            events = await ask(relay, f"cut {count}.")
            if events[-1]["type"] == "problem":
                assert events[-1]["code"].startswith("upstream_")
                ends.append("problem")
                continue
            assert TEXT.startswith(text_of(events))
            ends.append(events[-1]["status"])
            if ends[-1] == "completed":
                assert TEXT == text_of(events)
    assert {"failed", "problem"} & {*ends[:3]} == {*ends[:3]}


def add_route(config: dict[str, str], base_url: str) -> None:
    with Path(config["SESERAGI_CONFIG"]).open("a", encoding="utf-8") as file:
        file.write(ROUTE.format(base_url=base_url))


def go_on(call: Call) -> list[Step]:
    """Give the answer, or what follows a last turn of the assistant."""
    last = call.json["messages"][-1]
    begun = last["content"] if last["role"] == "assistant" else ""
    assert TEXT.startswith(begun)
    return answer(*TEXT[len(begun) :])


async def test_answer_that_is_cut_is_continued_by_another_provider(config):
    async with serve_upstream() as other:
        other.choose = go_on
        add_route(config, other.base_url)
        async with serve_relay(environ=config, breaker_pause_s=0.001) as relay:
            answers = [await ask(relay, f"cut {count}.", model="whole") for count in CUTS]

    for events in answers:
        assert (TEXT, "completed") == (text_of(events), events[-1]["status"])
        assert 1 == sum(event["type"] == "stream.end" for event in events)
    assert other.calls


async def test_every_fault_is_told(config):
    async with serve_relay(environ=config, status_wait_s=STATUS_WAIT_S) as relay:
        codes = {name: [event.get("code") for event in await ask(relay, name)] for name in FAULTS}

    assert ["upstream_rate_limited"] == codes.pop("limit")
    assert codes == {name: found for name, found in codes.items() if len(found) == 1}
    assert all(str(code).startswith("upstream_") for (code,) in codes.values())


async def test_chance_of_faults_changes_no_text(config):
    async with serve_relay(environ=config, attempts=3, status_wait_s=STATUS_WAIT_S) as relay:
        answers = await asyncio.gather(*[ask(relay, "mixed faults") for _ in range(5)])

    for events in answers:
        if events[-1]["type"] == "problem":
            assert events[-1]["code"].startswith("upstream_")
        else:
            assert (TEXT, "completed") == (text_of(events), events[-1]["status"])
