"""The cost of a relayed token, beside other relays or other commits: `python -m bench`.

    python -m bench [table] [--quick] [--rounds N] [--only PARTS] [--tls] [--peer litellm]
    python -m bench against [COMMIT...] [--python PATH...] [the same options]
    python -m bench growth [--quick] [--plots FOLDER] [--json FILE]
    python -m bench soak [--streams 100000] [--only LOGS] [--json FILE]
    python -m bench redis [--quick] [--rounds N] [--only PARTS] [--json FILE]
    python -m bench resume [--rounds N] [--only LOGS] [--json FILE]
    python -m bench readers [--rounds N] [--only SERVERS] [--json FILE]
    python -m bench affinity
    python -m bench hooks

The relay has one core, the load generator (upstream and readers in one) another. Believe the
ratios of one run: machines differ from minute to minute.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import affinity, against, figures, growth, hooks, readers, redis, resume, soak, table
from bench.load import Load, Unavailable, build
from bench.machine import cores, describe, summary
from bench.measures import PARTS, QUICK, Plan, Row, measure, say
from bench.relays import DIRECT, VARIANTS, Relay, free_port, nginx, own, peer, version_of


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    if options.what == "hooks":
        return hooks.run()
    if options.what == "affinity":
        return affinity.run()
    try:
        plan = _plan(options)
        core, load_core = cores()
        os.sched_setaffinity(0, {load_core})
        load = Load(build(), load_core, free_port())
        match options.what:
            case "growth":
                row = growth.run(load, core, quick=options.quick, folder=options.plots)
                return _one(options, row)
            case "soak":
                return _one(options, soak.run(load, core, plan, streams=options.streams))
            case "redis" | "resume" | "readers":
                module = {"redis": redis, "resume": resume, "readers": readers}[options.what]
                return _one(options, module.run(load, core, plan))
            case "against":
                pythons = options.python or [sys.executable]
                with against.checked_out(options.commits, pythons) as relays:
                    beside = [copying] if (copying := nginx()) else []
                    return _table(options, load, core, plan, [*relays, *beside])
            case _:
                return _table(options, load, core, plan, _relays(options))
    except Unavailable as fault:
        say(f"bench: {fault}")
        return 2
    except KeyboardInterrupt:
        return 130


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = (
        "table",
        "against",
        "growth",
        "soak",
        "redis",
        "resume",
        "readers",
        "affinity",
        "hooks",
    )
    parser.add_argument("what", nargs="?", default="table", choices=kinds)
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="of against: to compare with")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PATH",
        help="of against: the interpreter, or several to compare",
    )
    parser.add_argument(
        "--together",
        action="store_true",
        help="all relays at once: steadier ratios on busy machines",
    )
    parser.add_argument("--tls", action="store_true", help="also with the upstream behind TLS")
    parser.add_argument("--quick", action="store_true", help="shorter, one round, less exact")
    parser.add_argument("--rounds", type=int, help="of each relay, taking turns")
    parser.add_argument(
        "--only",
        default="",
        help=f"parts, comma-separated: {', '.join(PARTS)}, figures;"
        f" of redis: {', '.join(redis.PARTS)}; of resume, soak: {', '.join(resume.LOGS)};"
        f" of readers: nchan, {', '.join(resume.LOGS)}",
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME[=COMMAND]",
        help=f"another relay: litellm, portkey; ours: {', '.join(VARIANTS)};"
        " or a command with {port} and {upstream}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="of growth: draw them there")
    parser.add_argument("--streams", type=int, default=100_000, help="of the soak")
    return parser.parse_args(words)


def _table(
    options: argparse.Namespace, load: Load, core: int, plan: Plan, relays: list[Relay]
) -> int:
    relays = [*relays, *map(peer, options.peer)]
    rows = measure(
        relays, load, core, replace(plan, together=len(relays) if options.together else 1)
    )
    figured = "figures" in plan.parts or not plan.parts
    ours = [figures.measure(load, core, plan)] if figured else []
    base = relays[0].name if options.what == "against" else table.BASE
    print(table.render(rows, base))
    for row in ours:
        print("\n" + table.render_figures(row, figures.SILENCE_S))
    print("\n" + table.noise(rows, base))
    versions = [f"{row.relay.name} {version_of(row.relay)}" for row in rows if row.relay.version]
    print(", ".join([summary(describe()), *versions]))
    for row in rows + ours:
        for complaint in row.complaints:
            print(f"{row.relay.name}: {complaint}")
        for part, late_ms in row.late.items():
            print(f"{row.relay.name}, {part}: not quiet, the load itself was {late_ms:.0f} ms late")
    _write(options.json, rows + ours)
    return int(any(row.complaints for row in rows + ours if row.relay.ours))


def _one(options: argparse.Namespace, row: Row) -> int:
    _write(options.json, [row])
    return int(bool(row.complaints))


def _write(file: Path | None, rows: Sequence[Row]) -> None:
    if file is not None:
        written = {"machine": describe(), "rows": [table.as_json(row) for row in rows]}
        file.write_text(json.dumps(written, indent=1) + "\n")


def _plan(options: argparse.Namespace) -> Plan:
    others = {
        "redis": [*redis.PARTS],
        "resume": [*resume.LOGS],
        "soak": [*resume.LOGS],
        "readers": ["nchan", *resume.LOGS],
    }
    known = others.get(options.what, [*PARTS, "figures"])
    plan = QUICK if options.quick else Plan()
    parts = tuple(filter(None, options.only.split(",")))
    if options.what == "against":
        if not options.commits and len(options.python) < 2:
            raise Unavailable("against: name a commit, or --python twice, to compare with")
        parts = parts or against.PARTS
    elif options.commits:
        raise Unavailable(f"{options.what} takes no commits; use: python -m bench against COMMIT")
    if unknown := set(parts) - set(known):
        raise Unavailable(f"unknown part {unknown.pop()!r}; parts: {', '.join(known)}")
    return replace(plan, rounds=options.rounds or plan.rounds, parts=parts, tls=options.tls)


def _relays(options: argparse.Namespace) -> list[Relay]:
    relays = [DIRECT]
    if (copying := nginx()) is None:
        say("no nginx: the ratios are left out; apt-get install nginx-light")
    else:
        relays.append(copying)
    relays.append(own())
    if not options.quick:
        relays.append(own("seseragi, native", path="/v1/chat"))
    return relays


if __name__ == "__main__":
    sys.exit(main())
