"""A test that leaves something open fails by itself, and harms no other."""

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

ROOT = Path(__file__).parent.parent
CONFTEST = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

LEAVES = {
    "socket": "def test_it():\n    socket.create_server(('127.0.0.1', 0))\n",
    "connection": """
async def test_it():
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    await asyncio.open_connection(*server.sockets[0].getsockname())
    server.close()
""",
    "task": "async def test_it():\n    kept.append(asyncio.create_task(asyncio.sleep(600)))\n",
    "process": """
def test_it():
    kept.append(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']))
""",
}
SAYS = {
    "socket": "*unclosed <socket*",
    "connection": "*unclosed *transport*",
    "task": "*tasks left behind:*",
    "process": "*processes left behind:*",
}
HEAD = "import asyncio, socket, subprocess, sys, time\nimport pytest\nkept = []\n"
AFTER = """
def test_next():
    import gc
    gc.collect()
    from tests.leaks import children
    assert not children()
"""


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return pytester


def run(pytester: pytest.Pytester, tests: dict[str, str], *options: str) -> pytest.RunResult:
    pytester.makeconftest(CONFTEST)
    pytester.makepyprojecttoml(PROJECT.replace('testpaths = ["tests"]', ""))
    pytester.makepyfile(**{f"test_{name}": test for name, test in tests.items()})
    return pytester.runpytest_subprocess("-n", "0", *options)


def test_what_a_test_leaves_open_is_its_own_failure(pytester: pytest.Pytester):
    result = run(pytester, {what: HEAD + test + AFTER for what, test in LEAVES.items()})

    assert "::test_next" not in result.stdout.str()
    assert len(LEAVES) <= result.parseoutcomes()["passed"]
    result.stdout.fnmatch_lines_random([f"* test_{what}.py::test_it*" for what in LEAVES])
    result.stdout.fnmatch_lines_random(list(SAYS.values()))


def test_what_a_failed_test_leaves_open_harms_no_other(pytester: pytest.Pytester):
    fails = "    raise RuntimeError('it fails')\n"
    tests = {what: HEAD + f"{test.rstrip()}\n{fails}" + AFTER for what, test in LEAVES.items()}
    result = run(pytester, tests)

    outcomes = result.parseoutcomes()
    assert (len(LEAVES), len(LEAVES)) == (outcomes["passed"], outcomes["failed"])
    assert len(LEAVES) == result.stdout.str().count("E       RuntimeError: it fails")
    assert "::test_next" not in result.stdout.str()


def test_pure_test_opens_nothing(pytester: pytest.Pytester):
    deeds = (
        "socket.create_server(('127.0.0.1', 0))",
        "socket.create_connection(('127.0.0.1', 9))",
        "subprocess.run(['true'])",
    )
    tests = "".join(f"def test_{n}():\n    {deed}\n" for n, deed in enumerate(deeds))
    result = run(pytester, {"deeds": f"{HEAD}pytestmark = pytest.mark.pure\n{tests}"})

    says = [f"*test_{number} is marked pure and does *" for number, _ in enumerate(deeds)]
    result.stdout.fnmatch_lines_random(says)


def test_layers_that_are_not_asked_for_are_not_imported(pytester: pytest.Pytester):
    marks = {"pure": "pure", "proving": "proving", "alone": "proving, pytest.mark.alone"}
    for layer, marked in marks.items():
        test = f"import pytest\npytestmark = [pytest.mark.{marked}]\ndef test_it(): 0\n"
        pytester.makepyfile(**{f"test_{layer}": test})
    default = (
        "import sys\ndef test_it(): assert not {'test_proving', 'test_alone'} & {*sys.modules}\n"
    )
    for asked, passed in (("pure", 1), ("not proving", 2), ("proving", 2), ("", 4)):
        result = run(pytester, {"default": default}, "-m", asked)
        if asked:
            result.assert_outcomes(passed=passed, deselected=2 if asked == "proving" else 0)
        else:
            assert passed == sum(result.parseoutcomes().values())
