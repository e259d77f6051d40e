"""Settings: any file is settings or refused in one line, and no secret is in the line."""

import contextlib
import os
import tempfile
from random import Random

from app.settings import load_settings
from app.settings.convert import SettingsError
from app.settings.load import find_contradictions
from tests.fuzz.target import Target, check_refusal, split

SECRET = "sk-fuzz-7f3a91c05d"  # noqa: S105
ENVIRON = {
    "OPENAI_API_KEY": SECRET,
    "A_KEY": SECRET,
    "SESERAGI_SIGNING_KEY": SECRET * 3,
}
FILE = b"""
port = 9000
host = "::1"
log = "memory"
status_wait_s = 1.5
cors_origins = ["https://a.example"]
trusted_proxies = ["10.0.0.0/8"]
attempts = 3

[upstream.local]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9/v1"
key_env = "A_KEY"
models = ["a", "b"]
headers = { x-a = "b" }

[[route]]
name = "fast"
targets = [{ model = "openai/gpt-x", weight = 2 }, "local/a"]

[[key]]
name = "web"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
tenant = "acme"
models = ["gpt-*"]

[[issuer]]
issuer = "https://idp.example"
audience = "relay"

[limits.user]
requests_per_minute = 5

[[price]]
target = "openai/gpt-x"
input = 1.5
output = 2
"""


def check(data: bytes) -> None:
    choice, body = split(data)
    blocks = FILE.split(b"\n\n")
    load(body)
    # In place of a table, and beside the others.
    blocks[choice % len(blocks)] = body
    load(b"\n\n".join(blocks))


def load(body: bytes) -> None:
    if b"function" in body or b"transform" in body or b"hook" in body:
        return  # it names code, which would be run
    descriptor = os.memfd_create("settings") if hasattr(os, "memfd_create") else None
    if descriptor is None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(body)
            file.flush()
            load_path(file.name)
        return
    try:
        os.write(descriptor, body)
        load_path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def load_path(path: str) -> None:
    try:
        settings = load_settings(ENVIRON, config=path)
    except SettingsError as error:
        check_refusal(str(error), secret=SECRET, most=10_000, printed=True)
        return
    assert SECRET not in repr(settings)
    with contextlib.suppress(StopIteration):
        for line in find_contradictions(settings):
            assert line.isprintable()
            assert SECRET not in line


def change(data: bytes, dice: Random) -> bytes:
    """Exchange words of the file, which keeps most of it valid TOML."""
    words = data[1:].split(b" ")
    others = (data[1:] + FILE).split()
    for _ in range(dice.choice((1, 1, 2, 4))):
        words[dice.randrange(len(words))] = dice.choice((*others, *TOKENS))
    return bytes((dice.randrange(256),)) + b" ".join(words)


TOKENS = (
    *(b"=", b"[", b"]", b"[[", b"]]", b"{", b"}", b'"', b"'", b'"""', b",", b".", b"#", b"\n"),
    *(b"true", b"1e999", b"nan", b"-1", b"0", b"9" * 5000, b"1979-05-27T07:32:00Z", b"07:32:00"),
    *(b'"\\u0000"', b'"\\n"', b'"http://a b"', b'"https://u:p@h/"', b'"*"', b'""', b"[]", b"{}"),
    *(b'"openai/x"', b"[upstream.x]", b"[[route]]", b"[[key]]", b"[limits]", b"[auth]", b"\xff"),
)
TARGET = Target(
    check,
    seeds=(b"\x00" + FILE, *(b"\x01" + block for block in FILE.split(b"\n\n"))),
    tokens=TOKENS,
    mutate=change,
    costly=True,
)
