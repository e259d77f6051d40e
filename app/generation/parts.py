"""The collaborators that the streams and calls of one process share."""

import msgspec

from ..clock import Clock
from ..eventlog import EventLog
from ..eventlog.accounts import Accounts
from ..eventlog.peers import Peers
from ..hooks.contract import Hooks
from ..policies.admission import Admission
from ..policies.deadlines import Limits
from ..telemetry.observer import Observers
from ..upstreams.http import HttpClient
from ..upstreams.routes import Upstreams
from .reservation import Reservations
from .settlement import Settlements
from .via import ViaName


class Parts(msgspec.Struct, kw_only=True):
    """Collaborators of every stream and call."""

    upstreams: Upstreams
    client: HttpClient
    event_log: EventLog
    accounts: Accounts
    peers: Peers
    limits: Limits
    reservations: Reservations
    settlements: Settlements
    """For new streams and calls: a reload replaces these two, but not those of running ones."""
    admission: Admission
    observer: Observers
    via_name: ViaName
    clock: Clock
    hooks: Hooks | None = None
    trace_content: bool = False
    """Whether observers receive requests and answers."""
