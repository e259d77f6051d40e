"""The name of the output limit at hosts of Chat Completions without a preset."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.requests import OutputCeiling
from app.settings.load import load_settings
from app.upstreams.endpoints import Upstream
from app.upstreams.request_builder import RequestBuilder

pytestmark = pytest.mark.pure

Q = {"role": "user", "content": "Hi"}


@pytest.fixture
def upstreams(tmp_path) -> dict[str, Upstream]:
    config = tmp_path / "seseragi.toml"
    config.write_text('[upstream.u]\nbase_url = "http://127.0.0.1:9/v1"\nauth = "none"\n')
    environ = {"SESERAGI_CONFIG": str(config), "DEEPSEEK_API_KEY": "x", "OPENAI_API_KEY": "x"}
    return {one.name: one for one in load_settings(environ).upstreams}


def limits(
    upstream: Upstream, client: str, body: dict[str, Any], ceiling: OutputCeiling | None = None
) -> dict[str, Any]:
    data = json.dumps({"model": f"{upstream.name}/m", **body}).encode()
    chat = CLIENT_FORMATS[client].parse_request(data).chat
    chat = msgspec.structs.replace(chat, ceiling=ceiling)
    sent = RequestBuilder(upstream, "m").build(chat, last=True).body
    return {name: value for name, value in sent.items() if name.startswith("max_")}


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("client", ["openai_chat", "native"])
def test_a_client_keeps_its_own_name(upstreams, client: str, name: str) -> None:
    body = {"messages": [Q], name: 50}

    assert limits(upstreams["u"], client, body) == {name: 50}
    assert limits(upstreams["u"], client, body, OutputCeiling(40)) == {name: 40}
    assert limits(upstreams["deepseek"], client, body) == {"max_tokens": 50}
    assert limits(upstreams["openai"], client, body) == {"max_completion_tokens": 50}


@pytest.mark.parametrize(
    ("client", "body"),
    [
        ("openai_responses", {"input": "Hi", "max_output_tokens": 50}),
        ("anthropic", {"messages": [Q], "max_tokens": 50}),
    ],
)
def test_clients_of_other_formats_have_the_older_name(upstreams, client: str, body: Any) -> None:
    assert limits(upstreams["u"], client, body) == {"max_tokens": 50}


def test_the_relays_own_limit_has_the_older_name(upstreams) -> None:
    ceiling = OutputCeiling(40, explicit=False)

    assert limits(upstreams["u"], "native", {"messages": [Q]}, ceiling) == {"max_tokens": 40}
