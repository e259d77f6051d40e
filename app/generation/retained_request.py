"""The request of a stream, retained for as long as another attempt may need it.

An answer may run for half an hour, and its request may be megabytes.
"""

from ..requests import ChatRequest
from .admission import RequestMemory


class RetainedRequest:
    """A request and the memory that it takes."""

    __slots__ = ("_chat", "_memory")

    def __init__(self, chat: ChatRequest, memory: RequestMemory | None) -> None:
        self._chat: ChatRequest | None = chat
        self._memory = memory
        if memory is not None:
            memory.kept = True

    @property
    def chat(self) -> ChatRequest:
        assert self._chat is not None  # noqa: S101  (after `drop` no attempt is made)
        return self._chat

    def shrink(self, size: int) -> None:
        """Drop the request; `size` bytes of the call built from it remain."""
        self._chat = None
        if self._memory is not None:
            self._memory.shrink(size)

    def drop(self) -> None:
        """Drop the request; further calls do nothing."""
        self._chat = None
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.release()
