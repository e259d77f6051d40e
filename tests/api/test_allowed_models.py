"""Which models a credential may use: enforced before an upstream is touched, by one name each."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.dialects import forwarded
from app.dialects.client_formats import CLIENT_FORMATS
from app.identity.principal import Principal, covers
from app.settings import load_settings
from app.testing.upstream import Upstream, serve_upstream
from tests.api.bodies import body_of as hello
from tests.api.test_openai_responses import HI
from tests.identities import bearer, known
from tests.serving import Relay, serve_relay

WHO = {
    "fast": Principal("t", "a", models=("fast",)),
    "own": Principal("t", "b", models=("openai/small-*",)),
    "demo": Principal("t", "c", models=("demo*",)),
    "none": Principal("t", "d", models=()),
    "all": Principal("t", "e"),
}
MESSAGES = [{"role": "user", "content": "hello"}]
FORWARDED = [f"/v1/{call.path}" for call in forwarded.CALLS if not call.form]
PATHS = [
    *(client_format.path for client_format in CLIENT_FORMATS.values()),
    *("/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/responses/compact"),
    "/v1/embeddings",
    *FORWARDED,
]
NAMED = {"/v1/messages", "/v1/messages/count_tokens", "/v1/responses/compact", *FORWARDED}
"""Where a request has to name a model."""


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with serve_upstream() as upstream:
        upstream.script = HI
        yield upstream


@pytest.fixture
async def relay(upstream, tmp_path) -> AsyncIterator[Relay]:
    config = tmp_path / "seseragi.toml"
    config.write_text('[[route]]\nname = "fast"\ntargets = ["openai/big"]\n')
    environ = {"SESERAGI_CONFIG": str(config)}
    async with serve_relay(
        upstream, environ=environ, default_model="openai/big", authenticator=known(**WHO)
    ) as relay:
        yield relay


def body_of(path: str, model: str | None) -> dict[str, Any]:
    named = {"model": model} if model else {}
    body = {name: value for name, value in hello(path, streams=False).items() if name != "model"}
    return body | ({"forwardedProps": named} if path == "/v1/ag-ui" else named)


REFUSED = [
    *(("fast", "openai/big"), ("fast", "big"), ("fast", "FAST"), ("fast", "openai/fast")),
    *(("fast", None), ("own", "fast"), ("own", "openai/big"), ("own", "big"), ("own", None)),
    *(("own", "OpenAI/small-1"), ("own", "x/openai/small-1"), ("own", "openai/openai/small-1")),
    # No upstream of that name takes it, so it would go to the only one that takes any.
    *(("demo", "demo/big"), ("demo", "demo-none"), ("demo", "openai/demo"), ("none", "demo")),
]


@pytest.mark.parametrize("path", PATHS)
async def test_other_models_are_refused_before_an_upstream_is_asked(relay, upstream, path: str):
    for who, model in REFUSED:
        if model is None and path in NAMED:
            model = "openai/big"  # such requests have to name one
        answer = await relay.client.post(path, json=body_of(path, model), headers=bearer(who))

        assert 403 == answer.status_code, (who, model, answer.text)
        assert "GET /v1/models lists those" in answer.text
        assert not upstream.calls, (who, model)


@pytest.mark.parametrize(
    ("who", "model", "asked"),
    [
        *(("fast", "fast", "big"), ("own", "openai/small-1", "small-1")),
        # A bare name is one more name of the same place.
        *(("own", "small-1", "small-1"), ("all", "big", "big"), ("all", None, "big")),
    ],
)
async def test_models_that_may_be_used_are(relay, upstream, who: str, model, asked: str):
    body = body_of("/v1/chat/completions", model)
    answer = await relay.client.post("/v1/chat/completions", json=body, headers=bearer(who))

    assert 200 == answer.status_code, answer.text
    assert [asked] == [call.json["model"] for call in upstream.calls]


async def test_demo_may_be_all_that_is_allowed(relay, upstream):
    body = body_of("/v1/chat", "demo")
    answer = await relay.client.post("/v1/chat", json=body, headers=bearer("demo"))

    assert (200, []) == (answer.status_code, upstream.calls)


async def test_list_has_those_that_may_be_used(relay):
    async def names(who: str, **headers: str) -> list[str]:
        answer = await relay.client.get("/v1/models", headers=bearer(who) | headers)
        return [model["id"] for model in answer.json()["data"]]

    everything = await names("all")
    assert {"fast", "demo", "openai/big"} < set(everything)
    assert ["fast"] == await names("fast") == await names("fast", **{"anthropic-version": "1"})
    assert [] == await names("none")
    assert set(await names("demo")) == {name for name in everything if name.startswith("demo")}
    for who, name, status in (
        *(("fast", "fast", 200), ("fast", "openai/big", 404), ("fast", "nothing", 404)),
        ("all", "openai/big", 200),
    ):
        for more in ({}, {"anthropic-version": "2023-06-01"}):
            one = await relay.client.get(f"/v1/models/{name}", headers=bearer(who) | more)
            assert status == one.status_code
            if status == 404:
                assert f"unknown model {name!r}; GET /v1/models lists them" in one.text


@pytest.mark.parametrize(
    "name", ["small-/../big", "small-/..", "small-x/a/../../big", "small-\\..\\big"]
)
async def test_name_that_leads_up_is_within_no_glob(relay, upstream, name: str):
    """Where it stands in a path, a gateway that decodes that would ask for another model."""
    body = {"messages": MESSAGES, "model": f"openai/{name}"}
    reply = await relay.client.post("/v1/chat", json=body, headers=bearer("own"))

    assert 403 == reply.status_code
    assert not upstream.calls
    assert (
        200 == (await relay.client.post("/v1/chat", json=body, headers=bearer("all"))).status_code
    )


@pytest.mark.parametrize(
    ("models", "name", "may"),
    [
        (("u/*",), "u/a..b/...", True),
        (("u/a/../b",), "u/a/../b", True),
        (("u/*",), "u/a/../b", False),
        (("*",), "u/a/../b", False),
        (("[u]",), "[u]", False),
        (("[u]",), "u", True),
    ],
)
def test_globs_of_names(models: tuple[str, ...], name: str, may: bool):
    assert may == Principal(models=models).may_use(name)
    # Nor has a client secret it for that, whose models are looked for within those.
    if "[" not in name:
        assert may == covers(models, name)


async def test_targets_are_told_of_to_those_that_may_use_all(relay):
    for who, status in (("all", 200), ("fast", 403), ("none", 403)):
        answer = await relay.client.get("/readyz?verbose", headers=bearer(who))
        assert status == answer.status_code
        assert (status == 200) == ("openai/big" in answer.text)


async def test_unknown_name_does_not_tell_of_other_models(tmp_path):
    config = tmp_path / "seseragi.toml"
    config.write_text('passthrough = false\n[[route]]\nname = "s3cret"\ntargets = ["demo/demo"]\n')
    environ = {"SESERAGI_CONFIG": str(config)}
    async with serve_relay(environ=environ, authenticator=known(**WHO)) as relay:
        told = {}
        for who in ("all", "fast"):
            body = body_of("/v1/chat", "nothing")
            answer = await relay.client.post("/v1/chat", json=body, headers=bearer(who))
            assert (404, "model_not_found") == (answer.status_code, answer.json()["code"])
            told[who] = answer.json()["detail"]

    assert "s3cret" in told["all"]
    assert "s3cret" not in told["fast"]


async def test_key_that_was_used_leads_to_its_stream_and_to_no_other_model(relay, upstream):
    headers = bearer("fast") | {"idempotency-key": "one"}
    first = await relay.client.post("/v1/chat", json=body_of("/v1/chat", "fast"), headers=headers)
    other = await relay.client.post("/v1/chat", json=body_of("/v1/chat", None), headers=headers)

    assert (200, 422) == (first.status_code, other.status_code)
    assert 1 == len(upstream.calls)


def test_options_are_the_safe_ones_where_somebody_has_to_be_known():
    """Else a client names another model, account or bill than its key is for."""
    for environ, options in (
        ({}, None),
        ({"SESERAGI_KEYS_FILE": "/nowhere"}, ("safe",)),
        ({"SESERAGI_AUTH": "none"}, None),
    ):
        (upstream,) = load_settings({"OPENAI_API_KEY": "x", **environ}).upstreams
        assert options == upstream.options
