"""The decoder of the browser client reads the same table as the relay's."""

import base64
import json
import random
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.framing.cases import CASES, Case
from tests.needs import program

pytestmark = pytest.mark.proving


def sizes(case: Case) -> list[list[int]]:
    """Return ways to cut a body: not at all, everywhere, and at random."""
    length = len(case.wire)
    randomly = random.Random(case.name)
    ways = [[length], [1] * length]
    for _ in range(8):
        edges = sorted(randomly.choices(range(length + 1), k=randomly.randrange(1, 9)))
        ways.append([end - start for start, end in pairwise([0, *edges, length])])
    return ways


def expected(case: Case) -> list[Any]:
    rest = case.rest and msgspec.structs.asdict(case.rest)
    return [[msgspec.structs.asdict(message) for message in case.messages], rest]


def test_every_case_under_every_cut() -> None:
    asked = [(case, way) for case in CASES for way in sizes(case)]
    bodies = json.dumps([[base64.b64encode(case.wire).decode(), way] for case, way in asked])
    script = str(Path(__file__).with_name("decode.mjs"))
    command = [program("node"), script]
    done = subprocess.run(command, input=bodies, capture_output=True, text=True, check=True)

    found = json.loads(done.stdout)
    assert len(asked) == len(found)
    wrong = [
        (case.name, way[:20], result)
        for (case, way), result in zip(asked, found, strict=True)
        if result != expected(case)
    ]
    assert [] == wrong[:5]
