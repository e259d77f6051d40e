"""The conformance kit over clients: ours pass, and one with a fault fails where it has it."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.cases import load
from conformance.client import run_clients
from tests.needs import file, program

ROOT = Path(__file__).parents[2]
KIT = ROOT / "conformance"
ADAPTERS = KIT / "adapters"
RESULTS = (KIT / "RESULTS.md").read_text(encoding="utf-8")
BROKEN = Path(__file__).with_name("broken.py")

MANY_RUNS = {"cut-everywhere", "closed-everywhere", "split-everywhere"}
SLOW = MANY_RUNS | {"retry-after", "long-event"}


def named(*names):
    """The cases of these names."""
    found = [case for case in load("client") if case["name"] in names]
    assert len(names) == len(found)
    return found


def counted(adapter):
    """What RESULTS.md says of an adapter: passed, failed, not verified."""
    row = re.search(rf"^\| `{adapter}`: .+? \| (\d+) \| (\d+) \| (\d+) \|$", RESULTS, re.MULTILINE)
    assert row is not None, adapter
    return [int(count) for count in row.groups()]


def counts(results):
    states = [one.state for one in results]
    return [states.count(state) for state in ("pass", "fail", "not verified")]


def outcomes(results):
    """The reasons of the cases that have not passed, by state."""
    found: dict[str, dict] = {"fail": {}, "not verified": {}}
    for one in results:
        if one.state != "pass":
            found[one.state][one.name] = one.reasons
    return found


def python(script, *arguments):
    return shlex.join([sys.executable, str(script), *arguments])


def broken(fault, *names, timeout_s=10):
    cases = named(*names)
    found = outcomes(run_clients(python(BROKEN, fault), cases, timeout_s=timeout_s))
    assert {} == found["not verified"]
    return found["fail"]


RIGHT = ("whole", "failed", "cut", "closed-without-an-end", "cut-and-deleted", "no-such-stream")


def test_a_client_without_a_fault_passes():
    assert {} == broken("none", *RIGHT, "line-separators-in-text")


def test_a_client_that_comes_back_after_the_end_fails():
    found = broken("reconnects", "whole", "failed", "cut")

    assert {"whole", "failed", "cut"} == found.keys()
    assert ("requests: expected ['GET 0'], got ['GET 0', 'GET 10']",) == found["whole"]


def test_a_client_that_shows_a_cut_as_finished_fails():
    found = broken("finishes", *RIGHT)

    assert {"cut", "closed-without-an-end", "cut-and-deleted"} == found.keys()
    assert "status: expected None, got 'completed'" in found["cut-and-deleted"]


def test_a_client_that_splits_at_u2028_fails():
    found = broken("splits", "line-separators-in-text", "characters-as-escapes", "failed")

    assert {"line-separators-in-text"} == found.keys()


def test_a_client_that_repeats_events_fails():
    found = broken("repeats", "whole", "cut", "cut-and-deleted")

    assert {"cut", "cut-and-deleted"} == found.keys()
    assert "requests: expected ['GET 0', 'GET 5'], got ['GET 0', 'GET 0']" in found["cut"]
    assert any(
        reason.startswith("events: 5 too many") or "number 6" in reason for reason in found["cut"]
    )


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("dies", "the adapter ended without a report; its stderr may say why"),
        ("hangs", "the client did not report within 0.1 s"),
        ("babbles", "the adapter printed no JSON: 'reading\\n'"),
    ],
)
def test_an_adapter_without_a_report_fails_and_does_not_stop_the_run(fault, reason):
    timeout_s = 0.1 if fault == "hangs" else 10
    found = broken(fault, "failed", "whole", timeout_s=timeout_s)

    assert {"failed": (reason,), "whole": (reason,)} == found


def test_a_command_that_cannot_be_started_is_named():
    results = run_clients("/no/such/client", named("whole"), timeout_s=1)

    assert ("/no/such/client: cannot be started: No such file or directory",) == results[0].reasons


def test_what_a_client_does_not_do_is_no_failure(capsys):
    assert 0 == main(["--client", python(BROKEN, "refuses"), "--only", "json-lines"])
    assert (
        "not verified  json-lines  (R26)\n              it reads nothing\n"
        "0 passed, 0 failed, 1 not verified\n"
    ) == capsys.readouterr().out


def test_the_exit_code_tells_of_a_failure(capsys):
    assert 1 == main(["--client", python(BROKEN, "reconnects"), "--only", "whole", "--json"])
    assert '{"case": "whole", "requires": ["R17", "R18", "R34"], "result": "fail"' in (
        capsys.readouterr().out
    )


def test_a_pattern_without_a_case_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--client", "true", "--only", "whol"])

    assert 2 == ended.value.code
    assert "--only: no client case is called 'whol'" in capsys.readouterr().err


@pytest.mark.parametrize("part", range(6))
def test_our_decoders_in_python_pass(part, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cases = [case for case in load("client") if case["name"] not in SLOW][part::6]
    results = run_clients(python(ADAPTERS / "python_reader.py"), cases, timeout_s=10)

    assert {"fail": {}, "not verified": {}} == outcomes(results)


def test_the_folder_alone_is_enough(tmp_path):
    """For a stranger, who has neither this repository nor a package of Python's."""
    copy = shutil.copytree(KIT, tmp_path / "conformance")
    client = python(copy / "adapters/example.py")
    command = [
        sys.executable,
        "-E",
        "-S",
        "-m",
        "conformance",
        "--client",
        client,
        "--only",
        "whole",
    ]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30)

    assert (0, "") == (run.returncode, run.stderr)
    assert "1 passed, 0 failed, 0 not verified" == run.stdout.splitlines()[-1]


@pytest.mark.proving
def test_our_decoders_in_python_pass_cut_everywhere(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    results = run_clients(python(ADAPTERS / "python_reader.py"), load("client"), timeout_s=10)

    assert {"fail": {}, "not verified": {}} == outcomes(results)
    assert counted("python_reader.py") == counts(results)


def beyond(*needs):
    """The names of the cases that need something else."""
    return {case["name"] for case in load("client") if {*case.get("needs", [])} - {*needs}}


@pytest.mark.proving
def test_the_example_passes_what_it_does():
    results = run_clients(python(ADAPTERS / "example.py"), load("client"), timeout_s=10)
    found = outcomes(results)

    assert {} == found["fail"]
    assert beyond("after", "again", "snapshot") == found["not verified"].keys()
    assert counted("example.py") == counts(results)


@pytest.mark.proving
def test_the_browser_client_passes():
    command = shlex.join([program("node"), str(ADAPTERS / "javascript.mjs")])
    results = run_clients(command, load("client"), timeout_s=10)
    found = outcomes(results)

    assert {} == found["fail"]
    assert beyond("start", "after", "again", "tools") == found["not verified"].keys()
    assert counted("javascript.mjs") == counts(results)


@pytest.mark.proving
def test_an_eventsource_fails_only_where_events_come_again():
    file(ROOT / "node_modules/eventsource/package.json", how="run npm ci")
    command = shlex.join([program("node"), str(ADAPTERS / "eventsource.mjs")])
    results = run_clients(command, load("client"), timeout_s=10)
    found = outcomes(results)

    assert {"events-come-again", "events-come-again-in-one-answer"} == found["fail"].keys()
    assert beyond("after", "snapshot") == found["not verified"].keys()
    assert counted("eventsource.mjs") == counts(results)
