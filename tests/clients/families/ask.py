"""A program: asks relays by some clients for answers that fail, and writes what that showed.

`python ask.py CLIENT=URL... FAULT[+FAULT][@URL]...` asks by all clients at once, each at a relay
of its own or at the one of the faults, for one fault after the other, for those with a "+" at
once. It writes a line of JSON for each client and each fault, whose name is the model that it asks
for: what was raised, else the text and how the client says that it ended. It runs in any
environment that has the clients, and knows nothing of the relays.
"""

# What it imports is in other environments.
# mypy: ignore-errors

import asyncio
import json
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

warnings.simplefilter("ignore")

Ask = Callable[[str, str, list[str]], Awaitable[Any]]
"""Of the relay's URL, the model and a list that takes the text; returns how it ended."""

CLIENTS: dict[str, Ask] = {}
PROMPT = "Hello"
MESSAGES: Any = [{"role": "user", "content": PROMPT}]


def client(ask: Ask) -> Ask:
    CLIENTS[ask.__name__.replace("_", "-")] = ask
    return ask


UNUSED: Any = {"api_key": "unused", "max_retries": 0}
STREAMED: Any = {"messages": MESSAGES, "stream": True}


def official(url: str) -> Any:
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=f"{url}/v1", **UNUSED)


async def read_chunks(chunks: Any, text: list[str]) -> Any:
    """Read an answer of Chat Completions."""
    finish = None
    async for chunk in chunks:
        for choice in chunk.choices:
            text.append(choice.delta.content or "")
            finish = choice.finish_reason or finish
    return finish


async def read_responses(events: Any, text: list[str]) -> Any:
    """Read an answer of Responses."""
    finish = None
    async for event in events:
        if event.type == "response.output_text.delta":
            text.append(event.delta)
        finish = getattr(getattr(event, "response", None), "status", finish)
    return finish


@client
async def openai_chat(url: str, model: str, text: list[str]) -> Any:
    chunks = await official(url).chat.completions.create(model=model, **STREAMED)
    return await read_chunks(chunks, text)


@client
async def openai_chat_helper(url: str, model: str, text: list[str]) -> Any:
    async with official(url).chat.completions.stream(model=model, messages=MESSAGES) as stream:
        async for event in stream:
            if event.type == "content.delta":
                text.append(event.delta)
        return (await stream.get_final_completion()).choices[0].finish_reason


@client
async def openai_responses(url: str, model: str, text: list[str]) -> Any:
    events = await official(url).responses.create(model=model, input=PROMPT, stream=True)
    return await read_responses(events, text)


@client
async def openai_responses_helper(url: str, model: str, text: list[str]) -> Any:
    async with official(url).responses.stream(model=model, input=PROMPT) as stream:
        async for event in stream:
            if event.type == "response.output_text.delta":
                text.append(event.delta)
        return (await stream.get_final_response()).status


def anthropics(url: str) -> Any:
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(base_url=url, **UNUSED).messages


@client
async def anthropic(url: str, model: str, text: list[str]) -> Any:
    finish = None
    async for event in await anthropics(url).create(model=model, max_tokens=100, **STREAMED):
        if event.type == "content_block_delta":
            text.append(event.delta.text)
        if event.type == "message_delta":
            finish = event.delta.stop_reason
    return finish


@client
async def anthropic_helper(url: str, model: str, text: list[str]) -> Any:
    request: Any = {"model": model, "max_tokens": 100, "messages": MESSAGES}
    async with anthropics(url).stream(**request) as stream:
        async for piece in stream.text_stream:
            text.append(piece)
        return (await stream.get_final_message()).stop_reason


async def langchain(model: Any, text: list[str]) -> Any:
    finish = None
    async for chunk in model.astream(PROMPT):
        text.append(chunk.text if isinstance(chunk.text, str) else chunk.text())
        said = chunk.response_metadata
        found = (said.get(name) for name in ("finish_reason", "status", "stop_reason"))
        finish = next((one for one in found if one), finish)
    return finish


@client
async def langchain_chat(url: str, model: str, text: list[str], **options: Any) -> Any:
    from langchain_openai import ChatOpenAI

    sdk = ChatOpenAI(base_url=f"{url}/v1", model=model, **UNUSED, **options)
    return await langchain(sdk, text)


@client
async def langchain_responses(url: str, model: str, text: list[str]) -> Any:
    return await langchain_chat(url, model, text, use_responses_api=True)


async def llama_index(model: Any, text: list[str]) -> Any:
    finish = None
    async for chunk in await model.astream_complete(PROMPT):
        text.append(chunk.delta or "")
        if choices := getattr(chunk.raw, "choices", None):
            finish = choices[0].finish_reason or finish
        finish = getattr(getattr(chunk.raw, "response", None), "status", finish)
    return finish


@client
async def llama_index_chat(url: str, model: str, text: list[str]) -> Any:
    from llama_index.llms.openai_like import OpenAILike

    sdk = OpenAILike(api_base=f"{url}/v1", model=model, is_chat_model=True, **UNUSED)
    return await llama_index(sdk, text)


@client
async def llama_index_responses(url: str, model: str, text: list[str]) -> Any:
    from llama_index.llms.openai import OpenAIResponses

    sdk = OpenAIResponses(api_base=f"{url}/v1", model=model, context_window=100_000, **UNUSED)
    return await llama_index(sdk, text)


async def pydantic_ai(model: Any, text: list[str]) -> Any:
    from pydantic_ai import Agent

    async with Agent(model).run_stream(PROMPT) as run:
        async for piece in run.stream_text(delta=True, debounce_by=None):
            text.append(piece)
        last = run.all_messages()[-1]
        state = getattr(last, "state", None)
        return state if state not in (None, "complete") else last.finish_reason


def pydantic_provider(url: str) -> Any:
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIProvider(openai_client=official(url))


@client
async def pydantic_ai_chat(url: str, model: str, text: list[str]) -> Any:
    from pydantic_ai.models.openai import OpenAIChatModel

    return await pydantic_ai(OpenAIChatModel(model, provider=pydantic_provider(url)), text)


@client
async def pydantic_ai_responses(url: str, model: str, text: list[str]) -> Any:
    from pydantic_ai.models.openai import OpenAIResponsesModel

    return await pydantic_ai(OpenAIResponsesModel(model, provider=pydantic_provider(url)), text)


async def ask_all(name: str, url: str, faults: list[str]) -> None:
    for words in faults:
        together, _, elsewhere = words.partition("@")
        at = elsewhere or url
        await asyncio.gather(*(ask_one(name, at, fault) for fault in together.split("+")))


async def ask_one(name: str, url: str, fault: str) -> None:
    text: list[str] = []
    found: dict[str, Any] = {"client": name, "fault": fault}
    try:
        finish = await asyncio.wait_for(CLIENTS[name](url, fault, text), 60)
    except ImportError as missing:
        found["missing"] = str(missing)
    except BaseException as raised:
        found["raised"] = f"{type(raised).__name__}: {raised}"[:300]
    else:
        found["finish"] = None if finish is None else str(finish)
    print(json.dumps({**found, "text": "".join(text)}), flush=True)


async def main() -> None:
    asked = [word.split("=", 1) for word in sys.argv[1:] if "=" in word]
    faults = [word for word in sys.argv[1:] if "=" not in word]
    for name, url in asked:  # what they import holds up the others
        await ask_all(name, url, faults[:1])
    await asyncio.gather(*(ask_all(name, url, faults[1:]) for name, url in asked))


if __name__ == "__main__":
    asyncio.run(main())
