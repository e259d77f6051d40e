"""Stages of installed packages, which a route names."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from ...events import Event
from ...plugins import Registry
from ...requests import ChatRequest
from .stage import Following, Stage, refuse


class StageContext(msgspec.Struct, frozen=True, kw_only=True):
    """The stream of a stage."""

    stream: str
    owner: str
    """Whose stream it is: what is kept of an answer must never reach another owner."""
    route: str
    request: ChatRequest
    """As hooks have left it."""


class AnswerStage(Stage):
    """A stage of a package: receives the answer before hooks check it, and may replace it.

    It gets batches by `take`, and passes them on by `await super().take(events)`, changed or not:
    the structure that PROTOCOL.md promises has to stay, with one `stream.end`, always last. An
    exception ends the stream as failed. `take` may be cancelled at an await: the stream then ends
    after the events that have been passed on. The provider's events are billed, whatever is left.
    """

    def __init__(self, context: StageContext, following: Following) -> None:
        super().__init__(following)
        self.context = context
        if type(self).take is not Stage.take:
            self.push = refuse

    async def recall(self) -> Sequence[Event] | None:
        """Return an answer that needs no call; None if a provider has to be asked.

        Its events are those that `take` received of an earlier answer of the same owner, to its
        `stream.end`. It costs nothing.
        """
        return None


STAGES: Final[Registry[Callable[[StageContext, Following], AnswerStage]]] = Registry(
    "stage",
    {},
    group="seseragi.stages",
    is_part=lambda part: isinstance(part, type) and issubclass(part, AnswerStage),
    wants="a subclass of seseragi.generation.stages.plugged.AnswerStage",
)
"""Those that routes name in `stages`; the built-in ones have settings of their own."""
