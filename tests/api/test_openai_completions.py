"""`POST /v1/completions`: OpenAI's older format, over chat."""

from typing import Any

import openai
import pytest

from app.testing.upstream import DONE, FINISH, USAGE, Reset, event, head, send, serve_upstream, text
from tests.serving import Relay, read_messages, serve_relay

ANSWER = [head(), send(text("Hello") + text(" 🌊") + FINISH + USAGE + DONE)]
PATH = "/v1/completions"


def client(relay: Relay) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="k", base_url=f"{relay.url}/v1", max_retries=0)


async def test_the_official_client_streams_and_waits() -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay, client(relay) as sdk:
        upstream.script = ANSWER
        stream = await sdk.completions.create(
            model="openai/m",
            prompt="Say hello",
            max_tokens=20,
            stop=["END"],
            logit_bias={"50256": -100},
            extra_body={"top_k": 3},
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        whole = await sdk.completions.create(model="openai/m", prompt=["Say hello"], n=1, best_of=1)

    said = [choice for chunk in chunks for choice in chunk.choices]
    assert "Hello 🌊" == "".join(choice.text for choice in said) == whole.choices[0].text
    assert ["stop"] == [choice.finish_reason for choice in said if choice.finish_reason]
    assert {"text_completion"} == {chunk.object for chunk in (*chunks, whole)}
    assert 1 == len({chunk.id for chunk in chunks})
    assert chunks[0].id.startswith("cmpl-")
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert (3, 2, 5) == (
        chunks[-1].usage.prompt_tokens,
        whole.usage.completion_tokens,
        whole.usage.total_tokens,
    )
    assert ("m-1", "stop") == (whole.model, whole.choices[0].finish_reason)
    asked = upstream.calls[0].json
    assert [{"role": "user", "content": "Say hello"}] == asked["messages"]
    assert {"logit_bias": {"50256": -100}, "top_k": 3, "stop": ["END"]}.items() <= asked.items()
    assert upstream.calls[0].path.endswith("/chat/completions")


async def test_log_probabilities_have_their_older_form() -> None:
    def token(word: str, chance: float) -> dict[str, Any]:
        return {"token": word, "logprob": chance, "bytes": None}

    rows = [{**token("Hel", -0.1), "top_logprobs": [token("Hel", -0.1), token("Yo", -3)]}]
    more = [{**token("lo", -0.2), "top_logprobs": [token("lo", -0.2)]}]
    async with serve_upstream() as upstream, serve_relay(upstream) as relay, client(relay) as sdk:
        upstream.script = [
            head(),
            send(event({"content": "Hel"}, logprobs={"content": rows})),
            send(event({"content": "lo"}, logprobs={"content": more}) + FINISH + DONE),
        ]
        found = await sdk.completions.create(model="openai/m", prompt="a b", logprobs=2)

    logprobs = found.choices[0].logprobs
    assert logprobs is not None
    assert ["Hel", "lo"] == logprobs.tokens
    assert [-0.1, -0.2] == logprobs.token_logprobs
    assert [{"Hel": -0.1, "Yo": -3}, {"lo": -0.2}] == logprobs.top_logprobs
    assert [0, 3] == logprobs.text_offset
    assert {"logprobs": True, "top_logprobs": 2}.items() <= upstream.calls[0].json.items()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"prompt": None}, "prompt: send a text"),
        ({"prompt": []}, "prompt: send a text"),
        ({"prompt": ["a", "b"]}, "prompt: has 2 texts"),
        ({"prompt": [1, 2]}, "prompt: token ids are not supported"),
        ({"prompt": [[1, 2]]}, "prompt: token ids are not supported"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"suffix": "the end"}, "suffix"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"best_of": 3, "n": 2}, "best_of: 3 is more than n, 2"),
        ({"echo": True}, "echo"),
        ({"n": 0}, "n:"),
    ],
)
async def test_what_no_chat_can_do_is_refused_with_its_reason(fields: Any, told: str) -> None:
    async with serve_relay() as relay, client(relay) as sdk:
        with pytest.raises(openai.BadRequestError) as refused:
            await sdk.completions.create(**{"model": "demo", "prompt": "a", **fields})

    assert told in str(refused.value)
    assert refused.value.param == told.split(":")[0].split()[0]


async def test_what_has_no_place_is_left_out_and_told_in_the_log() -> None:
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, dialect="openai_responses") as relay,
    ):
        upstream.script = [
            head(),
            send('data: {"type":"response.completed","response":{"output":['),
        ]
        upstream.script.append(
            send('{"type":"message","content":[{"type":"output_text","text":"a"}]}]}}\n\n')
        )
        body = {"model": "openai/m", "prompt": "a", "odd": 1, "suffix": "", "user": None}
        response = await relay.client.post(PATH, json=body)
        url = f"/v1/streams/{response.headers['stream-id']}/events"
        async with relay.client.stream("GET", url) as reply:
            messages = await read_messages(reply)

    assert 200 == response.status_code
    assert "odd" not in upstream.calls[0].json
    assert any("does not support odd" in message.data for message in messages)


async def test_a_cut_is_seen() -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay, client(relay) as sdk:
        upstream.script = [head(), send(text("Hel")), Reset()]
        stream = await sdk.completions.create(model="openai/m", prompt="a", stream=True)
        said: list[Any] = []

        async def read() -> None:
            async for chunk in stream:
                said.extend(chunk.choices)

        with pytest.raises(openai.APIError):
            await read()
        with pytest.raises(openai.APIStatusError):
            await sdk.completions.create(model="openai/m", prompt="a")

    assert ["Hel"] == [choice.text for choice in said]
    assert not any(choice.finish_reason for choice in said)


async def test_a_stream_is_read_on_by_the_number_of_its_frames() -> None:
    async with serve_relay(demo_pace=0) as relay:
        body = {"model": "demo", "prompt": "hello", "stream": True, "on_disconnect": "continue"}
        async with relay.client.stream("POST", PATH, json=body) as reply:
            whole = await read_messages(reply)
            stream = reply.headers["stream-id"]
        url = f"/v1/streams/{stream}/events?format=openai_completions"
        place = len(whole) // 2
        async with relay.client.stream(
            "GET", url, headers={"last-event-id": f"{place + 1}"}
        ) as reply:
            rest = await read_messages(reply)

    assert {""} == {message.id for message in whole}
    assert f"{stream}.t{place + 2}" == rest[0].id
    assert [m.data for m in whole[place + 1 :]] == [m.data for m in rest]
    assert "[DONE]" == rest[-1].data


async def test_a_refusal_before_the_answer_is_a_status() -> None:
    async with serve_relay() as relay, client(relay) as sdk:
        with pytest.raises(openai.InternalServerError) as failed:
            await sdk.completions.create(model="demo-error", prompt="a", stream=True)

    assert 503 == failed.value.status_code
