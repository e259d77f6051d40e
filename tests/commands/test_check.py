"""`seseragi check`, against providers that do what it has to find out."""

import argparse
import asyncio
import contextlib
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from structlog.testing import capture_logs

from app.__main__ import main
from app.commands.check import command
from app.commands.check.report import CheckReport
from app.composition import build_price_book
from app.demo import DemoTransport
from app.settings import load_settings
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Call,
    Hold,
    Step,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.clock import Clock
from tests.waiting import until

ROOT = Path(__file__).parent.parent.parent
KEY = "sk-check-0123456789abcdef"

ANSWER = "".join(text(word) for word in ("one, ", "two, ", "three"))


def failed(status: str, message: str, **more: str) -> list[Step]:
    return reply(status, json.dumps({"error": {"message": message}}), **more)


def says(*steps: Step) -> Callable[[Call], Sequence[Step]]:
    return lambda _: steps


def answered(*, answer: str = ANSWER, usage: str = USAGE):
    """Steps of a provider that answers."""
    return says(head(), send(answer + FINISH + usage + DONE))


@dataclass
class Provider:
    """One upstream of the settings: what it does, and what its table says."""

    does: Callable[[Call], Sequence[Step]] = field(default_factory=answered)
    path: str = "/v1"
    model: str = "m"
    table: str = 'key_env = "CHECK_KEY"'
    base_url: str | None = None


NO_PAGE = reply("404 Not Found", "404 page not found", "text/plain")
FORBIDS = says(*failed("403 Forbidden", "project has no access to m"))
LOGIN = says(*reply("407 Proxy Authentication Required", "<html>", "text/html", via="1.1 gate"))


def refuses(message: str) -> Callable[[Call], Sequence[Step]]:
    return says(*failed("401 Unauthorized", message))


PROVIDERS = {
    "good": Provider(),
    "wrong-key": Provider(refuses(f"Incorrect key \x1b[31m{KEY}\x1b[0m")),
    "key-in-file": Provider(refuses("no"), table='key_file = "./a.key"'),
    "no-key": Provider(refuses("who are you?"), table='auth = "none"'),
    "forbidden": Provider(FORBIDS),
    "unpaid": Provider(says(*failed("402 Payment Required", "insufficient balance"))),
    "limited": Provider(says(*failed("429 Too Many Requests", "slow down", retry_after="7"))),
    "no-path": Provider(says(*NO_PAGE)),
    "web-page": Provider(says(*reply("200 OK", "<html>hello</html>", "text/html")), path="/web"),
    "no-host": Provider(base_url="http://no-such-host.invalid/v1"),
    "nobody": Provider(base_url="http://127.0.0.1:{closed}/v1"),
    "proxied": Provider(LOGIN),
    "cut": Provider(says(head(), send(text("one")))),
    "empty": Provider(answered(answer="")),
    "broken": Provider(says(*failed("500 Internal Server Error", "oops"))),
    "strict": Provider(says(*failed("400 Bad Request", "Unknown field max_tokens"))),
    "uncounted": Provider(answered(usage="")),
    "unpriced": Provider(),
    "embeds": Provider(model="text-embedding-9"),
}
SILENT = {
    "silent": Provider(says(head(), Hold())),
    "stalled": Provider(says(head(), send(text("one")), Hold())),
}


def environment(**variables: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith(("_API_KEY", "_BASE_URL", "_proxy")) and not name.startswith("AWS_")
    }
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "CHECK_KEY": KEY,
        "AWS_ACCESS_KEY_ID": "AKIACHECK0123456789A",
        "AWS_SECRET_ACCESS_KEY": "aws-secret-0123456789",
        **variables,
    }


@dataclass
class Done:
    status: int
    out: str
    err: str
    calls: int

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    def row(self, name: str) -> dict[str, Any]:
        return next(row for row in self.report["targets"] if row["upstream"] == name)

    def problem(self, name: str) -> dict[str, Any]:
        """The one problem of a target."""
        (problem,) = self.row(name)["problems"]
        return dict(problem)

    def assert_failed(self, name: str, code: str, words: Sequence[str]) -> None:
        """Check that a target failed for one reason, and how that is told."""
        row, problem = self.row(name), self.problem(name)
        assert "failed" == row["status"]
        assert ("failure", code) == (problem["level"], problem["code"])
        for word in words:
            assert word in f"{problem['message']} {problem['advice']}"

    def assert_tells_no_secret(self) -> None:
        for told in (self.out, self.err):
            for secret in ("check-0123456789", "gw-secret", "aws-secret", "AKIACHECK"):
                assert secret not in told
            assert told.isascii()
            for control in ("\x1b", "\\u001b", "Traceback"):
                assert control not in told


Command = Callable[..., Awaitable[tuple[int, str, str]]]


async def run_process(*arguments: str, cwd: Path) -> tuple[int, str, str]:
    """Run the command as a process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app", "check", *arguments),
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def run_here(*arguments: str, cwd: Path) -> tuple[int, str, str]:
    """Run the command within this process, which saves a second."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options = parser.parse_args(arguments)
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        patch.dict(os.environ, environment(), clear=True),
        capture_logs() as lines,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        settings = load_settings(os.environ)
        status = await command.check(options, settings, build_price_book(settings))
    assert [] == [line for line in lines if line["log_level"] == "error"]
    return status, out.getvalue(), err.getvalue()


HERE_AND_AS_PROCESS = [run_here, pytest.param(run_process, marks=pytest.mark.proving)]


async def check(
    providers: dict[str, Provider],
    *arguments: str,
    folder: Path,
    more: str = "",
    by: Command = run_here,
) -> Done:
    """Run the command where these are the upstreams, each served on a port of its own."""
    (folder / "a.key").write_text(KEY)
    tables = []
    async with contextlib.AsyncExitStack() as stack:
        served = []
        closed = stack.enter_context(taken_port())
        for name, provider in providers.items():
            upstream = await stack.enter_async_context(serve_upstream())
            upstream.choose = provider.does
            served.append(upstream)
            base_url = provider.base_url or f"http://127.0.0.1:{{port}}{provider.path}"
            base_url = base_url.format(port=upstream.port, closed=closed)
            tables.append(
                f'[upstream.{name}]\nbase_url = "{base_url}"\nmodels = ["{provider.model}"]\n'
                f"{provider.table}\n"
            )
        (folder / "seseragi.toml").write_text(more + "\n" + "\n".join(tables))
        status, out, err = await by(*arguments, cwd=folder)
        return Done(status, out, err, sum(len(one.calls) for one in served))


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    """A port that nobody listens at, nor can."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


PRICES = "".join(
    f'[[price]]\ntarget = "{name}/*"\ninput = 1\noutput = 2\n'
    for name in PROVIDERS | SILENT
    if name != "unpriced"
)


@pytest.fixture(scope="module")
def all_of_them(tmp_path_factory) -> Done:
    folder = tmp_path_factory.mktemp("check")
    return asyncio.run(check(PROVIDERS, "--json", folder=folder, more=PRICES))


def test_what_works_says_how_fast_and_what_it_cost(all_of_them):
    row = all_of_them.row("good")

    assert ("ok", []) == (row["status"], row["problems"])
    assert row["credentials"].startswith("the environment variable CHECK_KEY (seseragi.toml: ")
    call = row["answer"]
    assert 0 < call["first_event_s"] <= call["duration_s"] < command.TIMEOUT_S
    assert (3, 2) == (call["input_tokens"], call["output_tokens"])
    assert "provider" == call["usage_from"]
    assert "0.000007" == call["cost_usd"]


FAILURES = [
    ("wrong-key", "upstream_auth", ["variable CHECK_KEY (seseragi.toml: upstream.wrong-key.key_env)", "HTTP 401"]),
    ("key-in-file", "upstream_auth", ["the file './a.key' (seseragi.toml: upstream.key-in-file.key_file)"]),
    ("no-key", "upstream_auth", ["[upstream.no-key], which names no key"]),
    ("forbidden", "upstream_forbidden", ["project has no access to m", "CHECK_KEY", "billing", "HTTP 403"]),
    ("unpaid", "upstream_billing", ["insufficient balance", "CHECK_KEY", "credit"]),
    ("limited", "upstream_rate_limited", ["slow down", "later"]),
    ("no-path", "upstream_not_found", ["'m'", "ends in /v1"]),
    ("web-page", "upstream_invalid_response", ["/web'", "dialect"]),
    ("no-host", "upstream_unavailable", ["cannot be resolved", ".invalid/v1"]),
    ("nobody", "upstream_unavailable", ["cannot be reached"]),
    ("proxied", "upstream_invalid_request", ["requires a login"]),
    ("cut", "upstream_truncated", ["ended its answer early"]),
    ("broken", "upstream_unavailable", ["HTTP 500", "oops"]),
    ("strict", "upstream_invalid_request", ["Unknown field max_tokens", "quirks"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "words"), FAILURES)
def test_what_fails_says_what_would_mend_it(all_of_them, name, code, words):
    all_of_them.assert_failed(name, code, words)


async def test_silent_providers_time_out(monkeypatch, tmp_path):
    asked: list[str] = []

    def noted(name: str, provider: Provider) -> Provider:
        def choose(call: Call) -> Sequence[Step]:
            asked.append(name)
            return provider.does(call)

        return Provider(choose)

    providers = {name: noted(name, provider) for name, provider in SILENT.items()}
    clock = Clock(monkeypatch)
    arguments = ("--json", "--timeout", "12")
    checking = asyncio.create_task(check(providers, *arguments, folder=tmp_path, more=PRICES))
    await until(lambda: asked == [*SILENT])
    for _ in range(12):  # the first words come before the last second
        await clock.pass_(1)
    done = await checking

    done.assert_failed("silent", "upstream_timeout", ["12 s", "--timeout"])
    done.assert_failed("stalled", "upstream_timeout", ["--timeout"])


@pytest.mark.proving
async def test_process_tells_the_same(tmp_path, all_of_them):
    every = PROVIDERS | SILENT
    arguments = ("--json", "--timeout", "12")
    done = await check(every, *arguments, folder=tmp_path, by=run_process, more=PRICES)

    def kinds(of: Done, name: str) -> list[tuple[str, ...]]:
        row = of.row(name)
        problems = [(one["level"], one["code"]) for one in row["problems"]]
        return [(row["status"],), *problems]

    assert (1, "") == (done.status, done.err)
    for name in PROVIDERS:
        assert kinds(all_of_them, name) == kinds(done, name)
    done.assert_failed("silent", "upstream_timeout", ["12 s", "--timeout"])
    done.assert_failed("stalled", "upstream_timeout", ["--timeout"])
    done.assert_tells_no_secret()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("uncounted", ["does not report", "estimated"]),
        ("unpriced", ["price of 'unpriced/m' is unknown", 'target = "unpriced/m"']),
    ],
)
def test_what_works_less_than_well_is_a_warning(all_of_them, name, words):
    row = all_of_them.row(name)

    assert "warning" == row["status"]
    assert ["warning"] == [one["level"] for one in row["problems"]]
    told = " ".join(f"{one['message']} {one['advice']}" for one in row["problems"])
    for word in words:
        assert word in told


def test_an_empty_answer_is_a_failure(all_of_them):
    row, problem = all_of_them.row("empty"), all_of_them.problem("empty")

    assert "failed" == row["status"]
    assert ("failure", None) == (problem["level"], problem["code"])
    assert "is empty" in problem["message"]


def test_costs_are_known_where_prices_are(all_of_them):
    report = all_of_them.report

    assert all_of_them.row("unpriced")["answer"]["cost_usd"] is None
    assert "estimate" == all_of_them.row("uncounted")["answer"]["usage_from"]
    assert "0" == all_of_them.row("wrong-key")["answer"]["cost_usd"]
    assert report["cost_complete"] is False
    assert 0 < float(report["cost_usd"]) < 0.1


def test_a_model_of_embeddings_is_not_asked(all_of_them):
    row = all_of_them.row("embeds")

    assert ("skipped", "warning") == (row["status"], row["problems"][0]["level"])
    assert row["answer"] is None


def test_failures_are_an_exit_status_of_1(all_of_them):
    assert 1 == all_of_them.status
    assert all_of_them.report["ok"] is False
    assert len(PROVIDERS) == len(all_of_them.report["targets"])


def test_no_secret_and_no_escape_sequence_is_told(all_of_them):
    all_of_them.assert_tells_no_secret()


def test_the_json_is_what_its_types_say(all_of_them):
    report = msgspec.json.decode(all_of_them.out, type=CheckReport)

    assert 1 == report.version


@pytest.mark.parametrize("by", HERE_AND_AS_PROCESS)
async def test_people_are_told_the_same_in_lines(tmp_path, by):
    chosen = {name: PROVIDERS[name] for name in ("good", "wrong-key", "uncounted")}
    done = await check(chosen, folder=tmp_path, by=by, more=PRICES)

    lines = done.out.splitlines()
    assert 1 == done.status
    assert lines[0].startswith("3 calls of at most 1024 tokens")
    assert lines[1].startswith("ok      good/m ")
    assert "first event" in lines[1]
    assert any(line.startswith("FAILED  wrong-key/m") for line in lines)
    assert any("-> the key comes from the environment variable CHECK_KEY" in x for x in lines)
    assert lines[-1].startswith("1 ok, 1 warning, 1 failed; 3 calls, 0.0")
    assert KEY not in done.out + done.err
    assert "\x1b" not in done.out + done.err
    assert 3 == done.calls


async def test_names_choose_and_each_is_called_once(tmp_path):
    chosen = {name: PROVIDERS[name] for name in ("good", "wrong-key", "uncounted")}
    more = f'{PRICES}[[route]]\nname = "fast"\ntargets = ["uncounted/m", "good/m"]\n'
    arguments = ("fast", "good/other", "--json")
    done = await check(chosen, *arguments, folder=tmp_path, more=more)

    rows = done.report["targets"]
    assert (0, "") == (done.status, done.err)  # with a warning
    assert ["uncounted/m", "good/m", "good/other"] == [row["target"] for row in rows]
    assert ["warning", "ok", "ok"] == [row["status"] for row in rows]
    assert (3, 3) == (done.calls, done.report["calls"])


async def test_an_upstream_without_a_model_says_how_to_name_one(tmp_path):
    async with serve_upstream() as upstream:
        table = f'[upstream.u]\nbase_url = "{upstream.base_url}"\n'
        (tmp_path / "seseragi.toml").write_text(table)
        status, out, err = await run_here("--json", cwd=tmp_path)

    (row,) = json.loads(out)["targets"]
    assert (1, "") == (status, err)  # for none was asked
    assert ("u", None, "skipped") == (row["target"], row["model"], row["status"])
    assert "seseragi check u/MODEL" in row["problems"][0]["advice"]
    assert [] == upstream.calls


async def test_a_dry_run_lists_the_targets_and_asks_nobody(tmp_path):
    chosen = {name: PROVIDERS[name] for name in ("good", "unpriced")}
    done = await check(chosen, "--dry-run", folder=tmp_path, more=PRICES)

    assert (0, 0) == (done.status, done.calls)
    assert ["good/m", "unpriced/m"] == [line.split()[0] for line in done.out.splitlines()]


async def test_failure_stands_before_the_warning_of_a_price(tmp_path):
    done = await check({"broken": PROVIDERS["broken"]}, "--json", folder=tmp_path)

    problems = done.row("broken")["problems"]
    assert ["failure", "warning"] == [one["level"] for one in problems]
    assert "price" in problems[1]["message"]


async def test_a_budget_refuses_what_has_no_price(tmp_path):
    chosen = {"unpriced": PROVIDERS["unpriced"]}
    budget = "[limits]\nusd_per_day = 5\n"
    done = await check(chosen, "--json", folder=tmp_path, more=budget)

    problem = done.problem("unpriced")
    assert 1 == done.status
    assert "budget_exceeded" == problem["code"]
    assert '[[price]] with target = "unpriced/m"' in problem["advice"]
    assert "stop" == done.row("unpriced")["answer"]["finish_reason"]


async def test_targets_are_asked_at_once_but_not_all_of_them(tmp_path):
    running = most = 0

    def slow(call: Call) -> list[Step]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        asyncio.get_running_loop().call_later(0.1, leave)
        return [head(), wait(0.1), send(ANSWER + FINISH + USAGE + DONE)]

    def leave() -> None:
        nonlocal running
        running -= 1

    async with serve_upstream() as upstream:
        upstream.choose = slow
        models = json.dumps([f"m{n}" for n in range(19)])
        table = f'[upstream.u]\nbase_url = "{upstream.base_url}"\nmodels = {models}\n'
        (tmp_path / "seseragi.toml").write_text(table)
        status, out, err = await run_here("--json", cwd=tmp_path)

    assert 0 == status, err
    assert 19 == json.loads(out)["calls"]
    assert 2 <= most <= 8


TWO = """
[upstream.a]
base_url = "http://127.0.0.1:9/v1"
models = ["m"]
[upstream.b]
base_url = "http://127.0.0.1:9/v1"
models = ["m"]
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing-such",), "seseragi: unknown model 'nothing-such'; models: "),
        (("--timeout", "soon"), "--timeout: invalid float value: 'soon'"),
        (("--timeout", "0"), "--timeout: not above 0 and up to 3600 seconds"),
        (("--config", "none.toml"), "file not found"),
    ],
)
def test_what_cannot_begin_is_one_line_and_2(capsys, monkeypatch, tmp_path, arguments, words):
    (tmp_path / "seseragi.toml").write_text(TWO)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "configure_logs", lambda **_: None)
    with pytest.raises(SystemExit) as ended:
        main(["check", *arguments])

    out, err = capsys.readouterr()
    assert (2, "") == (ended.value.code, out)
    assert words in err
    assert 1 == len(err.splitlines())


def shape(value: object) -> object:
    """The names in a JSON value, and of what kind the rest is."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return value if isinstance(value, str | bool | None) else type(value).__name__


async def test_the_example_of_the_documents_is_what_comes(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "DemoTransport", partial(DemoTransport, pace=0.0025))
    document = (ROOT / "docs/check.md").read_text(encoding="utf-8")
    shown = document.split("<!-- run: check -->\n```json\n")[1].split("```")[0]
    status, out, _ = await run_here("demo", "--json", cwd=tmp_path)

    assert 0 == status
    assert shape(json.loads(shown)) == shape(json.loads(out))


def test_every_field_is_documented():
    document = (ROOT / "docs/check.md").read_text(encoding="utf-8")
    fields = set()
    kinds: list[Any] = [CheckReport]
    for kind in kinds:
        for one in msgspec.structs.fields(kind):
            fields.add(one.name)
            for part in (one.type, *getattr(one.type, "__args__", ())):
                if isinstance(part, type) and issubclass(part, msgspec.Struct):
                    kinds.append(part)

    assert {"first_event_s", "advice", "cost_complete", "code"} < fields
    assert [] == [name for name in fields if f"`{name}`" not in document]


@pytest.mark.parametrize("output", ["--json", "--dry-run"])
async def test_contradictions_of_the_settings_are_warnings_on_stderr(output, tmp_path):
    done = await check({"good": Provider()}, output, folder=tmp_path, more="total_timeout_s = 9")

    (line,) = [line for line in done.err.splitlines() if "warning" in line]
    assert line.startswith("warning: total_timeout_s: 9 s is below first_event_timeout_s (300 s)")
    assert "total_timeout_s" not in done.out
    assert 0 == done.status


async def test_unknown_price_is_said_in_words(tmp_path):
    done = await check({"unpriced": Provider()}, folder=tmp_path)

    assert "; price unknown\n" in done.out
    assert done.out.endswith("1 call, 0 USD without calls of unknown price\n")
