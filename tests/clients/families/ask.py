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


@client
async def langchain_anthropic(url: str, model: str, text: list[str]) -> Any:
    from langchain_anthropic import ChatAnthropic

    return await langchain(ChatAnthropic(base_url=url, model=model, **UNUSED), text)


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


async def openai_agents(model: Any, text: list[str]) -> Any:
    from agents import Agent, Runner, set_tracing_disabled

    set_tracing_disabled(True)
    run = Runner.run_streamed(Agent(name="a", model=model), PROMPT)
    async for event in run.stream_events():
        data = event.data if event.type == "raw_response_event" else None
        if data is not None and data.type == "response.output_text.delta":
            text.append(data.delta)
    return "complete" if run.is_complete and run.final_output else None


@client
async def openai_agents_chat(url: str, model: str, text: list[str]) -> Any:
    from agents import OpenAIChatCompletionsModel

    return await openai_agents(OpenAIChatCompletionsModel(model, official(url)), text)


@client
async def openai_agents_responses(url: str, model: str, text: list[str]) -> Any:
    from agents import OpenAIResponsesModel

    return await openai_agents(OpenAIResponsesModel(model, official(url)), text)


@client
async def litellm_chat(url: str, model: str, text: list[str]) -> Any:
    import litellm

    request: Any = {"model": f"openai/{model}", "api_base": f"{url}/v1", **UNUSED, **STREAMED}
    return await read_chunks(await litellm.acompletion(**request), text)


@client
async def litellm_responses(url: str, model: str, text: list[str]) -> Any:
    import litellm

    request: Any = {"model": f"openai/{model}", "api_base": f"{url}/v1", **UNUSED}
    return await read_responses(
        await litellm.aresponses(input=PROMPT, stream=True, **request), text
    )


@client
async def litellm_anthropic(url: str, model: str, text: list[str]) -> Any:
    import litellm

    request: Any = {"model": f"anthropic/{model}", "api_base": url, **UNUSED, **STREAMED}
    return await read_chunks(await litellm.acompletion(**request), text)


async def haystack(generator: Any, text: list[str]) -> Any:
    from haystack.dataclasses import ChatMessage

    async def take(chunk: Any) -> None:
        text.append(chunk.content or "")

    generator.streaming_callback = take
    found = await generator.run_async([ChatMessage.from_user(PROMPT)])
    meta = found["replies"][0].meta
    return meta.get("finish_reason") or meta.get("status")


def secret() -> Any:
    from haystack.utils import Secret

    return Secret.from_token("unused")


@client
async def haystack_chat(url: str, model: str, text: list[str]) -> Any:
    from haystack.components.generators.chat import OpenAIChatGenerator

    generator = OpenAIChatGenerator(
        api_key=secret(), model=model, api_base_url=f"{url}/v1", max_retries=0
    )
    return await haystack(generator, text)


@client
async def haystack_responses(url: str, model: str, text: list[str]) -> Any:
    from haystack.components.generators.chat import OpenAIResponsesChatGenerator

    generator = OpenAIResponsesChatGenerator(
        api_key=secret(), model=model, api_base_url=f"{url}/v1", max_retries=0
    )
    return await haystack(generator, text)


@client
async def semantic_kernel_chat(url: str, model: str, text: list[str]) -> Any:
    from semantic_kernel.connectors.ai.open_ai import (
        OpenAIChatCompletion,
        OpenAIChatPromptExecutionSettings,
    )
    from semantic_kernel.contents import ChatHistory

    service = OpenAIChatCompletion(ai_model_id=model, async_client=official(url))
    history = ChatHistory()
    history.add_user_message(PROMPT)
    finish = None
    async for chunk in service.get_streaming_chat_message_content(
        history, OpenAIChatPromptExecutionSettings()
    ):
        text.append(str(chunk))
        finish = chunk.finish_reason or finish
    return finish


@client
async def semantic_kernel_responses(url: str, model: str, text: list[str]) -> Any:
    from semantic_kernel.agents import OpenAIResponsesAgent

    agent = OpenAIResponsesAgent(ai_model_id=model, client=official(url), name="a")
    finish = None
    async for chunk in agent.invoke_stream(messages=PROMPT):
        text.append(str(chunk.message))
        finish = chunk.message.finish_reason or chunk.message.metadata.get("status") or finish
    return finish


async def agno(model: Any, text: list[str]) -> Any:
    from agno.agent import Agent

    finish = None
    async for event in Agent(model=model, telemetry=False, retries=0).arun(
        PROMPT, stream=True, stream_events=True
    ):
        if event.event == "RunContent":
            text.append(event.content or "")
        finish = event.event
    return finish


@client
async def agno_chat(url: str, model: str, text: list[str]) -> Any:
    from agno.models.openai.like import OpenAILike

    sdk = OpenAILike(id=model, base_url=f"{url}/v1", api_key="unused", max_retries=0)
    return await agno(sdk, text)


@client
async def agno_responses(url: str, model: str, text: list[str]) -> Any:
    from agno.models.openai import OpenAIResponses

    sdk = OpenAIResponses(id=model, base_url=f"{url}/v1", api_key="unused", max_retries=0)
    return await agno(sdk, text)


async def agent_framework(chat: Any, text: list[str]) -> Any:
    from agent_framework import Agent

    finish = None
    async for update in Agent(client=chat).run(PROMPT, stream=True):
        if update.text != "".join(text):  # the event `done` says it again, whole
            text.append(update.text or "")
        finish = getattr(update, "finish_reason", None) or finish
    return finish


@client
async def agent_framework_responses(url: str, model: str, text: list[str]) -> Any:
    from agent_framework.openai import OpenAIChatClient

    chat = OpenAIChatClient(model=model, async_client=official(url))
    return await agent_framework(chat, text)


@client
async def agent_framework_chat(url: str, model: str, text: list[str]) -> Any:
    from agent_framework.openai import OpenAIChatCompletionClient

    chat = OpenAIChatCompletionClient(model=model, async_client=official(url))
    return await agent_framework(chat, text)


@client
async def smolagents_chat(url: str, model: str, text: list[str]) -> Any:
    from smolagents import ChatMessage, OpenAIServerModel

    sdk = OpenAIServerModel(
        model_id=model, api_base=f"{url}/v1", api_key="unused", client_kwargs={"max_retries": 0}
    )
    message = ChatMessage(role="user", content=[{"type": "text", "text": PROMPT}])
    for piece in sdk.generate_stream([message]):
        text.append(piece.content or "")


@client
async def instructor_chat(url: str, model: str, text: list[str]) -> Any:
    import instructor
    from pydantic import BaseModel

    class Told(BaseModel):
        word: str = ""

    sdk = instructor.from_openai(official(url), mode=instructor.Mode.JSON)
    async for partial in sdk.chat.completions.create_partial(
        model=model, messages=MESSAGES, response_model=Told, max_retries=0
    ):
        text[:] = [partial.word or ""]


@client
async def aisuite_chat(url: str, model: str, text: list[str]) -> Any:
    import aisuite

    sdk = aisuite.Client({"openai": {"base_url": f"{url}/v1", "api_key": "unused"}})
    finish = None
    for chunk in sdk.chat.completions.create(
        model=f"openai:{model}", messages=MESSAGES, stream=True
    ):
        text.append(chunk.choices[0].delta.content or "")
        finish = chunk.choices[0].finish_reason or finish
    return finish


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
