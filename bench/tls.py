"""An upstream behind TLS: nginx ends TLS in front of the load generator, on its core.

So the relay reads what a provider sends, a record a token, and its own CPU is measured alone.
The delays of tokens have nginx in them, the same for every relay.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.load import Load, Unavailable
from bench.relays import nginx, started


@contextlib.contextmanager
def terminated(load: Load) -> Iterator[tuple[int, Path]]:
    """Serve the load's upstream over TLS; yield the port and the certificate of its authority."""
    try:
        from trustme import CA
    except ImportError:
        raise Unavailable("no trustme to make certificates: pip install trustme") from None
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        authority, certificate = Path(name) / "authority.pem", Path(name) / "certificate.pem"
        issuer = CA()
        issuer.cert_pem.write_to_path(authority)
        issuer.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(
            certificate
        )
        terminator = nginx(certificate=certificate)
        if terminator is None:
            raise Unavailable("no nginx to serve TLS with; apt-get install nginx-light")
        with started(terminator, load.upstream_port, load.core) as target:
            yield target.port, authority
