"""nginx with faults, one at a time: each is named, and nothing else."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.commands.doctor.exams import Case, Setup, examine_all, judge
from tests.proxies.programs import Proxy, nginx_with
from tests.proxies.programs import nginx as nginx_of_compose

pytestmark = [pytest.mark.proving, pytest.mark.alone]

LOCATION = """
location / {{
    {lines}
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    {size}
    proxy_pass http://{upstream};
}}
"""
ONE_ONE = 'proxy_http_version 1.1; proxy_set_header Connection "";'
SIZE = "client_max_body_size 33m;"


def nginx(
    lines: str = "",
    *,
    http: str = "",
    version: str = ONE_ONE,
    size: str = SIZE,
    upstream: str = "127.0.0.1:{relay}",
) -> Setup:
    @contextlib.asynccontextmanager
    async def run(folder: Path, relay: int) -> AsyncIterator[Proxy]:
        to = upstream.format(relay=relay)
        location = LOCATION.format(lines=version + lines, size=size, upstream=to)
        async with nginx_with(folder, location, http.format(relay=relay)) as proxy:
            yield proxy

    return run


def limiting(rate: str, *, says: str = "limit_req_status 429;") -> Setup:
    zone = f"limit_req_zone $binary_remote_addr zone=a:1m rate={rate};"
    return nginx(f"limit_req zone=a burst=5 nodelay; {says}", http=zone)


BUFFERS = "proxy_ignore_headers X-Accel-Buffering; proxy_buffering on;"
CASES = {
    "as compose runs it": Case(nginx_of_compose),
    # It keeps what has not filled a buffer only of answers that end with their connection.
    "buffers": Case(nginx(BUFFERS, version=""), {"buffered", "http10_upstream"}, "held back"),
    "compresses": Case(
        nginx("gzip on; gzip_types *; gzip_min_length 0; gzip_proxied any;"),
        {"compressed"},
        "gzip",
    ),
    # White space comes every `heartbeat_s` before a JSON answer that takes longer.
    "waits for a heartbeat alone": Case(nginx("proxy_read_timeout 2s;")),
    "takes a header of requests": Case(
        nginx('proxy_set_header Last-Event-ID "";'), {"last_event_id"}, "gets all"
    ),
    "takes headers of answers": Case(
        nginx("proxy_hide_header Stream-Id; proxy_hide_header Cache-Control;"),
        {"headers"},
        "stream-id is gone",
    ),
    "speaks 1.0 to the relay": Case(nginx(version=""), {"http10_upstream"}, "HTTP/1.0"),
    "takes small bodies": Case(nginx(size=""), {"body_size"}, "413"),
    "has its own errors": Case(
        nginx(
            "proxy_intercept_errors on; error_page 404 400 503 /sorry;",
            http="",
        ),
        {"errors"},
        "HTML page",
    ),
    "has a login": Case(
        nginx('auth_basic "in"; auth_basic_user_file /dev/null;'), {"credential"}, "login of its"
    ),
    "adds a slash": Case(nginx("rewrite ^(/v1/chat)$ $1/ permanent;"), {"redirect"}, "301"),
    "limits requests": Case(
        limiting("5r/s"),
        {"rate_limit"},
        "429",
        options={"idle_s": 0},
    ),
    # What has to be asked for again comes late, and nobody has held it back.
    "limits requests to few": Case(
        limiting("1r/s"),
        {"rate_limit"},
        "429",
        options={"idle_s": 0},
    ),
    # By default it says what it says of too many connections: 503.
    "limits requests in its own words": Case(
        limiting("2r/s", says=""),
        {"rate_limit"},
        "503",
        options={"idle_s": 0},
    ),
}


async def test_each_fault_is_named_and_nothing_else(tmp_path):
    seen = await examine_all(CASES, tmp_path)

    judge(CASES, seen)
    assert {"nginx"} == set().union(*(result.likely for result in seen.values()))
