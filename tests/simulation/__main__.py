"""`python -m tests.simulation`: run seeds, and tell which of them break a law.

The exit code is 1 if one does.
"""

import argparse
import sys
import time
from pathlib import Path


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds; 0: endless")
    parser.add_argument("--minutes", type=float, help="stop after so long, of one core")
    parser.add_argument("--log", type=Path, help="write the history of the last seed to this file")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    options = parser.parse_args()
    from .checker import check, sentences
    from .world import run_world

    began, failed, seed = time.process_time(), 0, options.seed
    last = options.seed + options.count if options.count else sys.maxsize
    until = began + 60 * options.minutes if options.minutes else float("inf")
    while seed < last and time.process_time() < until:
        history = run_world(seed)
        if options.log is not None:
            options.log.write_text(history.lines(), encoding="utf-8")
        if found := check(history.records):
            failed += 1
            print(f"seed {seed} breaks a law:\n{sentences(found)}")
            print(f"  repeat it: python -m tests.simulation --seed {seed} --log history.jsonl")
            if not options.keep_going:
                seed += 1
                break
        seed += 1
    took_s = time.process_time() - began
    count = seed - options.seed
    print(f"{count} seeds, {failed} broken, {60 * count / took_s:.0f} seeds a minute of one core")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
