"""The cases: JSON lines in `cases/`."""

import json
from typing import Any

from .wire import FOLDER

CLIENT_KEYS = {
    "name", "requires", "action", "stream", "after", "needs", "answers", "vary", "expect",
}  # fmt: skip
SERVER_KEYS = {"name", "requires", "models", "steps"}

NEEDS = {
    "start": "sends the POST itself",
    "after": "begins behind a cursor",
    "again": "asks again after a refusal that may pass",
    "snapshot": "reads joined deltas, whose numbers skip",
    "json_lines": "reads JSON lines",
    "tools": "runs tool calls",
}
"""What a client may lack, and then reports as not verified."""

Case = dict[str, Any]


def load(kind: str) -> list[Case]:
    """Return the cases of `client` or `server`.

    Raises:
        ValueError: a line is no case.
    """
    keys = {"client": CLIENT_KEYS, "server": SERVER_KEYS}[kind]
    cases: list[Case] = []
    for path in sorted((FOLDER / kind).glob("*.jsonl")):
        for number, line in enumerate(path.read_text("utf-8").split("\n"), start=1):
            if not line.strip():
                continue
            place = f"{path.name}:{number}"
            try:
                case = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{place}: not JSON: {error}") from None
            if unknown := case.keys() - keys:
                raise ValueError(f"{place}: unknown keys {sorted(unknown)}; use {sorted(keys)}")
            if unknown := set(case.get("needs", [])) - NEEDS.keys():
                raise ValueError(f"{place}: unknown needs {sorted(unknown)}; use {sorted(NEEDS)}")
            if not case.get("requires"):
                raise ValueError(f"{place}: requires names no requirement")
            cases.append(case)
    names = [case["name"] for case in cases]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{kind}: two cases are called {sorted(twice)}")
    return cases
