"""`seseragi key` as people and scripts run it."""

import json
import re
import time
import tomllib
from typing import Any

import pytest

from app.__main__ import main
from app.errors import RequestError
from app.identity.config import parse_time
from app.identity.keys import Keys, digest
from app.identity.keys_file import read_keys_file
from app.ledger.config import LIMITS, UNLIMITED, UsageLimits
from app.settings import load_settings

pytestmark = pytest.mark.pure

KEY = re.compile(r"ssk_[\w-]{43}\n")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("KEYS_FILE", "AUTH", "SIGNING_KEY", "CONFIG"):
        monkeypatch.delenv(f"SESERAGI_{name}", raising=False)


def key(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """Run the command in this process; give its stdout and stderr."""
    main(["key", *arguments])
    shown = capsys.readouterr()
    return shown.out, shown.err


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["key", *arguments])
    shown = capsys.readouterr()
    assert (2, "") == (caught.value.code, shown.out)
    assert 1 == len(shown.err.splitlines()), shown.err
    return shown.err


async def test_key_is_shown_once_alone_and_lets_in_until_it_is_revoked(capsys, tmp_path):
    arguments = ("my-app", "--tenant", "acme", "--models", "openai/*", "demo")
    shown, told = key(capsys, "new", *arguments)
    made = shown.strip()
    assert KEY.fullmatch(shown)
    assert made not in told
    assert '[auth]\nkeys_file = "keys.json"\n' in told
    path = tmp_path / "keys.json"
    content = path.read_text()
    assert made not in content
    assert 0o600 == path.stat().st_mode & 0o777
    assert len(json.loads(content)["signing_key"]) >= 43

    now = time.time()
    keys = Keys([], path, clock=lambda: now)
    found = await keys.verify(made)
    assert found is not None
    assert ("acme", "my-app", ("openai/*", "demo")) == (found.tenant, found.key, found.models)

    listed, _ = key(capsys, "list")
    assert "my-app  acme" in listed
    assert digest(made) not in listed
    out, told = key(capsys, "revoke", "my-app")
    assert "" == out
    assert "within a second" in told
    now += 1.01
    assert None is await keys.verify(made)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_file_that_others_may_read_is_told(mode, capsys, tmp_path, monkeypatch):
    shown = tmp_path / "app.key"
    shown.touch()
    shown.chmod(mode)
    with shown.open("w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        _, told = key(capsys, "new", "my-app")

    assert KEY.fullmatch(shown.read_text())
    assert (mode != 0o600) == ("Warning: others may read the file with the key" in told)
    assert (mode != 0o600) == ("umask 077" in told)


def test_all_that_can_be_said_of_a_key(capsys, tmp_path):
    arguments = (
        *("new", "app", "--user", "ann", "--tenant", "会社"),
        *("--expires-in", "30d"),
        *("--origins", "https://a.example", "--origin", "https://b.example"),
        *("--role", "client_secrets", "admin", "--model", "a/*", "--model", "b"),
    )
    out, _ = key(capsys, *arguments)
    [made] = read_keys_file(tmp_path / "keys.json").file.keys

    assert digest(out.strip()) == made.sha256
    assert ("ann", "会社", ("a/*", "b")) == (made.user, made.tenant, made.models)
    assert ("https://a.example", "https://b.example") == made.origins
    assert ("client_secrets", "admin") == made.roles
    assert made.expires_at is not None
    assert made.created_at is not None

    out, _ = key(capsys, "list")
    columns = "name tenant user models origins roles limits expires created"
    assert columns.split() == out.splitlines()[0].split()
    assert made.expires_at in out.splitlines()[1]
    [row] = json.loads(key(capsys, "list", "--json")[0])
    assert ("app", "会社", ["a/*", "b"]) == (row["name"], row["tenant"], row["models"])
    assert "sha256" not in row


def test_every_limit_is_an_option_and_is_kept_listed_and_shown_as_toml(capsys, tmp_path):
    values: dict[str, Any] = {limit.name: n for n, limit in enumerate(LIMITS, start=2)}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
    expected = UsageLimits(**values)

    key(capsys, "new", "app", *options)
    [made] = read_keys_file(tmp_path / "keys.json").file.keys
    assert expected == made.limits

    listed, _ = key(capsys, "list")
    assert all(f"{name}={value}" in listed for name, value in values.items())
    [row] = json.loads(key(capsys, "list", "--json")[0])
    assert values == row["limits"]

    _, table = key(capsys, "new", "other", *options, "--print-toml")
    (tmp_path / "seseragi.toml").write_text(table)
    [shown] = load_settings({}).identity.keys
    assert expected == shown.limits


async def test_limits_of_a_key_are_the_keys_and_not_its_users(capsys, tmp_path):
    out, _ = key(capsys, "new", "app", "--usd-per-day", "0.5")
    found = await Keys([], tmp_path / "keys.json").verify(out.strip())

    assert found is not None
    assert (UsageLimits(usd_per_day=0.5), UNLIMITED) == (found.key_limits, found.user_limits)


@pytest.mark.parametrize(
    ("span", "seconds"),
    [("30d", 2_592_000), ("12h", 43_200), ("90m", 5400), ("1w", 604_800), ("5s", 5)],
)
def test_key_may_end(capsys, monkeypatch, span, seconds):
    monkeypatch.setattr("app.commands.keys.time.time", lambda: 1_800_000_000.7)
    key(capsys, "new", "app", "--expires-in", span)
    [row] = json.loads(key(capsys, "list", "--json")[0])
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_800_000_000 + seconds))

    assert ("2027-01-15T08:00:00Z", ends) == (row["created_at"], row["expires_at"])


def test_key_that_has_ended_is_listed_as_such(capsys, tmp_path):
    row = {"name": "old", "sha256": digest("a"), "expires_at": "2020-01-01T00:00:00Z"}
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [row, {**row, "name": "\u202etxt"}]}))
    (tmp_path / "keys.json").chmod(0o600)
    assert "not a keys file" in refusal(capsys, "list")  # for the name, which may trick
    odd = {**row, "name": "odd", "tenant": "a\nb\x1b[31m"}
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [row, odd]}))
    out, _ = key(capsys, "list")

    assert "2020-01-01T00:00:00Z (has ended)" in out
    assert r"a\nb\x1b[31m" in out
    assert 3 == len(out.splitlines())


def test_table_for_the_settings(capsys, tmp_path):
    out, err = key(capsys, "new", "a-key", "--tenant", 'a"b\\', "--print-toml", "--role", "admin")
    assert KEY.fullmatch(out)
    assert [] == list(tmp_path.iterdir())
    (tmp_path / "seseragi.toml").write_text(err)
    [read] = load_settings({}).identity.keys

    assert ("a-key", 'a"b\\', ("admin",)) == (read.name, read.tenant, read.roles)
    assert digest(out.strip()) == read.sha256
    assert {"key"} == set(tomllib.loads(err))
    assert "already have a [[key]] named 'a-key'" in refusal(capsys, "new", "a-key")
    assert "is a [[key]] of the settings; remove it there" in refusal(capsys, "revoke", "a-key")


@pytest.mark.parametrize("how", ["option", "variable", "file", "config"])
def test_keys_file_is_found_where_the_relay_finds_it(capsys, monkeypatch, tmp_path, how):
    (tmp_path / "etc").mkdir()
    path, more = tmp_path / "etc" / "k.json", []
    table = f"[auth]\nkeys_file = {json.dumps(str(path))}\n"
    match how:
        case "option":
            more = ["--keys-file", str(path)]
        case "variable":
            monkeypatch.setenv("SESERAGI_KEYS_FILE", str(path))
        case "file":
            # What the relay needs and is not set here does not matter.
            (tmp_path / "seseragi.toml").write_text(table + '[upstream.a]\nkey_env = "NONE"\n')
        case "config":
            (tmp_path / "other.toml").write_text(table)
            more = ["--config", "other.toml"]
    _, err = key(capsys, "new", "app", *more)

    assert ["app"] == [made.name for made in read_keys_file(path).file.keys]
    assert ("[auth]" in err) == (how == "option")
    assert not (tmp_path / "keys.json").exists()
    assert "app" in key(capsys, "list", *more)[0]
    assert "revoked" in key(capsys, "revoke", "app", *more)[1]


def test_auth_none_is_told(capsys, monkeypatch):
    monkeypatch.setenv("SESERAGI_AUTH", "none")
    _, err = key(capsys, "new", "app")

    assert "auth = 'none' is set: only operators need a key" in err


BAD = [
    ((), "required: ACTION; see seseragi key --help"),
    (("now",), "argument ACTION: invalid choice: 'now'"),
    (("new",), "required: NAME; see seseragi key new --help"),
    (("new", "--nam"), "see seseragi key"),
    (("new", ""), "NAME: give 1 to 128 visible ASCII characters"),
    (("new", "a b"), "NAME: give 1 to 128 visible ASCII characters"),
    (("new", "a\n"), "NAME: give 1 to 128 visible ASCII characters"),
    (("new", "é"), "NAME: give 1 to 128 visible ASCII characters"),
    (("new", "a" * 129), "NAME: give 1 to 128 visible ASCII characters"),
    (("new", "a", "--tenant", "a\nb"), "--tenant: not printable"),
    (("new", "a", "--tenant", "a" * 257), "--tenant: give 256 characters at most"),
    (("new", "a", "--user", "\udcff"), "--user: not printable"),
    (("new", "a", "--models", ""), "--models: give globs of 1 to 200 characters"),
    (("new", "a", "--origins", "a.example"), "--origins: 'a.example' cannot be used: write 'https://a.example'"),
    (("new", "a", "--origins", "https://A.example:443/"), "cannot be used: write 'https://a.example'"),
    (("new", "a", "--origins", "app:a"), "--origins: 'app:a' cannot be used: give the origin of a page"),
    (("new", "a", "--origins", "APP://a"), "--origins: 'APP://a' cannot be used: write 'app://a', as browsers send it"),
    (("new", "a", "--role", "boss"), "--role: use client_secrets or metrics or admin"),
    (("new", "a", "--streams", "1.5"), "--streams: '1.5' cannot be used: give a whole number"),
    (("new", "a", "--usd-per-day", "nan"), "--usd-per-day: 'nan' cannot be used: give a number, 0 or more"),
    (("new", "a", "--usd-per-day", "$2"), "--usd-per-day: '$2' cannot be used: give a number"),
    (("new", "a", "--usd-per-month", "null"), "--usd-per-month: 'null' cannot be used: give a number"),
    (("new", "a", "--requests-per-minute", "-1"), "--requests-per-minute: '-1' cannot be used"),
    (("new", "a", "--tokens-per-minute", "9" * 30), "--tokens-per-minute: '999"),
    (("new", "a", "--expires-in", "3y"), "--expires-in: '3y' cannot be used: give a number and s, m, h, d or w"),
    (("new", "a", "--expires-in", "0d"), "--expires-in: '0d' cannot be used"),
    (("new", "a", "--expires-in", "-1d"), "--expires-in"),
    (("new", "a", "--expires-in", "9999999999w"), "no more than 100 years"),
    (("new", "a", "--keys-file", "no/keys.json"), "cannot be written: no such file or directory"),
    (("new", "a", "--keys-file", "."), "not a regular file"),
    (("new", "a", "--config", "no.toml"), "no.toml: file not found"),
    (("list",), "keys.json: file not found; create it with seseragi key new"),
    (("revoke", "a"), "no key named 'a'"),
    (("revoke",), "required: NAME"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "told"), BAD, ids=[f"{n}-{' '.join(row[0])[:30]!a}" for n, row in enumerate(BAD)])  # fmt: skip
def test_bad_use_says_why_in_one_line_and_makes_nothing(capsys, tmp_path, arguments, told):
    assert told in refusal(capsys, *arguments)
    assert [] == list(tmp_path.iterdir())


def test_name_is_taken_once(capsys, tmp_path):
    key(capsys, "new", "app")
    before = (tmp_path / "keys.json").read_bytes()

    assert "has a key named 'app'" in refusal(capsys, "new", "app")
    assert "no key named 'ap'; did you mean 'app'?" in refusal(capsys, "revoke", "ap")
    assert before == (tmp_path / "keys.json").read_bytes()


def test_signing_key_stays_when_keys_change(capsys, tmp_path):
    key(capsys, "new", "a")
    before = read_keys_file(tmp_path / "keys.json").file.signing_key
    key(capsys, "new", "b")
    key(capsys, "revoke", "a")

    assert before == read_keys_file(tmp_path / "keys.json").file.signing_key


def test_help_names_every_action(capsys):
    for arguments, words in (
        (("--help",), ("commands:", "API keys of clients")),
        (("key", "--help"), ("new", "list", "revoke")),
        (("key", "new", "--help"), ("--tenant", "--models", "--expires-in", "--print-toml")),
    ):
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        assert 0 == caught.value.code
        out = capsys.readouterr().out
        for word in words:
            assert word in out


async def test_rotated_key_has_two_digests_under_one_name(capsys, tmp_path):
    old = key(capsys, "new", "app", "--tenant", "acme", "--expires-in", "90d")[0].strip()
    new, told = key(capsys, "rotate", "app", "--keep", "2h")
    newest = key(capsys, "rotate", "app", "--expires-in", "180d")[0].strip()
    assert "stays valid for 2h" in told
    assert 1 == len(read_keys_file(tmp_path / "keys.json").file.keys)
    now = time.time()
    keys = Keys([], tmp_path / "keys.json", clock=lambda: now)
    principals = [await keys.verify(one) for one in (old, new.strip(), newest)]
    assert principals[0] is principals[1] is principals[2]
    assert principals[0] is not None
    assert ("acme", digest(old)[:16]) == (principals[0].tenant, principals[0].key_id)
    assert (principals[0],) == keys.all()

    now += 2 * 3600 + 1
    with pytest.raises(RequestError, match="the key 'app' ended at"):
        await keys.verify(old)
    assert await keys.verify(new.strip()) is await keys.verify(newest)
    now += 22 * 3600
    with pytest.raises(RequestError, match="the key 'app' ended at"):
        await keys.verify(new.strip())
    now += 100 * 86_400
    assert principals[0] is await keys.verify(newest)

    listed, _ = key(capsys, "list", "--json")
    assert 2 == len(json.loads(listed)[0]["previous"])
    for one in (old, new.strip(), newest):
        assert digest(one) not in listed
    key(capsys, "revoke", "app")
    assert () == read_keys_file(tmp_path / "keys.json").file.keys


def test_rotation_never_prolongs_a_key(capsys, tmp_path):
    key(capsys, "new", "app", "--expires-in", "1h")
    key(capsys, "rotate", "app", "--keep", "24h", "--expires-in", "90d")
    [row] = read_keys_file(tmp_path / "keys.json").file.keys
    assert row.previous[0].ends_at < time.time() + 3601 < parse_time(row.expires_at or "")


def test_key_of_the_settings_is_rotated_by_a_printed_table(capsys, tmp_path):
    old, told = key(capsys, "new", "app", "--print-toml")
    (tmp_path / "seseragi.toml").write_text(told)
    new, told = key(capsys, "rotate", "app")
    (tmp_path / "seseragi.toml").write_text(told)
    [config] = load_settings({}).identity.keys
    assert (digest(new.strip()), digest(old.strip())) == (config.sha256, config.previous[0].sha256)
    assert not (tmp_path / "keys.json").exists()


def test_new_signing_key_signs_once_every_relay_knows_it(capsys, tmp_path):
    key(capsys, "new", "app")
    first = read_keys_file(tmp_path / "keys.json").file.signing_key
    key(capsys, "rotate", "--signing-key", "--keep", "1h")
    file, now = read_keys_file(tmp_path / "keys.json").file, time.time()
    assert first not in (file.signing_key, repr(file))
    assert (first, file.signing_key) == file.signing_keys(now + 110)
    assert (file.signing_key, first) == file.signing_keys(now + 121)
    assert (file.signing_key,) == file.signing_keys(now + 3600 + 121)
    assert "rotated just now; wait 120 s" in refusal(capsys, "rotate", "--signing-key")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "NAME --signing-key"),
        (("ap",), "keys.json: no key named 'ap'; did you mean 'app'?"),
        (("app", "--keep", "0"), "--keep: '0' cannot be used: give a number and s, m, h, d or w"),
        (("app", "--signing-key"), "--signing-key: not allowed with argument NAME"),
        (("--signing-key", "--expires-in", "1d"), "a signing key has no end; omit it"),
        (("old",), "the key 'old' has an invalid time: give a time with its zone"),
        (("ended",), "NAME: 'ended' has ended; give --expires-in"),
    ],
)
def test_rotation_that_cannot_be_is_told_and_changes_nothing(capsys, tmp_path, arguments, told):
    key(capsys, "new", "app")
    path = tmp_path / "keys.json"
    content = json.loads(path.read_bytes())
    for name, ends in (("old", "2020"), ("ended", "2020-01-01T00:00:00Z")):
        content["keys"].append({"name": name, "sha256": digest(name), "expires_at": ends})
    path.write_text(json.dumps(content))
    before = path.read_bytes()
    assert told in refusal(capsys, "rotate", *arguments)
    assert before == path.read_bytes()


def test_signing_key_of_the_settings_is_rotated_there(capsys, monkeypatch):
    key(capsys, "new", "app")
    monkeypatch.setenv("SESERAGI_SIGNING_KEY", "s" * 32)
    assert "the settings have one; use signing_key_fallbacks there" in refusal(
        capsys, "rotate", "--signing-key"
    )
