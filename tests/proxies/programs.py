"""Real proxies in front of the relay: nginx as `compose.yaml` runs it, others as the document says."""

import asyncio
import contextlib
import os
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.needs import program
from tests.ports import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]
CONFIGURATION = (ROOT / "deploy/nginx/nginx.conf").read_text()
PLAIN = """
pid {folder}/nginx.pid;
events {{}}
http {{
    client_body_temp_path {folder}/client_body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    access_log off;
    {http}
    server {{
        listen 127.0.0.1:{port};
        {server}
    }}
}}
"""
"""An nginx that nobody has told of streams."""


Up = Callable[[int], Awaitable[bool]]
"""Whether a server is up at a port."""


@dataclass(frozen=True)
class Proxy:
    http: str
    https: str = ""
    authority: Path = Path()
    """The certificate to trust at `https`."""


@contextlib.asynccontextmanager
async def running(
    command: Sequence[str], folder: Path, *ports: int, is_up: Up | None = None
) -> AsyncIterator[None]:
    """Run a proxy, and go on when it is up at all ports; its log is in the folder."""
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out)  # noqa: ASYNC220
    try:
        for port in ports:

            async def is_there(port: int = port) -> bool:
                assert process.poll() is None, log.read_text()
                return await (is_up or _listens)(port)

            await until(is_there)
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return False
    writer.close()
    return True


@contextlib.asynccontextmanager
async def nginx(
    folder: Path, *relays: int, more: str = "", stream_timeout: str = "15s"
) -> AsyncIterator[Proxy]:
    """Run nginx with the configuration of `compose.yaml` in front of relays, at most two.

    `more` are further lines for `http`; `stream_timeout` is how long a stream may be silent.
    """
    http, https = free_port(), free_port()
    folder.mkdir(exist_ok=True)
    authority = certify(folder / "tls")
    text = adapt(CONFIGURATION, folder, (relays * 2)[:2], (http, https), _version())
    text = replace(text, "http {\n", f"http {{\n{more}\n")
    text = replace(text, "proxy_read_timeout 15s;", f"proxy_read_timeout {stream_timeout};")
    (folder / "nginx.conf").write_text(text)
    async with running(_nginx(folder), folder, http, https):
        yield Proxy(f"http://127.0.0.1:{http}", f"https://localhost:{https}", authority)


@contextlib.asynccontextmanager
async def nginx_with(folder: Path, server: str, http: str = "") -> AsyncIterator[Proxy]:
    """Run an nginx with these lines for its server, and for `http`, and no others."""
    port = free_port()
    folder.mkdir(exist_ok=True)
    text = PLAIN.format(folder=folder, port=port, server=server, http=http)
    (folder / "nginx.conf").write_text(text)
    async with running(_nginx(folder), folder, port):
        yield Proxy(f"http://127.0.0.1:{port}")


@contextlib.asynccontextmanager
async def plain_nginx(folder: Path, behind: int) -> AsyncIterator[Proxy]:
    """Run an nginx with next to no configuration, that compresses all it can."""
    location = f"location / {{ proxy_pass http://127.0.0.1:{behind}; }}"
    compresses = "gzip on; gzip_types *; gzip_min_length 0;"
    async with nginx_with(folder, location, compresses) as proxy:
        yield proxy


@contextlib.asynccontextmanager
async def caddy(folder: Path, text: str, port: int) -> AsyncIterator[None]:
    """Run Caddy with a Caddyfile."""
    (folder / "Caddyfile").write_text(text)
    homes = [f"XDG_DATA_HOME={folder}", f"XDG_CONFIG_HOME={folder}"]
    command = ["env", *homes, program("caddy"), "run", "--config", "Caddyfile"]
    async with running([*command, "--adapter", "caddyfile"], folder, port):
        yield


@contextlib.asynccontextmanager
async def haproxy(folder: Path, text: str, port: int) -> AsyncIterator[None]:
    """Run HAProxy with a configuration but for its `global` section."""
    (folder / "haproxy.cfg").write_text(f"global\n    maxconn 100\n{text}")
    command = [program("haproxy", "/usr/sbin/haproxy"), "-f", "haproxy.cfg"]
    async with running(command, folder, port):
        yield


def adapt(
    text: str,
    folder: Path,
    relays: Sequence[int],
    ports: tuple[int, int],
    version: tuple[int, ...],
) -> str:
    """Put other addresses and folders into the configuration, and what an older nginx needs."""
    text = text.replace("/tmp/", f"{folder}/")
    for number, port in enumerate(relays, 1):
        text = replace(text, f"relay-{number}:8000 resolve", f"127.0.0.1:{port}")
    text = replace(text, "listen 8080;", f"listen 127.0.0.1:{ports[0]};")
    text = replace(text, "listen 8443 ssl;", f"listen 127.0.0.1:{ports[1]} ssl;")
    if version < (1, 25, 1):
        text = replace(text, "        http2 on;\n", "")
        text = replace(text, " ssl;", " ssl http2;")
    return text


def replace(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def certify(folder: Path) -> Path:
    """Write a certificate for localhost and its authority's."""
    folder.mkdir(exist_ok=True)
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(str(folder / "privkey.pem"))
    for pem in certificate.cert_chain_pems:
        pem.write_to_path(str(folder / "fullchain.pem"), append=True)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    return folder / "ca.pem"


def _nginx(folder: Path) -> list[str]:
    # As root it would drop its rights, and not get at a folder that is root's.
    main = "daemon off; user root;" if os.geteuid() == 0 else "daemon off;"
    return [_program(), "-p", f"{folder}", "-c", f"{folder / 'nginx.conf'}", "-g", main]


def _program() -> str:
    return program("nginx", "/usr/sbin/nginx")


def _version() -> tuple[int, ...]:
    said = subprocess.run([_program(), "-v"], capture_output=True, text=True, check=True).stderr
    found = re.search(r"nginx/([\d.]+)", said)
    assert found is not None, said
    return tuple(map(int, found[1].split(".")))
