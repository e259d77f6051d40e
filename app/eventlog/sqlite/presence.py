"""Which of the processes that share a file live: each holds a lock while it does.

The lock is the kernel's, on a file of the process's own beside the shared one. It goes with
the process however that ends, and a process that sleeps keeps it: nobody is taken for lost
who will go on, and no clock is asked.
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
        """Take the lock of a process; None if that one lives.

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
        """Give up the lock, and remove its file."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def clear(shared: Path) -> None:
    """Remove what processes left that are gone; there must be none that lives."""
    for path in shared.parent.glob(f"{shared.name}-process-*"):
        path.unlink(missing_ok=True)
