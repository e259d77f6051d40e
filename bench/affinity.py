"""What prompt-cache affinity saves: conversations over several targets, with the cache of each.

A simulation without sockets: the relay's own order of targets, and a cache that keeps a prefix for
some minutes after its last use. Every conversation has the same system prompt, and in each turn
sends all that was said before.
"""

import random
from typing import NamedTuple

from app.policies.affinity import draw, hash_conversation
from app.policies.balance import BALANCES, Candidate
from app.requests import AssistantMessage, ChatRequest, Message, SystemMessage, UserMessage

TARGETS = (2, 4, 8)
CONVERSATIONS = 1000
TURNS = 10
STARTS_S = 2.0
"""Mean time between the beginnings of two conversations."""
THINKS_S = 60.0
"""Mean time between two turns of one."""
TTL_S = 300.0
SYSTEM = 5_000
"""Tokens of the system prompt and the tools, which all conversations share."""
TURN = 800
"""Tokens of a question and its answer."""


class Outcome(NamedTuple):
    hits: float
    """The share of later turns that found all earlier ones in the cache."""
    full: int
    """Input tokens at the full price."""


def simulate(targets: int, *, affinity: bool, seed: int = 1) -> Outcome:
    """Send all requests to so many equal targets, each with its own cache."""
    chance = random.Random(seed)
    names = [f"account-{number}/model" for number in range(targets)]
    cached: dict[tuple[int, int, int], float] = {}
    """The end of each prefix by target, conversation and turns; 0 turns: the system prompt."""
    hits = full = 0
    for at, conversation, turn in _requests(random.Random(seed)):
        key = hash_conversation(_chat(conversation, turn))
        numbers = [draw(key, name) if affinity else chance.random() for name in names]
        found = [Candidate(one, names[one], 1, numbers[one]) for one in range(targets)]
        target = next(iter(BALANCES["affinity"].order(found))).position
        full += SYSTEM + TURN * turn + TURN // 2
        for turns in range(turn, -1, -1):
            prefix = (target, conversation if turns else -1, turns)
            if cached.get(prefix, 0) > at:
                cached[prefix] = at + TTL_S
                # The last answer was not in the request that filled the cache.
                full -= SYSTEM + (TURN * turns - TURN // 2 if turns else 0)
                hits += turns == turn > 0
                break
        cached[target, -1, 0] = cached[target, conversation, turn + 1] = at + TTL_S
    return Outcome(hits / (CONVERSATIONS * (TURNS - 1)), full)


def _requests(chance: random.Random) -> list[tuple[float, int, int]]:
    """Return the time, conversation and turn of all requests, in order of time."""
    found = []
    started = 0.0
    for conversation in range(CONVERSATIONS):
        started += chance.expovariate(1 / STARTS_S)
        at = started
        for turn in range(TURNS):
            found.append((at, conversation, turn))
            at += chance.expovariate(1 / THINKS_S)
    return sorted(found)


def _chat(conversation: int, turn: int) -> ChatRequest:
    question = UserMessage(f"question {conversation}")
    messages: list[Message] = [SystemMessage("You are an agent."), question]
    for number in range(turn):
        messages += [AssistantMessage("an answer"), UserMessage(f"more {number}")]
    return ChatRequest(messages)


def run() -> int:
    """Print the table."""
    print("| targets | hits, random | hits, affinity | full-price input saved |")
    print("|---|---|---|---|")
    for targets in TARGETS:
        before, after = (simulate(targets, affinity=affinity) for affinity in (False, True))
        saved = 1 - after.full / before.full
        print(f"| {targets} | {before.hits:.0%} | {after.hits:.0%} | {saved:.0%} |")
    return 0
