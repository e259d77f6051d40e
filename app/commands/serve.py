"""The start of the `seseragi` command: settings, sockets, log, then serving."""

import contextlib
import socket
from collections.abc import Callable
from functools import partial

import msgspec
import structlog

from .. import __version__
from ..addresses import write_url
from ..composition import build_upstreams, open_cassettes
from ..reload import Configuration, warn_of_settings
from ..server.server import allow_files, bind
from ..server.serving import MAX_CONNECTIONS, Sockets, run_workers, serve
from ..settings import Settings, SettingsError
from ..settings.access import Start, settle_identity, settle_signing_key
from ..settings.convert import fail
from ..telemetry.logs import configure_logs
from ..upstreams.routes import Upstreams

FILES_A_STREAM = 2
"""The connections of its client and of its upstream."""
OTHER_FILES = 100


def start_relay(load: Callable[[], Settings], *, until: int | None) -> None:
    """Serve with the settings of `load`, until a signal or the end of the file `until`."""
    try:
        loaded = load()
        start = settle_identity(loaded)
        settings = start.settings
        upstreams = build_upstreams(settings, open_cassettes(settings))
    except SettingsError as error:
        fail(str(error))
    listener = _listen(settings.host, settings.port, "--port")
    operator_port = settings.operator_port
    operator = (
        None if operator_port is None else _listen(settings.host, operator_port, "operator_port")
    )
    lines = configure_logs(format=settings.log_format, level=settings.log_level)
    try:
        settings = settle_signing_key(settings)
    except SettingsError as error:
        fail(str(error))
    settings = _fit_files(settings)
    warn_of_settings(settings)
    configuration = Configuration(load, loaded=loaded, start=start, settings=settings)
    announce = partial(_announce, upstreams, listener, operator, start)
    with listener, operator or contextlib.nullcontext():
        serving = (configuration, Sockets(listener, operator), lines)
        if settings.workers == 1:
            serve(*serving, on_listening=announce, until=until)
        else:
            on_listening = partial(announce, workers=settings.workers)
            code = run_workers(
                *serving, upstreams=upstreams, on_listening=on_listening, until=until
            )
            raise SystemExit(code)


def _listen(host: str, port: int, setting: str) -> socket.socket:
    try:
        return bind(host, port)
    except (socket.gaierror, UnicodeError):
        fail(f"--host: {host!r} is not an address of this machine; choose another")
    except PermissionError:
        fail(f"{setting}: port {port} requires more rights; choose one above 1023")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        fail(
            f"cannot listen on {host} port {port}: {reason}; "
            f"choose another with {setting} or --host"
        )


def _fit_files(settings: Settings) -> Settings:
    """Raise the limit of open files, and derive `max_connections` from it."""
    allowed = allow_files()
    if allowed is None:
        return settings
    others = settings.max_streams + OTHER_FILES
    needed = FILES_A_STREAM * settings.max_streams + OTHER_FILES
    if settings.max_connections is not None:
        needed = max(needed, settings.max_connections + others)
    if allowed < needed:
        structlog.get_logger("seseragi").warning(
            "the limit of open files is too low for max_streams and max_connections; raise nofile",
            allowed=allowed,
            needed=needed,
        )
    most = settings.max_connections or min(MAX_CONNECTIONS, max(allowed - others, allowed // 2))
    return msgspec.structs.replace(settings, max_connections=most)


def _url(listener: socket.socket) -> str:
    return write_url(*listener.getsockname()[:2])


def _announce(
    upstreams: Upstreams,
    listener: socket.socket,
    operator: socket.socket | None,
    start: Start,
    **more: object,
) -> None:
    """Announce the URLs: a few lines for a person, else a log line."""
    default = upstreams.default_model
    names = [upstream.name for upstream in upstreams.all]
    operator_url = "" if operator is None else _url(operator)
    if operator is not None:
        more["operator_url"] = operator_url
    if not start.for_people:
        structlog.get_logger("seseragi").info(
            "listening",
            url=_url(listener),
            upstreams=names,
            default_model=default,
            auth=start.access,
            version=__version__,
            **more,
        )
    models = f"{', '.join([*upstreams.routes, *names])}; default: {default or 'none'}"
    start.announce(listener.getsockname()[1], models, operator_url)
