"""The file of keys: read, or refused without a traceback, and it shows no signing key."""

import json
from random import Random

import msgspec

from app.identity.keys_file import KeysFile, _decode, _encode
from tests.fuzz.mutations import mutate
from tests.fuzz.target import Target, split

SIGNING_KEY = "fuzz-signing-key-" + "7f3a91c0" * 4
FILE = {
    "signing_key": SIGNING_KEY,
    "signs_from": "2026-11-20T00:00:00Z",
    "previous_signing_keys": [{"key": SIGNING_KEY[::-1], "expires_at": "2027-01-15T08:00:00Z"}],
    "keys": [
        {"name": "web", "sha256": "0" * 64, "tenant": "acme", "roles": ["client_secrets"]},
        {
            "name": "ops",
            "sha256": "1" * 64,
            "models": ["gpt-*"],
            "limits": {"requests_per_minute": 5},
        },
    ],
}


def check(data: bytes) -> None:
    _, body = split(data)
    try:
        file = _decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):  # what `read_keys_file` refuses
        return
    assert isinstance(file, KeysFile)
    assert SIGNING_KEY not in repr(file)
    assert file == _decode(_encode(file)), "what is written is read alike"
    for now in (0.0, 1_799_999_999.0, 4_000_000_000.0):
        keys = file.signing_keys(now)
        assert bool(keys) == (file.signing_key is not None)
        assert len(keys) <= 1 + len(file.previous_signing_keys)


def change(data: bytes, dice: Random) -> bytes:
    return b"\x00" + mutate([FILE], dice)


TARGET = Target(
    check,
    seeds=(b"\x00" + json.dumps(FILE).encode(), b"\x00{}", b'\x00{"keys": [{}]}'),
    tokens=(b'"', b"{", b"}", b"[", b"]", b"null", b"1e999", b"\\ud800", b'"2026-01-01T00:00:00Z"'),
    mutate=change,
)
