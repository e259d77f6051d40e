"""What a client shows of each fault, as the rows of docs/clients/frameworks.md have it.

`python -m tests.clients.families.probe PROGRAM... CLIENT` asks with any environment, such as
`/tmp/venv/bin/python tests/clients/families/ask.py pydantic-ai-chat`, and prints the row.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.clients.families.faults import (
    FAULTS,
    LATE,
    LATE_STATUS_WAIT_S,
    SAYS,
    serve_faults,
)

COLUMNS: Final[dict[str, Sequence[str]]] = {
    "cut, failed, interrupted": ("cut", "cut-first", "failed", "failed-first", "interrupted"),
    "stopped": ("stopped",),
    "refused": ("refused",),
    "killed": ("killed",),
}
"""Of the table: the faults that have to look the same."""

NOTHING: Final = "nothing"
_SHOWN: Final = ("cancelled", "failed", "interrupted")
"""How the clients that raise nothing say that an answer is not a whole one."""


async def probe(
    command: Sequence[str], clients: Sequence[str], environ: Mapping[str, str] | None = None
) -> list[list[str]]:
    """Ask for every fault by some clients of one program; return the cells of their rows.

    Raises:
        AssertionError: a client does not get the answer that is whole.
    """
    inherited = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    quiet = {"OPENAI_API_KEY": "unused", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    async with contextlib.AsyncExitStack() as stack:
        relays = [await stack.enter_async_context(serve_faults()) for _ in clients]
        late = await stack.enter_async_context(serve_faults(LATE_STATUS_WAIT_S))
        process = await asyncio.create_subprocess_exec(
            *command,
            *(f"{name}={relay.url}" for name, relay in zip(clients, relays, strict=True)),
            *(f"openai/{fault}" for fault in ("whole", *FAULTS) if fault not in LATE),
            "+".join(f"openai/{fault}" for fault in LATE) + f"@{late.url}",
            env={**inherited, **quiet, **(environ or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, complaints = await asyncio.wait_for(process.communicate(), 240)
    lines = [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]
    return [
        _row([line for line in lines if line["client"] == name], complaints.decode()[-2000:])
        for name in clients
    ]


def _row(lines: Sequence[Mapping[str, Any]], complaints: str) -> list[str]:
    found = {line["fault"].removeprefix("openai/"): line for line in lines}
    assert {"whole", *FAULTS} == found.keys(), complaints
    assert len(found) == len(lines)

    whole = found["whole"]
    assert ("".join(SAYS), NOTHING) == (whole["text"], _cell(whole)), whole
    for fault, said in found.items():
        assert said["text"] in whole["text"], (fault, said)
    return [_join({_cell(found[fault]) for fault in faults}) for faults in COLUMNS.values()]


def _cell(said: Mapping[str, Any]) -> str:
    if "raised" in said:
        return f"`{said['raised'].partition(':')[0]}`"
    if errors := said.get("errors"):
        return "`abort`" if errors == ["abort"] else "`error`"
    return f"`{said['finish']}`" if said.get("finish") in _SHOWN else NOTHING


def _join(cells: set[str]) -> str:
    return ", ".join(sorted(cells))


if __name__ == "__main__":
    *program, name = sys.argv[1:]
    (row,) = asyncio.run(probe(program, [name]))
    print(" | ".join(row))
