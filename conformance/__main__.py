"""`python -m conformance`: runs the cases over a client or a server."""

import argparse
import fnmatch
import sys

from .cases import load
from .client import run_clients
from .results import as_json, as_text
from .server import run_server

DESCRIPTION = "Runs the cases of PROTOCOL.md over a client or a server; see README.md."


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance", description=DESCRIPTION)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--client", metavar="COMMAND", help="the adapter of a client")
    what.add_argument("--server", metavar="URL", help="a running server with the demo models")
    header = "a header of each request to the server, such as a credential"
    parser.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'", help=header
    )
    parser.add_argument("--only", default="*", metavar="PATTERN", help="cases to run, as cut-*")
    timeout = "seconds for a case (client: 10, server: 30)"
    parser.add_argument("--timeout", type=float, metavar="S", help=timeout)
    parser.add_argument("--json", action="store_true", help="print a JSON line for each case")
    options = parser.parse_args(arguments)
    kind = "server" if options.client is None else "client"
    cases = [case for case in load(kind) if fnmatch.fnmatch(case["name"], options.only)]
    if not cases:
        parser.error(f"--only: no {kind} case is called {options.only!r}")
    if options.client is not None:
        results = run_clients(options.client, cases, timeout_s=options.timeout or 10)
    else:
        wrong = [header for header in options.header if ":" not in header]
        if wrong:
            parser.error(f"--header: {wrong[0]!r} has no colon; write 'NAME: VALUE'")
        pairs = (header.partition(":") for header in options.header)
        headers = {name.strip(): value.strip() for name, _, value in pairs}
        try:
            results = run_server(
                options.server, cases, headers=headers, timeout_s=options.timeout or 30
            )
        except OSError as error:
            parser.error(f"--server: no answer from {options.server}: {error}")
        except ValueError as error:
            parser.error(f"--server: {error}")
    print(as_json(results) if options.json else as_text(results))
    return int(any(one.state == "fail" for one in results))


if __name__ == "__main__":
    sys.exit(main())
