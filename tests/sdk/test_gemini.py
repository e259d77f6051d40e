"""What we send to Gemini is what Google's own SDK sends for the same conversation.

To its own API and to Vertex AI alike. The two may differ only in what means the same:

- the SDK leaves the names within some objects in snake case; Google reads both (`plain`);
- the SDK writes base64 in the alphabet for URLs; Google reads both (`plain`);
- the SDK sends an empty `generationConfig` (`plain`);
- a conversation that has calls without signatures is sent without the mark that another
  model made them (the quirk `unsigned_calls`), which no user of the SDK would have set;
- ids that the relay made are not sent, so the SDK is given none: those of these
  conversations are replaced by such.

The SDK calls Gemini's API in version v1. The version is part of the base URL, so it is the
configuration's.
"""

import base64
import json
from typing import Any

import pytest
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials

from app.dialects.gemini.upstream.request import Quirks, render_request
from app.dialects.upstream_format import MODEL
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.requests import parse_chat_request
from tests.sdk.conversations import CITY, PDF, PICTURE, PNG, TURNS, WEATHER
from tests.sdk.recorder import Recorded, Recorder

LEVELS = "gemini-3.6-flash"
BUDGETS = "gemini-2.5-flash"
Part, Content, Config = types.Part, types.Content, types.GenerateContentConfig
HELLO = [Content(role="user", parts=[Part(text="Hello")])]
KYOTO = [Content(role="user", parts=[Part(text="Weather in Kyoto?")])]
FUNCTION: Any = WEATHER["function"]
WEATHER_TOOL = types.FunctionDeclaration(
    name="get_weather",
    description="Tell the weather of a city.",
    parameters_json_schema=FUNCTION["parameters"],
)
NOW_TOOL = types.FunctionDeclaration(name="now", description="Tell the time.")


def tools(*functions: types.FunctionDeclaration) -> Any:
    return [types.Tool(function_declarations=list(functions))]


def mode(mode: str, *names: str) -> types.ToolConfig:
    calling = types.FunctionCallingConfig(
        mode=types.FunctionCallingConfigMode(mode), allowed_function_names=list(names) or None
    )
    return types.ToolConfig(function_calling_config=calling)


def user(*parts: types.Part) -> types.Content:
    return Content(role="user", parts=list(parts))


def model(*parts: types.Part) -> types.Content:
    return Content(role="model", parts=list(parts))


def calls(name: str, **arguments: str) -> types.Part:
    return Part(function_call=types.FunctionCall(name=name, args=arguments))


def answers(name: str, **response: str) -> types.Part:
    return Part(function_response=types.FunctionResponse(name=name, response=response))


SAID: dict[str, tuple[list[types.Content], types.GenerateContentConfig]] = {
    "one-turn": ([user(Part(text="こんにちは"))], Config()),
    "system-and-history": (
        [user(Part(text="Hello")), model(Part(text="Hi.")), user(Part(text="How are you?"))],
        Config(
            system_instruction=Content(
                parts=[Part(text="Be brief."), Part(text="Answer in English.")]
            )
        ),
    ),
    "sampling": (
        HELLO,
        Config(temperature=0.5, top_p=0.9, max_output_tokens=100, stop_sequences=["END", "###"]),
    ),
    "image-inline": (
        [
            user(
                Part(text="What is this?"),
                Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png"),
            )
        ],
        Config(),
    ),
    "image-by-url": (
        [user(Part.from_uri(file_uri=PICTURE, mime_type="image/png"), Part(text="What is this?"))],
        Config(),
    ),
    "file-inline": (
        [
            user(
                Part.from_bytes(data=base64.b64decode(PDF), mime_type="application/pdf"),
                Part(text="Sum it up."),
            )
        ],
        Config(),
    ),
    "tools": (KYOTO, Config(tools=tools(WEATHER_TOOL, NOW_TOOL), tool_config=mode("AUTO"))),
    "tool-required": (KYOTO, Config(tools=tools(WEATHER_TOOL), tool_config=mode("ANY"))),
    "tool-by-name": (
        KYOTO,
        Config(tools=tools(WEATHER_TOOL, NOW_TOOL), tool_config=mode("ANY", "get_weather")),
    ),
    "tool-results": (
        [
            user(Part(text="Weather in Kyoto and Nara?")),
            model(
                Part(text="I look it up."),
                calls("get_weather", city="Kyoto"),
                calls("get_weather", city="Nara"),
            ),
            user(
                answers("get_weather", result="sunny"),
                answers("get_weather", result="rain"),
                Part(text="And now?"),
            ),
            model(calls("now")),
            user(answers("now", time="12:00")),
        ],
        Config(tools=tools(WEATHER_TOOL, NOW_TOOL)),
    ),
    "json-object": (
        [user(Part(text="A city, as JSON."))],
        Config(response_mime_type="application/json"),
    ),
    "json-schema": (
        [user(Part(text="A city, as JSON."))],
        Config(response_mime_type="application/json", response_json_schema=CITY),
    ),
    "effort": (
        [user(Part(text="Think."))],
        Config(
            max_output_tokens=4000,
            thinking_config=types.ThinkingConfig(
                include_thoughts=True, thinking_level=types.ThinkingLevel.LOW
            ),
        ),
    ),
}

OURS: dict[str, dict[str, Any]] = {
    "signatures": {
        "messages": [
            {"role": "user", "content": "Weather in Kyoto?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "text": "It is asked for the weather."},
                    {"type": "text", "text": "I look it up."},
                    {"type": "opaque", "format": "gemini.thought_signature", "data": "c2lnMQ=="},
                    {
                        "type": "opaque",
                        "format": "gemini.part",
                        "data": json.dumps(
                            {
                                "executableCode": {"language": "PYTHON", "code": "1", "id": "x"},
                                "thoughtSignature": "c2lnMg==",
                            }
                        ),
                    },
                ],
                "tool_calls": [
                    {
                        "id": "dv8szvqe",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city": "Kyoto"}'},
                        "opaque": [{"format": "gemini.thought_signature", "data": "/+8="}],
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "dv8szvqe", "content": "sunny"},
        ],
        "tools": [WEATHER],
    },
    "more-tuning": {
        "messages": [{"role": "user", "content": "Hello"}],
        "n": 2,
        "seed": 7,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "logprobs": True,
        "top_logprobs": 3,
        "provider_options": {"generationConfig": {"topK": 40}},
    },
}
OURS_SAID: dict[str, tuple[list[types.Content], types.GenerateContentConfig]] = {
    "signatures": (
        [
            *KYOTO,
            model(
                Part(text="I look it up.", thought_signature=b"sig1"),
                Part(
                    executable_code=types.ExecutableCode(
                        language=types.Language.PYTHON, code="1", id="x"
                    ),
                    thought_signature=b"sig2",
                ),
                Part(
                    function_call=types.FunctionCall(
                        id="dv8szvqe", name="get_weather", args={"city": "Kyoto"}
                    ),
                    thought_signature=b"\xff\xef",
                ),
            ),
            user(
                Part(
                    function_response=types.FunctionResponse(
                        id="dv8szvqe", name="get_weather", response={"result": "sunny"}
                    )
                )
            ),
        ],
        Config(tools=tools(WEATHER_TOOL)),
    ),
    "more-tuning": (
        HELLO,
        Config(
            candidate_count=2,
            seed=7,
            presence_penalty=0.5,
            frequency_penalty=-0.5,
            response_logprobs=True,
            logprobs=3,
            top_k=40,
        ),
    ),
}


API = "gemini"
VERTEX = "vertex"


def sdk_sends(
    recorder: Recorder,
    contents: list[types.Content],
    config: types.GenerateContentConfig,
    *,
    model: str,
    at: str = API,
) -> Recorded:
    if at == VERTEX:
        client = genai.Client(
            vertexai=True,
            project="p",
            location="europe-west4",
            credentials=Credentials("token"),
            http_options=types.HttpOptions(base_url=recorder.url, api_version="v1"),
        )
    else:
        client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=recorder.url))
    with client:
        said: Any = contents
        return recorder.record(
            lambda: client.models.generate_content_stream(model=model, contents=said, config=config)
        )


OF_THE_USER = {"args", "response", "parametersJsonSchema", "responseJsonSchema"}


def plain(value: Any, key: str = "") -> Any:
    """Write what means the same in one way."""
    match value:
        case _ if key in OF_THE_USER:
            return value
        case dict():
            named = {camel(k): v for k, v in value.items()}
            if not named.get("generationConfig", True):
                del named["generationConfig"]
            return {k: plain(v, k) for k, v in named.items()}
        case list():
            return [plain(item) for item in value]
        case str() if key in ("data", "thoughtSignature"):
            return value.replace("-", "+").replace("_", "/")
        case _:
            return value


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def we_send(request: dict[str, Any], *, model: str) -> Any:
    parsed = parse_chat_request(json.dumps(request).replace('"call_', '"seseragi_').encode())
    quirks = Quirks(unsigned_calls="send")
    return json.loads(json.dumps(render_request(parsed, model=model, quirks=quirks).body))


ALL = {**TURNS, **OURS}
ALL_SAID = {**SAID, **OURS_SAID}


def test_every_conversation_is_compared() -> None:
    assert ALL_SAID.keys() == ALL.keys()


@pytest.mark.parametrize("at", [API, VERTEX])
@pytest.mark.parametrize("name", ALL)
def test_our_body_is_that_of_the_sdk(name: str, at: str, recorder: Recorder) -> None:
    contents, config = ALL_SAID[name]
    theirs = sdk_sends(recorder, contents, config, model=LEVELS, at=at)

    assert plain(we_send(ALL[name], model=LEVELS)) == plain(theirs.body)


def test_a_budget_is_that_of_the_sdk(recorder: Recorder) -> None:
    thinking = types.ThinkingConfig(include_thoughts=True, thinking_budget=1024)
    config = Config(max_output_tokens=4000, thinking_config=thinking)
    theirs = sdk_sends(recorder, [user(Part(text="Think."))], config, model=BUDGETS)

    assert plain(we_send(TURNS["effort"], model=BUDGETS)) == plain(theirs.body)


@pytest.mark.parametrize(
    ("at", "base", "header"),
    [
        (API, "/v1", ("x-goog-api-key", "k")),
        (
            VERTEX,
            "/v1/projects/p/locations/europe-west4/publishers/google",
            ("authorization", "Bearer token"),
        ),
    ],
)
def test_the_path_and_the_key_are_those_of_the_sdk(
    at: str, base: str, header: tuple[str, str], recorder: Recorder
) -> None:
    theirs = sdk_sends(recorder, HELLO, Config(), model=LEVELS, at=at)
    dialect = UPSTREAM_FORMATS["gemini"]
    path = f"{base}/{dialect.path}".replace(MODEL, LEVELS)

    assert theirs.method == "POST"
    assert theirs.path == path
    assert theirs.headers[header[0]] == header[1]
