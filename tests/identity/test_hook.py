"""What a host application's function may return, and how its failures are told."""

import asyncio
from decimal import Decimal
from functools import partial

import pytest
import structlog

from app.errors import RequestError, ServiceError
from app.identity import hook
from app.identity.hook import Caller, IdentifyHook
from app.identity.principal import Principal
from app.ledger.config import UsageLimits

pytestmark = pytest.mark.pure

LIMITS = UsageLimits(usd_per_day=1)
SECRET = "cookie-0123456789"  # noqa: S105


async def identify(scope, result):
    return result


async def fail(scope, error):
    raise error


async def ask(function, *arguments) -> Principal:
    return await IdentifyHook(partial(function, result=arguments[0])).authenticate({})


@pytest.mark.parametrize(
    ("result", "principal"),
    [
        ("7", Principal(user="7")),
        ("あ" * 256, Principal(user="あ" * 256)),
        (Caller("7"), Principal(user="7")),
        (Caller("7", "acme", admin=True), Principal("acme", "7", roles=frozenset(["admin"]))),
        (
            Caller("7", models=["fast", "openai/*"], limits=LIMITS),
            Principal(user="7", models=("fast", "openai/*"), user_limits=LIMITS),
        ),
        (Caller("7", models=[]), Principal(user="7", models=())),
        (
            Caller("7", limits=UsageLimits(usd_per_day=Decimal(1))),  # type: ignore[arg-type]
            Principal(user="7", user_limits=LIMITS),
        ),
    ],
)
async def test_caller_is_a_principal(result, principal):
    assert principal == await ask(identify, result)


async def test_none_is_unauthenticated():
    with pytest.raises(RequestError, match="sign in") as raised:
        await ask(identify, None)
    assert "unauthenticated" == raised.value.code


@pytest.mark.parametrize(
    ("result", "why"),
    [
        *((value, "returned ") for value in (7, True, {"user": SECRET}, b"7", Principal(user="7"))),
        *((value, "visible") for value in ("", " ", f"{SECRET}\n", "a\u202eb")),
        *((value, "length <= 256") for value in (SECRET * 99, Caller("7", SECRET * 99))),
        (Caller("7", f"{SECRET}\x00"), "visible"),
        (Caller(7), "$.user"),  # type: ignore[arg-type]
        (Caller(object()), "unsupported"),  # type: ignore[arg-type]
        (Caller("7", admin=1), "$.admin"),  # type: ignore[arg-type]
        (Caller("7", models="fast"), "$.models"),
        (Caller("7", models=["fast"] * 101), "$.models"),
        (Caller("7", limits=UsageLimits(streams=-1)), "$.limits.streams"),
        (Caller("7", limits=UsageLimits(usd_per_day="1.50")), "$.limits.usd_per_day"),  # type: ignore[arg-type]
    ],
)
async def test_other_results_are_refused_and_not_quoted(result, why):
    with structlog.testing.capture_logs() as lines, pytest.raises(ServiceError) as raised:
        await ask(identify, result)
    assert "internal" == raised.value.code
    [line] = lines
    assert ("identify failed", "error") == (line["event"], line["log_level"])
    assert why in line["why"]
    assert SECRET not in f"{line}{raised.value}"


async def test_failure_is_one_line_that_names_the_function_and_the_place():
    async def of_session(scope):
        await fail(scope, KeyError(SECRET))

    with structlog.testing.capture_logs() as lines, pytest.raises(ServiceError) as raised:
        await IdentifyHook(of_session).authenticate({})
    assert "internal" == raised.value.code
    [line] = lines
    assert line["hook"].endswith(".of_session")
    assert line["hook"].startswith(__name__)
    assert f"KeyError at {__file__}:{fail.__code__.co_firstlineno + 1}" == line["why"]
    assert SECRET not in f"{line}{raised.value}"


async def test_function_that_is_not_async_is_told():
    with structlog.testing.capture_logs() as lines, pytest.raises(ServiceError):
        await IdentifyHook(lambda scope: "7").authenticate({})  # type: ignore[arg-type,return-value]
    assert lines[0]["why"].startswith("TypeError at ")


async def test_timeout_of_the_function_itself_is_its_failure():
    with structlog.testing.capture_logs() as lines, pytest.raises(ServiceError) as raised:
        await IdentifyHook(partial(fail, error=TimeoutError())).authenticate({})
    assert "internal" == raised.value.code
    assert [("identify failed", True)] == [
        (line["event"], line["why"].startswith("TimeoutError at ")) for line in lines
    ]


async def test_function_that_takes_too_long_is_ended(monkeypatch):
    async def wait(scope):
        await asyncio.Event().wait()

    monkeypatch.setattr(hook, "IDENTIFY_S", 0.0)
    with structlog.testing.capture_logs() as lines, pytest.raises(ServiceError) as raised:
        await IdentifyHook(wait).authenticate({})
    assert "overloaded" == raised.value.code
    assert ["identify took too long"] == [line["event"] for line in lines]
