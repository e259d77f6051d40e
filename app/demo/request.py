"""A Chat Completions request as a provider reads it, and error responses.

Unknown fields are ignored, as providers do. `app.requests` is the relay's own, stricter schema.
"""

import hashlib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct


class ApiError(Exception):
    """An error response: an HTTP status and OpenAI's error object.

    It is not an error of `app.errors`, since it never leaves the demo as an exception.
    """

    def __init__(self, status: int, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        kind = "server_error" if status >= 500 else "invalid_request_error"
        error = {"message": message, "type": kind, "param": None, "code": code}
        self.body = msgspec.json.encode({"error": error})


class Part(Struct, frozen=True):
    type: str
    text: str | None = None


class Function(Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    parameters: dict[str, Any] | None = None
    arguments: str = ""


class Tool(Struct, frozen=True):
    function: Function


class Message(Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None
    tool_calls: list[dict[str, Any]] | None = None

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


class JsonSchema(Struct, frozen=True):
    schema: dict[str, Any] | None = None


class ResponseFormat(Struct, frozen=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


Natural = Annotated[int, Meta(ge=1)]


class DemoRequest(Struct, frozen=True):
    model: str
    messages: Annotated[list[Message], Meta(min_length=1)]
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    max_tokens: Natural | None = None
    max_completion_tokens: Natural | None = None
    stop: str | Annotated[list[str], Meta(max_length=4)] | None = None
    seed: int | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | Tool | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None

    @property
    def words(self) -> str:
        """The last text part of the user that is not an agent's own, such as a reminder."""
        parts = [text for m in self.messages if m.role == "user" for text in m.texts][::-1]
        return next((text for text in parts if not _is_tagged(text)), parts[0] if parts else "")

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
        """Hash the request."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).digest()


def _is_tagged(text: str) -> bool:
    """Return whether a text is in tags, such as an agent's `<system-reminder>`."""
    return text.lstrip().startswith("<") and text.rstrip().endswith(">")


_decoder = msgspec.json.Decoder(DemoRequest)


def parse_request(body: bytes) -> DemoRequest:
    """Decode the JSON body of a request.

    Raises:
        ApiError: 400, with the path and the reason.
    """
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise ApiError(400, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, f"The body is not JSON: {error}") from None
    except RecursionError:
        raise ApiError(400, "The body is nested too deeply") from None
