"""The table of connections, by address."""

import pytest

from app.errors import RelayError
from app.server.connection_limits import LOG_INTERVAL_S, ConnectionLimits

pytestmark = pytest.mark.pure

MOST, EACH = 100, 10
PLACES = [
    ("192.0.2.1", EACH),
    ("127.0.0.1", MOST // 2),
    ("::1", MOST // 2),
    ("::ffff:127.0.0.1", MOST // 2),
    ("198.51.100.7", MOST),
    ("::ffff:198.51.100.7", MOST),
    ("2001:db8::7", MOST),
    ("2001:db9::7", EACH),
    ("fe80::1%eth0", EACH),
    (None, MOST),
    ("/run/socket", MOST),
]
TRUSTED = ("198.51.100.0/24", "2001:db8::/48", "127.0.0.1", "::1")


@pytest.mark.parametrize(("address", "limit"), PLACES)
def test_places_of_an_address(address, limit):
    limits = ConnectionLimits(MOST, each=EACH, trusted=TRUSTED)
    names = [limits.enter(address) for _ in range(limit)]

    with pytest.raises(RelayError) as refused:
        limits.enter(address)
    limits.leave(names[0])
    limits.enter(address)

    assert refused.value.code == ("overloaded" if limit == MOST else "rate_limited")


def test_network_of_one_customer_is_one_address():
    limits = ConnectionLimits(MOST, each=EACH, trusted=())
    for number in range(EACH):
        limits.enter(f"2001:db8::{number:x}")

    with pytest.raises(RelayError):
        limits.enter("2001:db8::ffff:ffff")
    limits.enter("2001:db8:0:1::1")


def test_refusals_are_told_now_and_then():
    limits = ConnectionLimits(1, each=1, trusted=())

    assert [1, 0, 0, 3] == [
        limits.refusals(now) for now in (5, 6, 5 + LOG_INTERVAL_S / 2, 5 + LOG_INTERVAL_S)
    ]
