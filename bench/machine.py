"""What the figures were taken on: machine, versions, commit; and which cores do what."""

import os
import platform
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from bench.load import Unavailable

LIBRARIES = ("starlette", "uvicorn", "uvloop", "httptools", "httpx2", "msgspec")


def cores() -> tuple[int, int]:
    """Return the relay's core and the load generator's."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise Unavailable("two cores are needed, one for the relay and one for the load")
    return allowed[0], allowed[1]


def describe() -> dict[str, object]:
    """Return what the figures depend on."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": {name: metadata.version(name) for name in LIBRARIES},
    }


def summary(found: Mapping[str, object]) -> str:
    """Put what matters most of it into a line."""
    names = ("date", "cpu", "kernel", "python", "commit")
    return f"{found['cores']} cores, " + ", ".join(str(found[name]) for name in names)


def resident_kib(pid: int) -> int:
    """Return the resident memory of a process and its children."""
    status = Path(f"/proc/{pid}/status").read_text()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(status.split("VmRSS:")[1].split()[0]) + sum(map(resident_kib, map(int, children)))


def cpu_s(pid: int) -> float:
    """Return the user and system time of a process so far."""
    return time.clock_gettime((~pid << 3) | 2)  # the kernel's clock of a process's CPU time


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    """Name the commit, with a plus if files were changed since."""
    git = ["git", "-C", str(Path(__file__).parent.parent)]
    asked = (
        ["describe", "--always", "--abbrev=12"],
        ["status", "--porcelain", "-uno", "--", "app"],
    )
    try:
        name, changed = (
            subprocess.run(
                [*git, *words], capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in asked
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name}+" if changed else name
