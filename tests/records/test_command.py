"""`seseragi records` as its users call it."""

import csv
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout

import pytest

from app.__main__ import main
from app.records.address import Address
from app.records.database import Database
from tests.records.kept import AT, check_sums, make_row, recorded, write

DAY = 86_400


def records(*arguments: str, url: str = "", status: int = 0) -> tuple[str, str]:
    """What the command prints on stdout and stderr; in a thread, since it runs a loop of its own."""
    out, err = io.StringIO(), io.StringIO()

    def run() -> int:
        try:
            main(["records", *arguments])
        except SystemExit as stopped:
            return int(stopped.code or 0)
        return 0

    said = {"SESERAGI_RECORDS": url} if url else {}
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in said.items():
            patch.setenv(name, value)
        with ThreadPoolExecutor(1) as thread:
            assert status == thread.submit(run).result(), err.getvalue()
    return out.getvalue(), err.getvalue()


NOVEMBER = ("--since", "2026-11-01", "--until", "2026-11-30")


@pytest.fixture
async def filled(database, url):
    await write(
        database,
        make_row("st_1"),
        make_row(
            "st_2",
            user="bob",
            key="app",
            target=None,
            status="failed",
            code="overloaded",
            ended_by="relay",
        ),
        make_row("st_3", started_at=AT + DAY, nano_usd=None),
        make_row("st_4", tenant="", user="=1+1", route="slow", cached_input_tokens=5),
        make_row("st_5", started_at=AT - 60 * DAY),
        make_row("st_6", user="\x1b[31mred\n\x9b", nano_usd=2_000_000_001),
    )
    return url


def test_sums_by_day_are_a_table_with_a_total(filled):
    out, _ = records(*NOVEMBER, url=filled)

    lines = [line.split() for line in out.splitlines()]
    assert ["day", "requests", "failures", "input", "output", "cached", "usd", "unpriced"] == lines[
        0
    ]
    assert ["2026-11-18", "4", "1", "40", "80", "5", "2.0000", "0"] == lines[1]
    assert ["2026-11-19", "1", "0", "10", "20", "0", "0.0000", "1"] == lines[2]
    assert ["total", "5", "1", "50", "100", "5", "2.0000", "1"] == lines[3]


def test_sums_as_json_have_exact_money(filled):
    out, _ = records(*NOVEMBER, "--by", "tenant,user", "--format", "json", url=filled)

    told = json.loads(out)
    ann = next(row for row in told["rows"] if row["user"] == "ann")
    assert ("acme", 2, "0.0000015", 1) == tuple(
        ann[name] for name in ("tenant", "requests", "usd", "unpriced")
    )
    assert "\x1b[31mred\n\x9b" == told["rows"][0]["user"]
    assert ("2.000004501", 5) == (told["total"]["usd"], told["total"]["requests"])
    assert ("2026-11-01", "2026-11-30") == (told["since"], told["until"])
    assert out.isascii()


@pytest.mark.parametrize("by", ["key", "model", "target", "day,tenant,user,key,model,target"])
def test_sums_as_csv(filled, by):
    out, _ = records(*NOVEMBER, "--by", by, "--format", "csv", url=filled)

    rows = list(csv.DictReader(io.StringIO(out)))
    assert 5 == sum(int(row["requests"]) for row in rows)
    if by == "key":
        assert {"web": "4", "app": "1"} == {row["key"]: row["requests"] for row in rows}
    if by == "model":
        assert {"fast": "4", "slow": "1"} == {row["model"]: row["requests"] for row in rows}


@pytest.mark.parametrize("more", [(), ("--format", "csv")])
@pytest.mark.parametrize("what", [("--by", "user", *NOVEMBER), ("list",)])
def test_names_reach_neither_a_terminal_nor_a_spreadsheet_as_orders(filled, what, more):
    out, _ = records(*what, *more, url=filled)

    assert "red" in out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)
    assert not more or "'=1+1" in out


def test_list_shows_the_latest_first(filled):
    out, _ = records("list", "--limit", "2", "--format", "json", url=filled)

    told = json.loads(out)
    assert "st_3" == told[0]["stream"]
    assert "2026-11-19T11:06:40.000Z" == told[0]["started_at"]
    assert told[0]["usd"] is None
    assert 2 == len(told)
    out, _ = records("list", "--user", "bob", url=filled)
    assert ["started", "stream", "user"] == out.split()[:3]
    assert "acme/bob" in out
    assert "overloaded" in out
    assert 2 == len(out.splitlines())
    assert out == records("list", "--ended-by", "relay", url=filled)[0]
    assert 1 == len(records("list", "--ended-by", "user", url=filled)[0].splitlines())


@pytest.mark.parametrize(
    ("options", "streams"),
    [
        (("--since", "2026-11-19"), {"st_3"}),
        (("--until", "2026-11-01"), {"st_5"}),
        (("--since", "2026-11-18", "--until", "2026-11-18", "--user", "ann"), {"st_1"}),
        (("--status", "failed"), {"st_2"}),
        (("--key", "app"), {"st_2"}),
        (("--key", "web", "--route", "slow"), {"st_4"}),
    ],
)
def test_list_is_filtered(filled, options, streams):
    out, _ = records("list", *options, "--format", "json", url=filled)

    assert streams == {row["stream"] for row in json.loads(out)}


def test_list_has_users_and_keys_in_columns_of_their_own(filled):
    head, row = records("list", "--key", "app", url=filled)[0].splitlines()

    assert ["user", "key", "route"] == head.split()[2:5]
    assert ["acme/bob", "app", "fast"] == row.split()[2:5]


async def test_show_prints_a_stream_with_its_content(database, url):
    said = {"messages": [{"role": "user", "content": "\x1b[31mHi"}], "answer": []}
    row = make_row("st_1", content=json.dumps(said).encode(), longest_gap_s=1.5)
    await write(database, row, make_row("st_2"))

    for name in ("st_1", "req_st_1"):
        out, _ = records("show", name, url=url)
        (shown,) = json.loads(out)
        assert (said, "web", 1.5, "0.0000015") == tuple(
            shown[name] for name in ("content", "key", "longest_gap_s", "usd")
        )
        assert out.isascii()
        assert "\x1b" not in out
    assert json.loads(records("show", "st_2", url=url)[0])[0]["content"] is None
    _, err = records("show", "st_9", url=url, status=2)
    assert "'st_9': not in the records; `seseragi records list` lists them" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("list", "--since", "soon"), "--since: 'soon' is not a day; give 2026-11-01 or 30d"),
        (("list", "--status", "fine"), "invalid choice: 'fine'"),
        (("--by", "usr"), "--by: unknown column 'usr'; did you mean 'user'?"),
        (("--by", "day,day"), "--by: a column occurs twice; name each once"),
        (("--since", "yesterday"), "--since: 'yesterday' is not a day; give 2026-11-01 or 30d"),
        (("list", "--limit", "0"), "--limit: give a number from 1 to 100000"),
        (("erase",), "the following arguments are required: --user"),
        (("erase", "--user", ""), "--user: empty; name a user"),
        (("--records", "postgres://me:pw@x/y"), "records: use 'sqlite:///PATH' or"),
        (("--records", "sqlite:////no/such/records.db"), "the directory '/no/such' does not exist"),
        (("--records", "sqlite:///none.db"), "records: no file 'none.db' yet"),
        (("--records", "postgresql://u:s3cret@127.0.0.1:1/x"), "records: postgresql://u:***@127"),
        (("--records", "postgresql://u:s3cret@h/x?sslmode=maybe"), "`sslmode` parameter must be"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments, told):
    out, err = records(*arguments, status=2)

    assert told in err
    assert 1 == len(err.splitlines())
    assert "s3cret" not in err
    assert "pw" not in err
    assert not out


def test_without_records_it_says_what_is_missing(tmp_path):
    _, err = records(status=2)

    assert "no database is configured" in err


def test_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "records.db").write_bytes(b"this is not a database, it is only some text" * 100)

    _, err = records(url=f"sqlite:///{tmp_path}/records.db", status=2)

    assert "not a database" in err


async def test_erase_leaves_sums_and_nothing_that_tells_who(filled):
    database = Database(Address(filled))
    before = await recorded(database)

    _, err = records("erase", "--user", "ann", "--tenant", "acme", url=filled, status=2)
    assert "user 'ann' of tenant 'acme' has 3 streams" in err
    assert before == await recorded(database)
    _, err = records("erase", "--user", "ann", "--tenant", "acme", "--yes", url=filled)

    assert "3 streams" in err
    rows = await recorded(database)
    mine = [row for row in rows if row["user"].startswith("erased-")]
    assert 3 == len(mine)
    assert 1 == len({row["user"] for row in mine} | {row["key"] for row in mine})
    assert {("", "", None)} == {
        (row["request_id"], row["trace_id"], row["content"]) for row in mine
    }
    text = json.dumps(rows, default=str)
    assert "ann" not in text
    assert not {"st_1", "st_3", "st_5"} & {row["stream"] for row in rows}
    assert sum(row["nano_usd"] or 0 for row in before) == sum(row["nano_usd"] or 0 for row in rows)
    await check_sums(database)
    await database.close()
    out, _ = records("--by", "user", *NOVEMBER, url=filled)
    assert "ann" not in out


def test_erase_tells_of_users_of_that_name_in_other_tenants(filled):
    _, err = records("erase", "--user", "ann", "--yes", url=filled)

    assert "Other tenants have a user of this name: acme." in err
    assert "0 streams" in err


async def test_erased_text_is_not_in_the_file(tmp_path):
    url = f"sqlite:///{tmp_path}/records.db"
    database = Database(Address(url))
    await database.migrate()
    said = b'{"messages":[],"answer":[{"type":"text","text":"my-secret-illness"}]}'
    await write(database, *(make_row(f"st_{n}", content=said, user="ann-xyz") for n in range(300)))
    await database.close()

    records("erase", "--user", "ann-xyz", "--tenant", "acme", "--yes", url=url)

    left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"my-secret-illness" not in left
    assert b"ann-xyz" not in left
    assert b"req_st_1" not in left
