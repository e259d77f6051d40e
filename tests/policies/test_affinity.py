"""Which target a conversation keeps: by weight, over its turns, as targets come and go."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.policies.affinity import MAX_HASHED, draw, hash_conversation
from app.policies.balance import BALANCES, Candidate, arrange
from app.policies.retry import FAILURES, Breaker, Rules, TargetPolicy
from app.requests import ChatRequest, parse_chat_request
from tests.policies.test_retry import BUSY

pytestmark = pytest.mark.pure

ASK = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "Hello."}
SYSTEM = {"role": "system", "content": "Be brief."}


def parse(messages: Sequence[dict[str, Any]], **fields: Any) -> ChatRequest:
    return parse_chat_request(msgspec.json.encode({"messages": messages, **fields}))


def key_of(*messages: dict[str, Any], **fields: Any) -> bytes:
    return hash_conversation(parse(messages, **fields))


def order_of(
    key: bytes, targets: dict[str, float], *breakers: Breaker, now: float = 0
) -> list[str]:
    names = list(targets)
    given = [*breakers, *(Breaker() for _ in names[len(breakers) :])]
    choices = [TargetPolicy(weight=weight) for weight in targets.values()]

    def order(equal: Sequence[int]) -> list[int]:
        weights = [(one, names[one], choices[one].weight) for one in equal]
        found = [Candidate(*weight, draw(key, weight[1])) for weight in weights]
        return [one.position for one in BALANCES["affinity"].order(found)]

    found = arrange(choices, given, now=now, order=order)
    return [names[index] for index in found]


KEYS = [key_of({"role": "user", "content": f"question {number}"}) for number in range(4000)]


def test_conversations_are_shared_by_weight() -> None:
    targets = {"a/m": 3.0, "b/m": 1.0, "c/m": 0.0, "d/m": 0.004}
    firsts = Counter(order_of(key, targets)[0] for key in KEYS)

    assert 0.73 < firsts["a/m"] / len(KEYS) < 0.77
    assert 0.22 < firsts["b/m"] / len(KEYS) < 0.27
    assert firsts["d/m"] < 20
    assert not firsts["c/m"]


@pytest.mark.parametrize("count", [2, 4, 8])
def test_only_the_share_of_a_new_target_moves(count: int) -> None:
    before = {f"{name}/m": 1.0 for name in "abcdefgh"[:count]}
    after = {"new/m": 1.0, **before}
    moved = Counter(
        new for key in KEYS if (new := order_of(key, after)[0]) != order_of(key, before)[0]
    )

    assert ["new/m"] == list(moved)
    assert 0.85 < moved["new/m"] / len(KEYS) * (count + 1) < 1.15


def test_the_number_of_a_target_is_the_same_on_every_machine() -> None:
    """Golden values: replicas of two versions agree while one replaces the other."""
    assert "cb3070df74d2407e4a4b6fbc1b08bfd4" == key_of(SYSTEM, ASK).hex()
    numbers = [draw(key_of(SYSTEM, ASK), name) for name in ("a/m", "b/m")]
    assert [0.13852342565216913, 0.5815417888349305] == numbers


def test_owners_and_relays_cannot_tell_the_targets_of_others() -> None:
    """Equal conversations of other owners, or under another secret, are placed independently."""
    targets = dict.fromkeys(("a/m", "b/m", "c/m", "d/m"), 1.0)

    def first(number: int, owner: str, secret: bytes = b"s") -> str:
        chat = parse(
            [{"role": "user", "content": f"question {number}"}], prompt_cache_key="k" * number
        )
        return order_of(hash_conversation(chat, owner=owner, secret=secret), targets)[0]

    numbers = range(1, 1000)
    mine = [first(number, "key:a") for number in numbers]
    assert mine == [first(number, "key:a") for number in numbers]
    for others in (
        [first(number, "key:b") for number in numbers],
        [first(number, "key:a", secret=b"t") for number in numbers],
    ):
        same = sum(one == other for one, other in zip(mine, others, strict=True))
        assert 0.19 < same / len(mine) < 0.31


def test_a_conversation_returns_when_its_target_is_healthy_again() -> None:
    rules = Rules(pause_s=15)
    targets = dict.fromkeys(("a/m", "b/m", "c/m"), 1.0)
    key = next(key for key in KEYS if order_of(key, targets)[0] == "a/m")
    first, second, third = order_of(key, targets)
    breaker = Breaker(rules)
    for number in range(FAILURES):
        breaker.failed(f"s{number}", BUSY, 0)

    assert [second, third, first] == order_of(key, targets, breaker, now=1)
    assert [first, second, third] == order_of(key, targets, breaker, now=16)


MARKED = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
CALLED = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
}
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    "later",
    [
        parse([SYSTEM, ASK, ANSWER, {"role": "user", "content": "more"}]),
        parse([SYSTEM, {"role": "user", "content": [MARKED]}, ANSWER, ASK]),
        parse([SYSTEM, ASK, CALLED, {"role": "tool", "tool_call_id": "c1", "content": "1"}]),
        parse([SYSTEM, ASK, ANSWER, ASK], tools=[TOOL], model="other", max_tokens=9),
    ],
    ids=["turn", "mark", "call", "tools"],
)
def test_later_turns_have_the_key_of_the_first(later: ChatRequest) -> None:
    assert key_of(SYSTEM, ASK) == hash_conversation(later)


LONG = "x" * 3 * MAX_HASHED


def test_different_conversations_have_different_keys() -> None:
    def image(name: str) -> dict[str, Any]:
        url = {"url": f"https://a.example/{name}.png"}
        return {"role": "user", "content": [{"type": "image_url", "image_url": url}]}

    greeting = {"role": "assistant", "content": "Welcome!"}
    found = [
        key_of(ASK),
        key_of(SYSTEM, ASK),
        key_of({**SYSTEM, "content": "Be long."}, ASK),
        key_of(image("a")),
        key_of(image("b")),
        # A greeting is no answer, a context before the question is not all of it.
        key_of(greeting, ASK),
        key_of(greeting, {**ASK, "content": "hello"}),
        key_of(ASK, {**ASK, "content": "one"}),
        key_of(ASK, {**ASK, "content": "two"}),
        key_of({**SYSTEM, "content": LONG}, ASK),
        key_of({**SYSTEM, "content": LONG}, {**ASK, "content": "hello"}),
        key_of({**ASK, "content": f"{LONG} one"}),
        key_of({**ASK, "content": f"{LONG} two"}),
        key_of({**ASK, "content": []}),
        key_of(ASK, prompt_cache_key="a"),
        key_of(ASK, prompt_cache_key="b"),
    ]

    assert len(set(found)) == len(found)
    assert key_of(ASK, prompt_cache_key="a") == key_of(SYSTEM, ASK, ANSWER, prompt_cache_key="a")


CLAUDE_CODE = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.37; cch=fa690;"}


@pytest.mark.parametrize(
    ("client_format", "body"),
    [
        ("native", {"messages": [SYSTEM, ASK]}),
        ("openai_chat", {"messages": [{**SYSTEM, "role": "developer"}, ASK]}),
        ("openai_responses", {"instructions": "Be brief.", "input": "hi"}),
        ("openai_responses", {"input": [SYSTEM, {**ASK, "content": [{"type": "input_text", "text": "hi"}]}]}),
        ("anthropic", {"max_tokens": 9, "system": "Be brief.", "messages": [ASK, ANSWER, ASK]}),
        (
            "anthropic",
            {
                "max_tokens": 9,
                "system": [CLAUDE_CODE, {"type": "text", "text": "Be brief."}],
                "messages": [{**ASK, "content": [MARKED]}],
            },
        ),
    ],
)  # fmt: skip
def test_every_client_format_has_the_same_key(client_format: str, body: dict[str, Any]) -> None:
    parse_request = CLIENT_FORMATS[client_format].parse_request
    parsed = parse_request(msgspec.json.encode({"model": "m", **body}))

    assert key_of(SYSTEM, ASK) == hash_conversation(parsed.chat)


@pytest.mark.parametrize(
    ("client_format", "body"),
    [("openai_chat", {"messages": [ASK]}), ("openai_responses", {"input": "another"})],
)
def test_the_cache_key_of_a_client_is_the_conversation(client_format: str, body: Any) -> None:
    named = {"model": "m", "prompt_cache_key": "session 1", **body}
    parsed = CLIENT_FORMATS[client_format].parse_request(msgspec.json.encode(named))

    assert key_of(SYSTEM, ASK, prompt_cache_key="session 1") == hash_conversation(parsed.chat)


NAMED: list[tuple[str, dict[str, Any]]] = [
    ("native", {"messages": [ASK], "metadata": {"session_id": "s"}}),
    ("openai_chat", {"messages": [ASK], "metadata": {"session_id": "s"}}),
    ("openai_chat", {"messages": [ASK], "session_id": "s"}),
    ("openai_responses", {"input": "hi", "metadata": {"session_id": "s"}}),
    ("ui", {"id": "s", "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]}),
    ("ag_ui", {"threadId": "s", "runId": "r", "messages": [{"id": "1", **ASK}]}),
]  # fmt: skip


@pytest.mark.parametrize(("client_format", "body"), NAMED)
def test_the_id_of_a_conversation_is_its_key(client_format: str, body: dict[str, Any]) -> None:
    if client_format in ("openai_chat", "openai_responses"):
        body = {"model": "m", **body}
    parsed = CLIENT_FORMATS[client_format].parse_request(msgspec.json.encode(body))

    assert hash_conversation(parsed.chat, parsed.metadata) == key_of(ASK, prompt_cache_key="s")
