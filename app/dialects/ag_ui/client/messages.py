"""The types of an AG-UI 1.0 request.

Unknown fields of messages are ignored, as the protocol requires.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ....bounds import MAX_MESSAGES, MAX_TOOLS
from ....requests import Body, Id


class Loose(msgspec.Struct, frozen=True, rename="camel"):
    """A JSON object of a message."""


class Source(Loose, frozen=True):
    type: Literal["data", "url", "file"]
    value: str
    mime_type: str | None = None


class TextContent(Loose, frozen=True, tag_field="type", tag="text"):
    text: str


class Image(Loose, frozen=True, tag_field="type", tag="image"):
    source: Source


class Audio(Loose, frozen=True, tag_field="type", tag="audio"):
    source: Source


class Video(Loose, frozen=True, tag_field="type", tag="video"):
    source: Source


class Document(Loose, frozen=True, tag_field="type", tag="document"):
    source: Source


ContentPart = TextContent | Image | Audio | Video | Document


class Called(Loose, frozen=True):
    name: str
    arguments: str


class Call(Loose, frozen=True):
    id: str
    function: Called
    encrypted_value: str | None = None


class Developer(Loose, frozen=True, tag_field="role", tag="developer"):
    content: str
    name: str | None = None


class System(Loose, frozen=True, tag_field="role", tag="system"):
    content: str
    name: str | None = None


class User(Loose, frozen=True, tag_field="role", tag="user"):
    content: str | list[ContentPart]
    name: str | None = None


class Assistant(Loose, frozen=True, tag_field="role", tag="assistant"):
    content: str | None = None
    tool_calls: list[Call] | None = None
    encrypted_value: str | None = None


class ToolResult(Loose, frozen=True, tag_field="role", tag="tool"):
    content: str | list[ContentPart]
    tool_call_id: str
    error: str | None = None


class Reasoning(Loose, frozen=True, tag_field="role", tag="reasoning"):
    content: str
    encrypted_value: str | None = None


class Activity(Loose, frozen=True, tag_field="role", tag="activity"):
    """The page's view of an agent's work: no content for a model."""


Message = Developer | System | User | Assistant | ToolResult | Reasoning | Activity


class Declared(Loose, frozen=True):
    """A tool of the page."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class Context(Loose, frozen=True):
    description: str
    value: str


class RunAgentInput(Body, frozen=True, rename="camel"):
    thread_id: Id
    run_id: Id
    messages: Annotated[list[Message], Meta(max_length=MAX_MESSAGES)]
    protocol_version: str | None = None
    parent_run_id: Id | None = None
    state: Any = None
    tools: Annotated[list[Declared], Meta(max_length=MAX_TOOLS)] | None = None
    context: list[Context] | None = None
    forwarded_props: Any = None
    resume: list[Any] | None = None
