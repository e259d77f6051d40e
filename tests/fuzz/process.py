"""The process that fuzzes one target with Atheris: `python -m tests.fuzz` starts it.

Its arguments: the target, seconds or 0, a seed or 0, a folder for findings, and maybe one for the
corpus.
"""

import os
import random
import sys
import time
import traceback
from pathlib import Path
from typing import Any

MAX_BYTES = 4096
INPUT_S = 60
"""The longest that one input may take: a hang, on the busiest machine."""

MEMORY_MB = 1024


def main(name: str, seconds: int, seed: int, folder: Path, *corpora: str) -> None:
    began = time.monotonic()
    import atheris

    with atheris.instrument_imports(include=["app"]):
        from tests.fuzz.targets import load

        target = load(name)
    begin = folder / "seeds"
    begin.mkdir()
    for number, example in enumerate(target.seeds):
        (begin / str(number)).write_bytes(example)
    words = folder / "words"
    words.write_text("".join(f'"{quote(token)}"\n' for token in target.tokens if token))
    for corpus in corpora:
        Path(corpus).mkdir(parents=True, exist_ok=True)
    left = max(1, seconds - round(time.monotonic() - began)) if seconds else 0
    options = {
        **{"artifact_prefix": f"{folder}/", "dict": words, "timeout": INPUT_S},
        **{"max_len": MAX_BYTES, "rss_limit_mb": MEMORY_MB, "max_total_time": left},
        "seed": seed,
    }
    more: dict[str, Any] = {}
    if (change := target.mutate) is not None:

        def mutate(data: bytes, most: int, seed: int) -> bytes:
            dice = random.Random(seed)
            bytewise = dice.random() < 0.3
            return bytes(atheris.Mutate(data, most) if bytewise else change(data, dice)[:most])

        more["custom_mutator"] = mutate
    given = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([sys.argv[0], *given, *corpora, str(begin)], target.check, **more)
    try:
        atheris.Fuzz()  # which ends the process, by a SystemExit after a finding
    except Exception:  # it was refused; the usual exit waits for an interpreter that is gone
        traceback.print_exc()
        os._exit(1)


def quote(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), *sys.argv[5:])
