"""URLs of Redis: what they lead to, and what is said when they lead nowhere."""

import asyncio
import contextlib
import subprocess
from pathlib import Path

import pytest
import structlog
import trustme

from app.composition import build_log
from app.eventlog import LogUnusable, read_all
from app.eventlog.redis import link
from app.eventlog.redis.address import RedisAddress
from app.eventlog.redis.log import RedisLog
from app.settings import SettingsError, load_settings
from tests.eventlog.contract import END, START, filled
from tests.eventlog.redis_logs import opened
from tests.needs import program
from tests.ports import free_port
from tests.redis_server import redis_server, wire_to
from tests.waiting import until

pytestmark = pytest.mark.proving

SECRET = "hunter2-hunter2"  # noqa: S105


async def test_database_of_the_url_is_used(server):
    async with opened(f"redis://127.0.0.1:{server.port}/3") as event_log:
        await filled(event_log, [START])

        assert b"db3:keys=5" in server.ask("INFO", "keyspace")


async def test_passwords_and_users_are_taken(tmp_path):
    """Which rights such a user needs: tests/replicas/test_rights.py."""
    user = ("--user", "seseragi", "on", f">{SECRET}", "~*", "&*", "+@all")
    with redis_server(tmp_path, "--requirepass", SECRET, *user) as own:
        for number, who in enumerate((f":{SECRET}", f"seseragi:{SECRET}")):
            async with opened(f"redis://{who}@127.0.0.1:{own.port}/{number}") as event_log:
                await filled(event_log, [START, END])
                assert [START, END] == await read_all(event_log, "st_1")
        for who, told in (
            ("", "requires a password"),
            (":wrong-one@", "refuses the user name or password"),
            ("seseragi:wrong-one@", "refuses the user name or password"),
        ):
            event_log = log_at(f"redis://{who}127.0.0.1:{own.port}/0")
            with pytest.raises(LogUnusable, match=told) as caught:
                await event_log.open()
            assert "wrong-one" not in str(caught.value)


async def test_nothing_that_is_said_has_the_password(tmp_path, impatient):
    with (
        redis_server(tmp_path, "--requirepass", SECRET) as own,
        structlog.testing.capture_logs() as said,
    ):
        async with wire_to(own.port) as wire:
            url = f"redis://:{SECRET}@127.0.0.1:{wire.port}/0"
            async with opened(url) as event_log:
                await filled(event_log, [START])
                impatient()
                wire.cut()
                await event_log.append("st_1", [END])
            with pytest.raises(LogUnusable) as caught:
                await log_at(url).open()

    assert SECRET not in f"{said}{caught.value}"
    assert said


async def test_tls_is_spoken_and_certificates_are_checked(tmp_path):
    ca, port = trustme.CA(), free_port()
    certificate = ca.issue_cert("127.0.0.1")
    files = {name: str(tmp_path / name) for name in ("ca", "chain", "key")}
    ca.cert_pem.write_to_path(files["ca"])
    certificate.private_key_pem.write_to_path(files["key"])
    Path(files["chain"]).write_bytes(b"".join(p.bytes() for p in certificate.cert_chain_pems))
    tls = ("--tls-port", str(port), "--tls-auth-clients", "no", "--tls-ca-cert-file", files["ca"])
    pair = ("--tls-cert-file", files["chain"], "--tls-key-file", files["key"])
    with redis_server(tmp_path, *tls, *pair):
        url = f"rediss://127.0.0.1:{port}/0"
        event_log = log_at(f"{url}?ssl_ca_certs={files['ca']}")
        await event_log.open()
        await filled(event_log, [START, END])
        assert [START, END] == await read_all(event_log, "st_1")
        await event_log.close()
        with pytest.raises(LogUnusable, match="certificate"):
            await log_at(url).open()


@contextlib.contextmanager
def sentinel(folder: Path, master: int):
    """A redis-sentinel that watches one master, called "relay"."""
    port = free_port()
    config = folder / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor relay 127.0.0.1 {master} 1\nsentinel down-after-milliseconds relay 1000\n"
        "sentinel failover-timeout relay 1000\n"
    )
    process = subprocess.Popen(
        [program("redis-server", "valkey-server"), str(config), "--sentinel"],
        stdout=subprocess.DEVNULL,
    )
    try:
        yield f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{port}/relay"
    finally:
        process.kill()
        process.wait()


async def test_sentinels_lead_to_the_master_and_to_the_next_one(tmp_path):
    (tmp_path / "replica").mkdir()
    with (
        redis_server(tmp_path) as master,
        redis_server(tmp_path / "replica", "--replicaof", f"127.0.0.1 {master.port}") as replica,
        sentinel(tmp_path, master.port) as url,
    ):
        await until(lambda: b"state=online" in master.ask("INFO", "replication"))
        event_log = log_at(url)

        async def is_open() -> bool:
            """The Sentinel may need a moment to see its master."""
            with contextlib.suppress(LogUnusable):
                await event_log.open()
                return True
            return False

        await until(is_open)
        await filled(event_log, [START])
        master.kill()
        await until(lambda: b"role:master" in replica.ask("INFO", "replication"), limit_s=60)
        await until(event_log.healthy)
        await event_log.append("st_1", [END])
        end = ("XRANGE", "seseragi:{st_1}:log", "2", "2")
        await until(lambda: b"stream.end" in replica.ask(*end))
        assert [START, END] == await read_all(event_log, "st_1")
        await event_log.close()


def log_at(url: str) -> RedisLog:
    return RedisLog(RedisAddress(url), retention_s=100, max_bytes=10**6)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://", "'redis://' cannot be used: use 'memory'"),
        ("redis:///0", "it names no host"),
        ("redis://host:99999/0", "it is not a URL"),
        (f"redis://:{SECRET}@host:0/0", "it names no host"),
        (f"redis://:{SECRET}@host/zero", "only the number of a database"),
        ("redis://host/0?socket_timeout=1", "the option 'socket_timeout' cannot be set"),
        ("redis://host/0?speed=1", "unknown option 'speed'"),
        ("redis://host/0?lease_s=soon", "lease_s must be a number of seconds"),
        ("redis://host/0?lease_s=0", "lease_s must be between"),
        ("redis+sentinel://host", "it must be HOST:PORT,HOST:PORT/NAME"),
        (f"redis+sentinel://:{SECRET}@a:1:2/name", "a Sentinel must be HOST or HOST:PORT"),
        ("rediss+sentinel://a,b/name/one", "it must be HOST:PORT,HOST:PORT/NAME"),
    ],
)
async def test_bad_url_is_told_in_one_line(url, told):
    with pytest.raises(SettingsError) as caught:
        build_log(load_settings({"SESERAGI_LOG": url}))

    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


async def test_redis_that_cannot_be_used_is_told_in_one_line(tmp_path):
    port = free_port()
    poor = ("--user", "poor", "on", f">{SECRET}", "~*", "+info")
    with redis_server(tmp_path, "--replicaof", f"127.0.0.1 {port}", *poor) as replica:
        for url, told in (
            (f"redis://127.0.0.1:{port}/0", f"127.0.0.1:{port}"),
            (replica.url, "read-only replica"),
            (f"redis://poor:{SECRET}@127.0.0.1:{replica.port}/0", "lacks rights"),
            (f"redis://127.0.0.1:{replica.port}/99", "no database of this number"),
            (f"redis+sentinel://127.0.0.1:{port}/relay", "the Sentinels know no such master"),
        ):
            with pytest.raises(LogUnusable, match=told) as caught:
                await log_at(url).open()
            assert "\n" not in str(caught.value)


async def test_redis_that_does_not_answer_yet_is_waited_for_at_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr(link, "CONNECT_S", 0.2)
    with redis_server(tmp_path) as own:
        async with wire_to(own.port) as wire:
            wire.hang()
            event_log = log_at(wire.url)
            opening = asyncio.create_task(event_log.open())
            await until(lambda: wire.connections > 2)
            wire.mend()
            await opening
            await filled(event_log, [START, END])
            await event_log.close()

            monkeypatch.setattr(link, "OPEN_S", 0.5)
            wire.hang()
            with pytest.raises(LogUnusable, match="Redis does not answer"):
                await log_at(wire.url).open()


async def test_redis_that_stands_still_while_it_is_examined_is_waited_for_too(
    tmp_path, monkeypatch, impatient
):
    impatient()
    monkeypatch.setattr(link, "REPLY_S", 0.2)
    examined = b"*1\r\n$4\r\nINFO\r\n"
    with redis_server(tmp_path) as own:
        async with wire_to(own.port) as wire:
            wire.mute(at=examined)
            event_log = log_at(wire.url)
            with structlog.testing.capture_logs() as lines:
                opening = asyncio.create_task(event_log.open())
                await until(lambda: "Redis is away" in [line["event"] for line in lines])
            wire.mend()
            await opening
            await filled(event_log, [START, END])
            await event_log.close()

            monkeypatch.setattr("app.eventlog.redis.log.OPEN_S", 0.8)
            wire.mute(at=examined)
            with pytest.raises(LogUnusable, match="Redis does not answer"):
                await log_at(wire.url).open()
