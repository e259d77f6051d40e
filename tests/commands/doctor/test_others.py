"""HAProxy, Caddy, Apache and Varnish: well as documented, and with one fault each."""

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands.doctor.exams import Case, Setup, examine_all, judge
from tests.needs import missing, program
from tests.ports import free_port
from tests.proxies import programs
from tests.proxies.programs import Proxy, running
from tests.proxies.test_others import caddy as documented_caddy
from tests.proxies.test_others import haproxy as documented_haproxy

pytestmark = [pytest.mark.proving, pytest.mark.alone]

HAPROXY = """
defaults
    mode http
    option forwardfor
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    {defaults}
frontend public
    bind 127.0.0.1:{port}
    {frontend}
    default_backend relays
backend relays
    {backend}
    server relay 127.0.0.1:{relay} {server}
"""
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
USUAL = "option http-no-delay\n    option abortonclose"


def haproxy(
    defaults: str = "",
    *,
    usual: str = USUAL,
    frontend: str = "",
    backend: str = "",
    server: str = "",
) -> Setup:
    @contextlib.asynccontextmanager
    async def run(folder: Path, relay: int) -> AsyncIterator[Proxy]:
        port = free_port()
        text = HAPROXY.format(
            port=port,
            relay=relay,
            defaults=f"{usual}\n    {defaults}",
            frontend=frontend,
            backend=backend,
            server=server,
        )
        async with programs.haproxy(folder, text, port):
            yield Proxy(f"http://127.0.0.1:{port}")

    return run


def caddy(lines: str = "", *, within: str = "") -> Setup:
    @contextlib.asynccontextmanager
    async def run(folder: Path, relay: int) -> AsyncIterator[Proxy]:
        port = free_port()
        text = (
            "{\n\tadmin off\n\tauto_https off\n}\n"
            f"http://127.0.0.1:{port} {{\n{lines}\n"
            f"\treverse_proxy 127.0.0.1:{relay} {{\n{within}\n}}\n}}\n"
        )
        async with programs.caddy(folder, text, port):
            yield Proxy(f"http://127.0.0.1:{port}")

    return run


APACHE = """
ServerRoot {folder}
ServerName localhost
PidFile {folder}/pid
ErrorLog {folder}/errors
Mutex file:{folder}
Listen 127.0.0.1:{port}
{modules}
ProxyPreserveHost On
ProxyPass / http://127.0.0.1:{relay}/ {options}
{lines}
"""
MODULES = ("mpm_event", "authz_core", "proxy", "proxy_http", "headers", "deflate", "filter", "env",
           "setenvif", "ratelimit", "substitute", "buffer")  # fmt: skip


def apache(lines: str = "", *, options: str = "flushpackets=on") -> Setup:
    @contextlib.asynccontextmanager
    async def run(folder: Path, relay: int) -> AsyncIterator[Proxy]:
        command = program("apache2", "/usr/sbin/apache2")
        port = free_port()
        modules = "\n".join(
            f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in MODULES
        )
        text = APACHE.format(
            folder=folder, port=port, relay=relay, lines=lines, modules=modules, options=options
        )
        (folder / "httpd.conf").write_text(text)
        async with running(
            [command, "-DFOREGROUND", "-f", str(folder / "httpd.conf")], folder, port
        ):
            yield Proxy(f"http://127.0.0.1:{port}")

    return run


VARNISH = """vcl 4.1;
backend default {{ .host = "127.0.0.1"; .port = "{relay}"; {backend} }}
sub vcl_recv {{ {recv} }}
sub vcl_backend_response {{ {response} }}
"""


def varnish(recv: str = "return (pass);", response: str = "", backend: str = "") -> Setup:
    @contextlib.asynccontextmanager
    async def run(folder: Path, relay: int) -> AsyncIterator[Proxy]:
        port = free_port()
        text = VARNISH.format(relay=relay, recv=recv, response=response, backend=backend)
        (folder / "default.vcl").write_text(text)
        command = [program("varnishd", "/usr/sbin/varnishd"), "-j", "none", "-F"]
        command += ["-f", str(folder / "default.vcl")]
        command += ["-a", f"127.0.0.1:{port}", "-n", str(folder / "v"), "-s", "malloc,10m"]
        async with running(command, folder, port):
            yield Proxy(f"http://127.0.0.1:{port}")

    return run


def haproxy_as_documented(
    folder: Path, relay: int
) -> contextlib.AbstractAsyncContextManager[Proxy]:
    """As docs/proxies.md has it, before one relay under two names."""
    return documented_haproxy(folder, relay, before=relay)


IMPATIENT: dict[str, Any] = {"heartbeat_s": 10}
"""A relay whose heartbeat comes after the limits below."""

CASES = {
    "haproxy as documented": Case(haproxy_as_documented),
    "haproxy collects small packets": Case(
        haproxy(usual="option abortonclose"), {"buffered"}, "held back"
    ),
    "haproxy is impatient": Case(haproxy("timeout server 1s"), {"idle_cut"}, relay=IMPATIENT),
    "caddy as documented": Case(documented_caddy),
    "caddy compresses": Case(caddy("encode gzip"), {"compressed"}, "gzip"),
    "caddy takes small bodies": Case(caddy("request_body {\nmax_size 300KB\n}"), {"body_size"}),
    "apache well": Case(apache()),
    "apache says its own name": Case(
        apache("ProxyPreserveHost Off"), {"origin"}, relay={"local_origins": "false"}
    ),
    "varnish passes": Case(varnish()),
    "varnish waits for the whole": Case(
        varnish(response="set beresp.do_stream = false;"), {"buffered"}, "content-length"
    ),
    "varnish waits too little for the first byte": Case(
        varnish(backend=".first_byte_timeout = 0.5s;"), {"json_cut"}, "503"
    ),
    "varnish caches, and has GET of POST": Case(
        varnish(
            recv="return (hash);",
            response="unset beresp.http.cache-control; set beresp.ttl = 10s; return (deliver);",
        ),
        {"cached", "methods"},
    ),
}


async def test_each_fault_is_named_and_nothing_else(tmp_path):
    programs = {"haproxy": "haproxy", "caddy": "caddy", "apache": "apache2", "varnish": "varnishd"}
    absent = tuple(name for name, file in programs.items() if shutil.which(file, path=PATH) is None)
    if absent and (os.environ.get("CI") == "true" or len(absent) == len(programs)):
        missing(f"no {absent[0]} on the path")
    cases = {name: case for name, case in CASES.items() if not name.startswith(absent or "-")}
    seen = await examine_all(cases, tmp_path)

    judge(cases, seen)
    for name, result in seen.items():
        assert {name.split()[0]} >= result.likely, name
        assert result.likely or not result.wrong, name
