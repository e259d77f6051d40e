"""What a client shows of each fault, as the rows of docs/clients/frameworks.md have it.

`python -m tests.clients.families.probe PROGRAM... CLIENT` asks with any environment, such as
`/tmp/venv/bin/python tests/clients/families/ask.py agno-chat`, and prints the row.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.clients.families.faults import FAULTS, SAYS, serve_faults

COLUMNS: Final[dict[str, Sequence[str]]] = {
    "cut, failed, interrupted": ("cut", "cut-first", "failed", "failed-first", "interrupted"),
    "stopped": ("stopped",),
    "refused": ("refused",),
    "killed": ("killed",),
}
"""Of the table: the faults that have to look the same."""

NOTHING: Final = "nothing"
_SHOWN: Final = ("RunError", "cancelled", "failed", "interrupted")
"""How the clients that raise nothing say that an answer is not a whole one."""


async def probe(command: Sequence[str], environ: Mapping[str, str] | None = None) -> list[str]:
    """Ask for every fault by a client; return the cells of its row.

    Raises:
        AssertionError: the client does not get the answer that is whole.
    """
    inherited = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    quiet = {"OPENAI_API_KEY": "unused", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    async with serve_faults() as relay:
        process = await asyncio.create_subprocess_exec(
            *command,
            relay.url,
            *(f"openai/{fault}" for fault in ("whole", *FAULTS)),
            env={**inherited, **quiet, **(environ or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, complaints = await asyncio.wait_for(process.communicate(), 240)
    lines = [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]
    found = {line["fault"].removeprefix("openai/"): line for line in lines}
    assert ["whole", *FAULTS] == [*found], complaints.decode()[-2000:]

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
    print(" | ".join(asyncio.run(probe(sys.argv[1:]))))
