"""Liveness of the processes that share a file: each holds a kernel lock on a file of its own.

The kernel releases the lock however the process ends. A suspended process retains it, so that it
is never taken for dead, and no clock is involved.
"""

import fcntl
from pathlib import Path
from typing import IO


class Presence:
    """The lock of one process, held until `leave` or the end of this one."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = path
        self._file = file

    @classmethod
    def take(cls, shared: Path, process: int) -> "Presence | None":
        """Take the lock of a process; None if that process is alive.

        Raises:
            OSError: the file cannot be made.
        """
        path = shared.with_name(f"{shared.name}-process-{process}")
        path.touch(mode=0o600)
        file = path.open("rb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except BaseException:
            file.close()
            raise
        return cls(path, file)

    def leave(self) -> None:
        """Release the lock and remove its file."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def clear(shared: Path) -> None:
    """Remove the files of dead processes; none may be alive."""
    for path in shared.parent.glob(f"{shared.name}-process-*"):
        path.unlink(missing_ok=True)
