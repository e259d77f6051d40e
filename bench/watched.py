"""Our relay as it comes, which on SIGUSR1 writes what it holds to the file in BENCH_COUNTS.

It forgets the ids of removed streams after BENCH_REMEMBERED_S, and looks for them as often.
"""

import asyncio
import gc
import os
import signal
from pathlib import Path

from app.__main__ import main
from app.eventlog.redis import orphans
from app.eventlog.sqlite import database
from app.eventlog.sqlite import log as sqlite_log


def _write(*_: object) -> None:
    gc.collect()
    file = Path(os.environ["BENCH_COUNTS"])
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{len(asyncio.all_tasks())} {len(gc.get_objects())}")
    fresh.rename(file)


if __name__ == "__main__":
    remembered_s = int(os.environ["BENCH_REMEMBERED_S"])
    for module in (orphans, database):
        module.REMEMBERED_S = remembered_s  # type: ignore[attr-defined]
    sqlite_log.SWEEP_S = remembered_s
    signal.signal(signal.SIGUSR1, _write)
    main()
