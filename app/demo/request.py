"""A Chat Completions request as a provider reads it, and error responses.

Unknown fields are ignored, as providers do. `app.requests` is the relay's own, stricter schema.
"""

import hashlib
import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct


class ApiError(Exception):
    """An error response: an HTTP status and OpenAI's error object.

    It is not an error of `app.errors`, since it never leaves the demo as an exception.
    """

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = msgspec.json.encode(
            {
                "error": {
                    "message": message,
                    "type": "server_error" if status >= 500 else "invalid_request_error",
                    "param": param,
                    "code": code,
                }
            }
        )


class Part(Struct, frozen=True):
    type: str
    text: str | None = None


class FunctionCall(Struct, frozen=True):
    name: str
    arguments: str = ""


class ToolCall(Struct, frozen=True):
    id: str
    function: FunctionCall | None = None


class Message(Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The text of the message, without images and sounds."""
        return "\n".join(self.texts)

    @property
    def texts(self) -> list[str]:
        """The text parts of the message."""
        if isinstance(self.content, list):
            return [part.text for part in self.content if part.text]
        return [self.content] if self.content else []


class Function(Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    parameters: dict[str, Any] | None = None


class Tool(Struct, frozen=True):
    type: Literal["function"]
    function: Function


class NamedFunction(Struct, frozen=True):
    name: str


class ToolChoice(Struct, frozen=True):
    function: NamedFunction


class JsonSchema(Struct, frozen=True):
    schema: dict[str, Any] | None = None


class ResponseFormat(Struct, frozen=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StreamOptions(Struct, frozen=True):
    include_usage: bool | None = None


Natural = Annotated[int, Meta(ge=1)]


class DemoRequest(Struct, frozen=True):
    model: str
    messages: Annotated[list[Message], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    max_tokens: Natural | None = None
    max_completion_tokens: Natural | None = None
    stop: str | Annotated[list[str], Meta(max_length=4)] | None = None
    seed: int | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None

    @property
    def words(self) -> str:
        """The last text part of the user that is not an agent's own, such as a reminder."""
        parts = [text for m in self.messages if m.role == "user" for text in m.texts][::-1]
        return next((text for text in parts if not _is_aside(text)), parts[0] if parts else "")

    @property
    def begun(self) -> str:
        """The start of the answer, if the last message is the assistant's."""
        last = self.messages[-1]
        return last.text if last.role == "assistant" and not last.tool_calls else ""

    @property
    def instructions(self) -> str:
        return "\n".join(m.text for m in self.messages if m.role in ("system", "developer"))

    @property
    def results(self) -> list[Message]:
        """The results since the last tool calls, in order.

        Agents put reminders after the results, as messages of the user.
        """
        found: list[Message] = []
        for message in reversed(self.messages):
            if message.role in ("tool", "function"):
                found.append(message)
            elif found or message.role == "assistant":
                break
        return found[::-1]

    @property
    def budget(self) -> int | None:
        """The limit on the tokens of an answer."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def stops(self) -> list[str]:
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [stop for stop in stops if stop]

    @property
    def prompt_tokens(self) -> int:
        """An estimate, at four bytes a token."""
        return len(msgspec.json.encode((self.messages, self.tools))) // 4 + 1

    def digest(self) -> bytes:
        """Hash the request, but for the way in which the answer is sent."""
        request = msgspec.structs.replace(self, stream=None, stream_options=None)
        return hashlib.sha256(msgspec.json.encode(request, order="sorted")).digest()


_ASIDE = re.compile(r"\s*<([A-Za-z][\w-]{0,63})\b[^<>]{0,200}>")


def _is_aside(text: str) -> bool:
    """Return whether a text is marked as an agent's addition, such as `<system-reminder>`."""
    mark = _ASIDE.match(text)
    return mark is not None and text.rstrip().endswith(f"</{mark[1]}>")


_decoder = msgspec.json.Decoder(DemoRequest)


def parse_request(body: bytes) -> DemoRequest:
    """Decode the JSON body of a request.

    Raises:
        ApiError: 400, with the path and the reason.
    """
    try:
        request = _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, f"The body is not JSON: {error}") from None
    except RecursionError:
        raise ApiError(400, "The body is nested too deeply") from None
    _check(request)
    return request


def _check(request: DemoRequest) -> None:
    """Refuse missing fields that depend on others, which the types cannot express."""
    for index, message in enumerate(request.messages):
        if message.role == "tool" and message.tool_call_id is None:
            raise _missing(f"messages[{index}].tool_call_id")
    form = request.response_format
    if form is not None and form.type == "json_schema" and form.json_schema is None:
        raise _missing("response_format.json_schema")
    choice = request.tool_choice
    names = [tool.function.name for tool in request.tools or []]
    if isinstance(choice, ToolChoice) and choice.function.name not in names:
        reason = f"Tool {choice.function.name!r} is not in tools: {names}"
        raise ApiError(400, reason, param="tool_choice")


def _missing(param: str) -> ApiError:
    return ApiError(400, f"Missing required parameter: {param!r}", param=param)


def _invalid(text: str) -> ApiError:
    """Turn msgspec's "... - at `$.a[0].b`" into an error with the path in `param`."""
    match = re.fullmatch(r"(.*) - at `(?:key in )?\$\.?(.*)`", text, re.DOTALL)
    reason, place = (match[1], match[2]) if match else (text, "")
    missing = re.fullmatch(r"Object missing required field `(.*)`", reason)
    if missing:
        return _missing(f"{place}.{missing[1]}" if place else missing[1])
    if not place:
        return ApiError(400, reason)
    return ApiError(400, f"Invalid value for {place!r}: {reason}", param=place)
