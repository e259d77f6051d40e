"""Client programs of the tests, run to their end."""

import asyncio
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


async def run(
    *command: str | Path,
    folder: Path = ROOT,
    quiet: bool = False,
    timeout_s: float = 120,
    **environ: str,
) -> str:
    """Return what a program prints; it fails the test if it fails, or, if `quiet`, complains.

    It has no proxies, and `environ` in addition to this process's variables.
    """
    inherited = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**inherited, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, complaints = await asyncio.wait_for(process.communicate(), timeout_s)
    assert 0 == process.returncode, (out + complaints).decode()[-5000:]
    assert not (quiet and complaints), complaints.decode()
    return out.decode()
