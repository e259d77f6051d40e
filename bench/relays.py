"""The relays that are compared, as rows of data, and how one is run on a core.

In a row's texts `{port}` is where it shall listen, `{upstream}` the base URL of the upstream
with `/v1`, `{upstream_port}` its port, `{scheme}` its scheme, `{folder}` a fresh folder that is
its working directory, `{beside}` the port of the server that it needs.
"""

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.load import KEY, Target, Unavailable

ROOT = Path(__file__).parent.parent
START_S = 120
NGINX = """
worker_processes 1;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events { worker_connections 20000; }
worker_rlimit_nofile 40000;
http {
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream provider { server 127.0.0.1:{upstream_port} max_fails=0; keepalive 1024; }
  server {
    listen 127.0.0.1:{port} backlog=4096{listen_options};
    keepalive_requests 1000000;
    location / {
      proxy_pass {scheme}://provider;{trust}
      proxy_http_version 1.1;
      proxy_set_header connection "";
      proxy_buffering off;
    }
  }
}
"""
TLS_VERSIONS = "TLSv1.2 TLSv1.3"  # which is not nginx's default before 1.23.4
TRUST = """
      proxy_ssl_trusted_certificate {authority};
      proxy_ssl_verify on;
      proxy_ssl_name localhost;
      proxy_ssl_protocols {versions};""".replace("{versions}", TLS_VERSIONS)
LITELLM = """
model_list:
  - model_name: bench
    litellm_params: {model: openai/bench, api_base: "{upstream}", api_key: sk-bench}
litellm_settings: {telemetry: false}
"""
LITELLM_ENVIRON = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches one
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}
PORTKEY = ("x-portkey-provider: openai", "x-portkey-custom-host: {upstream}")

# With 1.14.2 and later it answers 500 to all streams: Portkey-AI/gateway issue 1389.
PORTKEY_INSTALL = "npm install @portkey-ai/gateway, with @hono/node-server overridden to 1.13.8"


@dataclass(frozen=True)
class Relay:
    name: str
    command: tuple[str, ...] = ()
    """Empty for no relay at all: the clients speak to the upstream."""
    path: str = "/v1/chat/completions"
    model: str = "bench"
    headers: tuple[str, ...] = ()
    key: str = KEY
    files: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    version: tuple[str, ...] = ()
    """A command that prints it."""
    imported: tuple[str, ...] = ()
    """A command that imports it and prints the number of modules and the CPU seconds."""
    is_variant: bool = False
    beside: "Relay | None" = None
    """A server that it needs: `{beside}` is its port."""

    @property
    def over_tls(self) -> bool:
        """Whether it is measured over TLS too: what a variant adds is the same there."""
        return bool(self.command) and not self.is_variant

    @property
    def ours(self) -> bool:
        return self.name.startswith("seseragi")


DIRECT = Relay("none")

GOVERNED_KEY = "ssk_bench"
LIMITS = """requests_per_minute = 100000000
tokens_per_minute = 10000000000
streams = 100000
usd_per_month = 1000000
"""
GOVERNED = f"""
access_log = true
records = "sqlite:///{{folder}}/records.db"
[[key]]
name = "bench"
user = "ann"
tenant = "acme"
sha256 = "{hashlib.sha256(GOVERNED_KEY.encode()).hexdigest()}"
[[price]]
target = "*/*"
input = 1
output = 2
[limits]
{LIMITS}[limits.tenant]
{LIMITS}[limits.key]
{LIMITS}[limits.user]
{LIMITS}"""
OWN_ENVIRON = {
    "OPENAI_API_KEY": KEY,
    "SESERAGI_AUTH": "none",  # as the peers, which ask for no key either
    "OPENAI_BASE_URL": "{upstream}",
    "SESERAGI_LOG_FORMAT": "json",
    "SESERAGI_MAX_STREAMS": "20000",  # a peer on the same machine has half of them
    "PYTHONPATH": str(ROOT),
}


IMPORT = "import sys, time, app.main; print(len(sys.modules), time.process_time())"


def own(name: str = "seseragi", *, path: str = "/v1/chat/completions", **settings: str) -> Relay:
    """Return our relay, as it comes but for the number of streams and the given settings."""
    environ = OWN_ENVIRON | {f"SESERAGI_{key.upper()}": value for key, value in settings.items()}
    return Relay(
        name,
        (sys.executable, "-m", "app", "--port", "{port}"),
        path=path,
        model="openai/bench",
        environ=environ,
        version=(sys.executable, "-c", "import app; print(app.__version__)"),
        imported=(sys.executable, "-c", IMPORT),
    )


VARIANTS: Mapping[str, Mapping[str, str]] = {
    "bare": dict.fromkeys(("metrics", "admin", "demo", "responses_websocket"), "false"),
    "governed": {
        "max_streams_per_address": "20000",
        "max_starts_per_minute_per_address": "100000000",
    },
    "sqlite": {"log": "sqlite:///{folder}/log.db"},
    "redis": {"log": "redis://127.0.0.1:{beside}/0"},
}
"""Our relay with as little as possible on, with everything, and with other logs: its settings."""


def _variant(name: str) -> Relay:
    relay = replace(own(f"seseragi, {name}", **VARIANTS[name]), is_variant=True)
    if name == "redis":
        return replace(relay, beside=redis_server())
    if name == "governed":
        environ = {key: value for key, value in relay.environ.items() if "AUTH" not in key}
        files = {"seseragi.toml": GOVERNED}
        return replace(relay, files=files, environ=environ, key=GOVERNED_KEY)
    return relay


def redis_server() -> Relay:
    """Return a Redis that writes its file, as `compose.yaml` has it do."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        raise Unavailable("no redis-server on the path: apt-get install redis-server")
    words = (program, "--port", "{port}", "--bind", "127.0.0.1", "--dir", "{folder}")
    return Relay(
        "redis-server", (*words, "--save", "", "--appendonly", "yes", "--appendfsync", "everysec")
    )


def nginx(*, certificate: Path | None = None) -> Relay | None:
    """Return nginx that copies bytes, if it is installed; with a certificate it serves TLS."""
    program = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if program is None:
        return None
    # As root it would drop its rights, and not get at a folder that is root's.
    main = "daemon off; user root;" if os.geteuid() == 0 else "daemon off;"
    command = (program, "-p", "{folder}", "-c", "{folder}/nginx.conf", "-g", main)
    # Of a flood it reads two tokens at once, not a buffer full, and puts them into a record.
    listen = f" ssl; ssl_certificate {certificate}; ssl_certificate_key {certificate};"
    listen += f" ssl_protocols {TLS_VERSIONS}; proxy_buffer_size 512"
    text = NGINX.replace("{listen_options}", "" if certificate is None else listen)
    return Relay("nginx", command, files={"nginx.conf": text}, version=(program, "-v"))


def peer(text: str) -> Relay:
    """Read `litellm`, `portkey`, one of `VARIANTS` or `NAME=COMMAND` of the command line."""
    name, given, command = text.partition("=")
    if given:
        return Relay(name, tuple(command.split()))
    if name == "litellm":
        return _litellm(_program("litellm", "pip install 'litellm[proxy]'"))
    if name == "portkey":
        return _portkey(_program("gateway", PORTKEY_INSTALL))
    if name in VARIANTS:
        return _variant(name)
    known = ", ".join(("litellm", "portkey", *VARIANTS))
    raise Unavailable(f"unknown peer {name!r}; known: {known}, or NAME=COMMAND")


def _litellm(program: str) -> Relay:
    arguments = ("--config", "{folder}/config.yaml", "--host", "127.0.0.1", "--port", "{port}")
    return Relay(
        "litellm",
        (program, *arguments, "--telemetry", "False"),
        files={"config.yaml": LITELLM},
        environ=LITELLM_ENVIRON,
        version=(program, "--version"),
    )


def _portkey(program: str) -> Relay:
    package = Path(program).resolve().parent.parent / "package.json"
    version = (sys.executable, "-c", f"import json; print(json.load(open('{package}'))['version'])")
    command = (program, "--port={port}", "--headless")
    return Relay("portkey", command, headers=PORTKEY, version=version)


def _program(name: str, how: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"no {name!r} on the path: {how}, and add its folder to PATH")
    return found


def version_of(relay: Relay) -> str:
    """Ask a relay for its version; empty if it does not say."""
    if not relay.version:
        return ""
    # In the root, where `app` is found.
    done = subprocess.run(relay.version, capture_output=True, text=True, cwd=ROOT, check=False)
    found = re.search(r"\d+(\.\d+)+\S*", done.stdout + done.stderr)
    return found[0] if found else ""


_ports = itertools.count(18000 + os.getpid() % 1000 * 10)


def free_port() -> int:
    """Find a port below those that the system gives out by itself, another at each call."""
    for port in itertools.takewhile(lambda port: port < 32000, _ports):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise Unavailable("no free port between 18000 and 32000")


@contextlib.contextmanager
def started(
    relay: Relay, upstream_port: int, core: int, *, authority: Path | None = None
) -> Iterator[Target]:
    """Run a relay on one core until it listens; stop it and its children in the end.

    With the certificate of an `authority`, the upstream is called over TLS.
    """
    if not relay.command:
        yield Target(upstream_port, None, path=relay.path, model=relay.model)
        return
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        folder, port = Path(name), free_port()
        beside = None
        if relay.beside is not None:  # on the core of the load
            load_core = min(os.sched_getaffinity(0))
            beside = stack.enter_context(started(relay.beside, upstream_port, load_core))
        scheme = "http" if authority is None else "https"
        words = {
            "{port}": str(port),
            "{upstream}": f"{scheme}://127.0.0.1:{upstream_port}/v1",
            "{upstream_port}": str(upstream_port),
            "{scheme}": scheme,
            "{trust}": "" if authority is None else TRUST.replace("{authority}", str(authority)),
            "{folder}": name,
            "{beside}": "" if beside is None else str(beside.port),
        }
        if authority is not None:
            relay = replace(relay, environ={**relay.environ, "SSL_CERT_FILE": str(authority)})
        for file, text in relay.files.items():
            (folder / file).write_text(_filled(text, words))
        process = _start(relay, folder, words, core)
        try:
            _wait(process, port, folder / "log", relay.name)
            headers = tuple(_filled(header, words) for header in relay.headers)
            yield Target(
                port, process.pid, relay.path, model=relay.model, headers=headers, key=relay.key
            )
        finally:
            _stop(process)


def _start(
    relay: Relay, folder: Path, words: Mapping[str, str], core: int
) -> subprocess.Popen[bytes]:
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [_filled(word, words) for word in relay.command],
            cwd=folder,
            env=environ_of(relay, words),
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )


def environ_of(relay: Relay, words: Mapping[str, str]) -> dict[str, str]:
    """Return our environment without the settings in it, and with those of the relay."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith(("_proxy", "_api_key", "_base_url"))
        and not name.startswith("SESERAGI_")
    }
    return ours | {name: _filled(value, words) for name, value in relay.environ.items()}


def _filled(text: str, words: Mapping[str, str]) -> str:
    for name, value in words.items():
        text = text.replace(name, value)
    return text


def _wait(process: subprocess.Popen[bytes], port: int, log: Path, name: str) -> None:
    limit = time.monotonic() + START_S
    while time.monotonic() < limit and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    last = log.read_text(errors="replace").strip()[-600:]
    raise Unavailable(f"{name} does not listen on port {port}: {last}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
            return
