"""Answers of providers in all dialects: one answer that ends, however its bytes are cut."""

from functools import cache
from random import Random

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from tests.dialects.streams import check as check_events
from tests.dialects.work import play
from tests.fuzz import streams_corpus
from tests.fuzz.streams_corpus import Body
from tests.fuzz.target import CUTS, Target, in_pieces

DIALECTS = [*UPSTREAM_FORMATS]
MAX_SEED = 6000
LIMITS = (2**24, 2**24, 3000, 100)


@cache
def bodies() -> list[Body]:
    """Return short recordings: long ones repeat what they have."""
    return [body for body in streams_corpus.kept() if len(body.data) < MAX_SEED]


def check(data: bytes) -> None:
    if len(data) < 2:
        return
    dialect, choice, body = DIALECTS[data[0] % len(DIALECTS)], data[1], data[2:]
    limit = LIMITS[choice >> 6]
    found = play(dialect, [body] if body else [], limit=limit)
    check_events(found)
    assert found == play(dialect, in_pieces(body, CUTS[choice % len(CUTS)]), limit=limit)


def change(data: bytes, dice: Random) -> bytes:
    dialect = DIALECTS[data[0] % len(DIALECTS)] if data else dice.choice(DIALECTS)
    spoken = "anthropic" if dialect == "vertex_anthropic" else dialect
    own = [body for body in bodies() if body.dialect == spoken] or bodies()
    body = Body(spoken, "", data[2:]) if len(data) > 2 else dice.choice(own)
    head = bytes((DIALECTS.index(dialect), dice.randrange(256)))
    return head + streams_corpus.mutate(body, own, dice)


def seeds() -> list[bytes]:
    chosen = {body.dialect: body for body in sorted(bodies(), key=lambda one: -len(one.data))}
    chosen["vertex_anthropic"] = chosen["anthropic"]
    return [bytes((DIALECTS.index(name), 5)) + body.data for name, body in chosen.items()]


TARGET = Target(
    check,
    seeds=seeds(),
    tokens=streams_corpus.TOKENS,
    mutate=change,
    costly=True,
)
