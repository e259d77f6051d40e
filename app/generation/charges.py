"""The charges of one run: each call adds its own when it ends."""

from collections.abc import Sequence

import msgspec

from ..eventlog.stream_ended import Charge
from ..events import Event, StreamEnd
from ..requests import ChatRequest, OutputCeiling
from .call import TargetCall
from .reservation import continue_reservation
from .settlement import Billing


class Charges(msgspec.Struct, kw_only=True):
    """What the calls of a run have cost, in the order of their ends."""

    billing: Billing
    """For the next call."""
    ceiling: OutputCeiling | None
    """The output ceiling of the next call, if limits of usage set one."""
    followed: list[Charge] = []
    """Charges of calls that another one followed."""
    parts: list[Charge] = []
    """Those of them whose text is a part of the answer."""
    last: Charge | None = None
    """That of the last call."""

    def follow(
        self, call: TargetCall, end: StreamEnd | None = None, last: Sequence[Event] = ()
    ) -> None:
        """Add a call that another one follows, or outlasts; or one without a stream."""
        if call.resent:
            self.followed += call.charge_first()
        charge = call.end(end, last)
        self.followed.append(charge)
        if call.answers:
            self.parts.append(charge)

    def continue_with(self, rest: ChatRequest) -> None:
        """Charge the next calls for the rest of the answer."""
        request = continue_reservation(self.billing.request, rest)
        self.billing = msgspec.structs.replace(self.billing, request=request)
        self.ceiling = rest.ceiling

    def close(self, call: TargetCall, end: StreamEnd, last: Sequence[Event]) -> None:
        """Add the last call, once: a log that refuses an end gets another with less information."""
        if self.last is not None:
            return
        if call.resent:
            self.followed += call.charge_first()
        charge = call.end(end, last)
        if charge.uncertain:
            charge = self.billing.settlements.charge_last(charge, self.billing.request)
        self.last = charge
