"""Keys as the real command takes them: the one for this run, and those of a file that changes."""

import json
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.identity.keys import LOOK_EVERY_S
from app.identity.token_crypto import TokenCrypto
from app.identity.tokens import ISSUER
from tests.commands.test_command import run_here, started
from tests.waiting import wait_until

pytestmark = pytest.mark.proving

KEY = re.compile(r"ssk_[\w-]{43}")

# Of a run that others reach and that may cost money; `/v1/models` asks no upstream.
PAID = {
    "SESERAGI_HOST": "0.0.0.0",  # noqa: S104  (what is tested)
    "OPENAI_API_KEY": "sk-0123456789",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
}
WORKERS = {"SESERAGI_WORKERS": "2", "SESERAGI_LOG": "sqlite:///streams.db"}


class Running:
    """A relay that runs, and what it has said on stderr so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.told: list[str] = []
        self.port = 0
        self._listens = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._listens.wait(60), self.told

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.told.append(line)
                if '"event":"listening"' in line:
                    self.port = int(json.loads(line)["url"].rpartition(":")[2])
                    self._listens.set()
        self._listens.set()

    def ask(self, key: str | None, path: str = "/v1/models") -> int:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as refused:
            refused.close()
            return refused.code

    def asks(self, key: str | None) -> set[int]:
        """Ask so often, on a connection each, that every worker is met."""
        return {self.ask(key) for _ in range(12)}

    def read_again(self, *, keys: int) -> int:
        """Count who has read the file again and found so many keys in it."""
        return "".join(self.told).count(f'"keys":{keys},"event":"keys read again"')

    def complaints(self) -> int:
        return "".join(self.told).count('"keys file unusable, keeping the keys that were known"')

    def end(self, sent: signal.Signals) -> None:
        self.process.send_signal(sent)
        self.process.wait(60)
        self._reader.join(10)

    def stop(self) -> str:
        """Stop it, and return all that it has said on stderr; on stdout it says nothing."""
        self.end(signal.SIGTERM)
        assert self.process.stdout is not None
        assert "" == self.process.stdout.read()
        return "".join(self.told)


@contextmanager
def running(folder: Path, **variables: str) -> Iterator[Running]:
    variables = {"SESERAGI_LOG_LEVEL": "debug", **variables}
    with started(cwd=folder, variables=variables) as process:
        relay = Running(process)
        try:
            yield relay
        finally:
            relay.end(signal.SIGKILL)


def key(folder: Path, *arguments: str) -> str:
    done = run_here("key", *arguments, cwd=folder)
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("more", [{}, WORKERS], ids=["one process", "workers"])
def test_key_for_this_run_is_told_once_and_taken_by_all(tmp_path, more):
    with running(tmp_path, **PAID, **more) as relay:
        wait_until(lambda: KEY.search("".join(relay.told)) is not None)
        key = KEY.findall("".join(relay.told))[0]

        assert {200} == relay.asks(key)
        assert {401} == relay.asks(None)
        assert {401} == relay.asks("ssk_" + "x" * 43)
        assert (200, 200) == (relay.ask(None, "/"), relay.ask(None, "/healthz"))
        told = relay.stop()

    [line] = (line for line in map(json.loads, told.splitlines()) if "admin" in line)
    urls = (
        f"http://localhost:{relay.port}/#key={key}",
        f"http://localhost:{relay.port}/admin#key={key}",
    )
    assert urls == (line["page"], line["admin"])
    assert [key, key] == KEY.findall(told)  # so it stands in no log line
    assert f'"url":"http://0.0.0.0:{relay.port}"' in told
    assert '"auth":"a key for this run"' in told
    assert "'openai' may cost money" in told
    assert PAID["OPENAI_API_KEY"] not in told


@pytest.mark.parametrize(
    ("variables", "auth", "exposed"),
    [
        ({}, "open", 0),
        ({**PAID, "SESERAGI_AUTH": "none"}, "none", 1),
        ({"SESERAGI_AUTH": "none"}, "none", 0),
    ],
)
def test_where_chats_need_no_key_operators_do(tmp_path, variables, auth, exposed):
    with running(tmp_path, **variables) as relay:
        assert 200 == relay.ask(None)
        assert 401 == relay.ask(None, "/v1/admin/summary")
        wait_until(lambda: KEY.search("".join(relay.told)) is not None)
        [key] = KEY.findall("".join(relay.told))
        assert 200 == relay.ask(key, "/v1/admin/summary")
        told = relay.stop()

    assert f":{relay.port}/admin#key={key}" in told
    assert f'"auth":"{auth}"' in told
    assert exposed == told.count("exposed: auth = 'none' serves every client that connects")


def test_body_that_comes_late_makes_no_secret_of_the_next_key(tmp_path):
    stolen = key(tmp_path, "new", "backend", "--role", "client_secrets")
    with running(tmp_path, **PAID, SESERAGI_KEYS_FILE="keys.json") as relay:
        head = f"POST /v1/client_secrets HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {stolen}\r\n"
        with socket.create_connection(("127.0.0.1", relay.port), timeout=10) as connection:
            connection.sendall(f"{head}connection: close\r\n".encode())
            connection.sendall(b"content-type: application/json\r\ncontent-length: 2\r\n\r\n")
            assert 200 == relay.ask(stolen)  # so it is known who asks before
            key(tmp_path, "revoke", "backend")
            key(tmp_path, "new", "backend", "--role", "client_secrets")
            wait_until(lambda: relay.ask(stolen) != 200)
            connection.sendall(b"{}")
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("more", [{}, WORKERS], ids=["one process", "workers"])
def test_running_relay_follows_the_keys_file(tmp_path, more):
    processes = int(more.get("SESERAGI_WORKERS", 1))
    first = key(tmp_path, "new", "first")
    with running(tmp_path, **PAID, SESERAGI_KEYS_FILE="keys.json", **more) as relay:
        assert {200} == relay.asks(first)
        second = key(tmp_path, "new", "second")
        key(tmp_path, "revoke", "first")
        # What is asked may be answered by some of them alone.
        wait_until(
            lambda: (
                ({401}, {200}) == (relay.asks(first), relay.asks(second))
                and relay.read_again(keys=1) == processes
            )
        )

        whole = (tmp_path / "keys.json").read_bytes()
        (tmp_path / "keys.json").write_bytes(whole[:50])
        wait_until(lambda: relay.asks(second) == {200} and relay.complaints() == processes)
        assert {401} == relay.asks(first)
        time.sleep(LOOK_EVERY_S)
        assert {200} == relay.asks(second)  # at this they look again, and say nothing
        (tmp_path / "keys.json").unlink()
        third = key(tmp_path, "new", "third")
        wait_until(lambda: ({401}, {200}) == (relay.asks(second), relay.asks(third)))
        told = relay.stop()

    assert processes == relay.complaints()
    assert [] == KEY.findall(told)


def secret_of(relay: Running, key: str) -> str:
    """Ask a relay for a client secret."""
    body = b'{"user": "ann", "expires_in_s": 60}'
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    url = f"http://127.0.0.1:{relay.port}/v1/client_secrets"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as reply:
        return str(json.load(reply)["value"])


def test_keys_rotate_under_traffic_and_nobody_is_refused(tmp_path, monkeypatch):
    """Two relays of one file, one with workers: a backend's key, then the signing key."""
    monkeypatch.setattr("app.commands.keys.SIGNS_AFTER_S", 3)
    (tmp_path / "b").mkdir()
    keys = [key(tmp_path, "new", "backend", "--role", "client_secrets")]
    path = {"SESERAGI_KEYS_FILE": str(tmp_path / "keys.json")}
    asked: list[tuple[str, int]] = []
    done = threading.Event()
    with (
        running(tmp_path, **PAID, **path) as one,
        running(tmp_path / "b", **PAID, **path, **WORKERS) as two,
    ):
        first = secret_of(one, keys[0])

        def go(maker: Running, user: Running) -> None:
            while not done.is_set():
                try:
                    asked.append(("secret", user.ask(secret_of(maker, keys[-1]))))
                except urllib.error.HTTPError as refused:
                    asked.append(("secret", refused.code))
                    refused.close()
                asked.append(("key", user.ask(keys[-1])))
                asked.append(("first secret", maker.ask(first)))

        threads = [threading.Thread(target=go, args=pair) for pair in ((one, two), (two, one))]
        for thread in threads:
            thread.start()
        try:
            new = key(tmp_path, "rotate", "backend", "--keep", "4s")
            wait_until(lambda: one.read_again(keys=1) == 1 and two.read_again(keys=1) == 2)
            # A backend takes the new key when its operator comes to it; both are valid meanwhile.
            assert [{200}, {200}] == [two.asks(keys[0]), two.asks(new)]
            keys.append(new)
            key(tmp_path, "rotate", "--signing-key", "--keep", "1h")
            wait_until(lambda: one.read_again(keys=1) == 2 and two.read_again(keys=1) == 4)
            before = secret_of(one, new)
            wait_until(lambda: signed_by(tmp_path, secret_of(one, new)) == "new")
            assert "old" == signed_by(tmp_path, before)
            wait_until(lambda: {401} == one.asks(keys[0]) == two.asks(keys[0]))
            counted = len(asked)
            wait_until(lambda: len(asked) > counted + 20)
        finally:
            done.set()
            for thread in threads:
                thread.join(60)
        assert {("secret", 200), ("key", 200), ("first secret", 200)} == set(asked)
        assert {200} == one.asks(before) == two.asks(before)
        # A key that is revoked ends all that was made of it, also of its earlier ones.
        key(tmp_path, "revoke", "backend")
        held = (first, before, new)
        wait_until(
            lambda: {401} == {status for it in held for status in one.asks(it) | two.asks(it)}
        )


def signed_by(folder: Path, secret: str) -> str:
    """Say which signing key of the file a client secret has."""
    file = json.loads((folder / "keys.json").read_bytes())
    known = {"new": file["signing_key"], "old": file["previous_signing_keys"][0]["key"]}
    token = secret.removeprefix("ek_")
    return next(
        n for n, k in known.items() if TokenCrypto(k, ISSUER).verify(token, "client_secret")
    )
