"""A process whose children bring rows into the records, each killed with -9 after a step.

python -m tests.records.dying URL FOLDER STEP:TIMES ...

The rows of each child are in the file of its number. To start one costs no imports.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from app.records.address import Address
from app.records.database import Database
from app.records.recorder import Recorder
from tests.records.kept import KeptRows


async def write(url: str, kept: Path, last: str, times: int) -> None:
    left = times

    def did(step: str) -> None:
        nonlocal left
        if step == last:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    recorder = Recorder(KeptRows(kept), Database(Address(url)), steps=did)
    await recorder._write_waiting()


def main(url: str, folder: str, *cases: str) -> None:
    ends = []
    for number, case in enumerate(cases):
        step, _, times = case.partition(":")
        if not (pid := os.fork()):
            asyncio.run(write(url, Path(folder, str(number)), step, int(times)))
            os._exit(0)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    print(json.dumps(ends))


if __name__ == "__main__":
    main(*sys.argv[1:])
