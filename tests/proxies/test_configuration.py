"""What `compose.yaml` and `nginx.conf` say fits what the relay does."""

import re

from app.settings.identity import IDENTITY
from app.settings.values import SCALARS, Settings
from tests.proxies.programs import CONFIGURATION, ROOT

COMPOSE = (ROOT / "compose.yaml").read_text()
SETTINGS = Settings()


def number(pattern: str, text: str = CONFIGURATION) -> float:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return float(found[1])


def test_compose_runs_the_nginx_configuration_that_is_tested():
    assert "- ./deploy/nginx:/etc/nginx/relays:ro" in COMPOSE
    assert "command: [nginx, -c, /etc/nginx/relays/nginx.conf," in COMPOSE


def test_compose_sets_settings_that_there_are():
    named = set(re.findall(r"(SESERAGI_\w+):", COMPOSE))

    assert {*IDENTITY.values(), *(f"SESERAGI_{name.upper()}" for name in SCALARS)} >= named


def test_compose_leaves_a_relay_its_time_to_drain():
    drain_s = number(r'SESERAGI_DRAIN_S: "(\d+)"', COMPOSE)

    assert number(r"stop_grace_period: (\d+)s", COMPOSE) > drain_s + 5


def test_silence_that_heartbeats_break_cuts_no_stream():
    assert number(r"proxy_read_timeout (\d\d)s;") > SETTINGS.heartbeat_s > SETTINGS.status_wait_s


def test_long_answer_is_not_cut():
    assert number(r"proxy_read_timeout (\d{4})s;") > SETTINGS.total_timeout_s


def test_relay_itself_refuses_what_is_too_large():
    assert number(r"client_max_body_size (\d+)m;") * 2**20 > SETTINGS.max_request_bytes


def test_nginx_lets_go_of_an_idle_connection_before_the_relay_does():
    assert number(r"keepalive_timeout (\d+)s;") < SETTINGS.keepalive_s


def test_every_image_can_be_given_by_its_digest():
    docker = (ROOT / "Dockerfile").read_text()
    arguments = set(re.findall(r"^ARG (\w+_IMAGE)=\S+$", docker, re.MULTILINE))
    variables = re.findall(r"\${(\w+_IMAGE):-[\w.:-]+}$", COMPOSE, re.MULTILINE)

    for name in re.findall(r"^FROM (\S+)", docker, re.MULTILINE):
        assert name.strip("${}") in arguments, name
    images = re.findall(r"^ +(?:image|PYTHON_IMAGE): (.+)$", COMPOSE, re.MULTILINE)
    assert len(variables) == len(images) == 4
    documented = (ROOT / "docs/operations.md").read_text()
    assert all(f"`{name}`" in documented for name in variables)
