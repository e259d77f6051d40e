"""A process that brings rows into the records, and is killed with -9 after a step.

python -m tests.records.dying URL FILE STEP TIMES
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from app.records.address import Address
from app.records.database import Database
from app.records.recorder import Recorder
from tests.records.kept import KeptRows


async def main(url: str, kept: Path, last: str, times: int) -> None:
    left = times

    def did(step: str) -> None:
        nonlocal left
        if step == last:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    recorder = Recorder(KeptRows(kept), Database(Address(url)), steps=did)
    await recorder._write_waiting()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
