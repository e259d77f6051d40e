"""Who may take how much: addresses, shares, and the memory of a request."""

import pytest

from app.errors import RequestError, ServiceError
from app.identity.principal import ANYONE, Principal
from app.policies.admission import (
    LOCAL,
    MAX_ADDRESSES,
    MAX_UNUSED_S,
    UNKNOWN,
    Admission,
    RequestMemory,
    Shares,
    address_of,
)
from tests.clock import StoppedClock

pytestmark = pytest.mark.pure

MESSAGE = {"role": "user", "content": "hi"}


def admission(*, max_streams: int = 100, **shares: int) -> tuple[Admission, StoppedClock]:
    clock = StoppedClock()
    return Admission(Shares(**shares), max_streams=max_streams, clock=clock), clock


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (("203.0.113.9", 5123), "203.0.113.9"),
        (("203.0.113.9", 0), "203.0.113.9"),
        (("::ffff:203.0.113.9", 1), "203.0.113.9"),
        (("2001:db8:1:2:3:4:5:6", 1), "2001:db8:1:2::/64"),
        (("2001:db8:1:2::9%eth0", 1), "2001:db8:1:2::/64"),
        (("[2001:db8:1:2::9]", 0), "2001:db8:1:2::/64"),
        (("127.0.0.1", 5123), LOCAL),
        (("127.9.9.9", 5123), LOCAL),
        (("::1", 5123), LOCAL),
        (("::ffff:127.0.0.1", 5123), LOCAL),
        # A proxy says so: the peer is the proxy.
        (("127.0.0.1", 0), "127.0.0.1"),
        (("::1", 0), "::1"),
        (None, LOCAL),
        (("_hidden", 0), UNKNOWN),
        (("", 0), UNKNOWN),
        (("1" * 100_000, 0), UNKNOWN),
    ],
)
def test_an_address_is_whose_share_is_taken(client, address):
    assert address == address_of(client)


def test_starts_come_back_one_by_one():
    counted, clock = admission(max_starts_per_minute_per_address=60)
    for _ in range(60):
        counted.count_start("a")
    with pytest.raises(ServiceError) as refused:
        counted.count_start("a")
    assert ("rate_limited", 1) == (refused.value.code, refused.value.retry_after_s)
    counted.count_start("b")
    clock.now += 1
    counted.count_start("a")
    with pytest.raises(ServiceError):
        counted.count_start("a")


def test_one_start_a_minute_is_one():
    counted, clock = admission(max_starts_per_minute_per_address=1)
    counted.count_start("a")
    with pytest.raises(ServiceError) as refused:
        counted.count_start("a")
    assert 60 == refused.value.retry_after_s
    clock.now += 60
    counted.count_start("a")


def test_a_peer_on_this_machine_has_half_of_the_streams():
    counted, _ = admission(max_streams=10, max_streams_per_address=2)
    for _ in range(5):
        counted.enter(LOCAL)
    with pytest.raises(ServiceError) as refused:
        counted.enter(LOCAL)
    assert "rate_limited" == refused.value.code
    for address in ("a", "a", "b", "b", "c"):
        counted.enter(address)
    with pytest.raises(ServiceError) as refused:
        counted.enter("d")
    assert "overloaded" == refused.value.code


def test_the_table_holds_as_many_addresses_as_it_may_and_no_open_one_is_forgotten():
    counted, _ = admission(max_streams_per_address=1)
    counted.enter("open")
    for number in range(3 * MAX_ADDRESSES):
        counted.count_start(f"address {number}")

    assert MAX_ADDRESSES + 1 >= len(counted)
    with pytest.raises(ServiceError):
        counted.enter("open")


def test_an_address_is_forgotten_once_nothing_is_open_and_its_starts_are_over():
    counted, clock = admission()
    counted.count_start("a")
    counted.enter("a")
    memory = counted.receive("a")
    memory.resize(10)
    counted.add_reader("a")
    clock.now += 60
    memory.release()
    memory.release()
    counted.remove_reader("a")
    counted.leave("a")

    assert (0, 0, 0) == (len(counted), counted.bytes, counted.streams)


def test_an_address_has_a_part_of_the_memory():
    counted, _ = admission(max_request_memory_bytes=4000)
    first, second, other = counted.receive("a"), counted.receive("a"), counted.receive("b")
    first.resize(900)
    with pytest.raises(ServiceError) as refused:
        second.resize(200)
    assert "rate_limited" == refused.value.code
    other.resize(3000)
    with pytest.raises(ServiceError) as refused:
        other.resize(3200)
    assert "overloaded" == refused.value.code
    with pytest.raises(RequestError) as large:
        other.resize(4001)
    assert "request_too_large" == large.value.code
    first.release()
    other.resize(4000)


def test_an_owner_has_a_part_of_the_memory_at_any_address():
    counted, _ = admission(max_request_memory_bytes=4000)
    first, second = counted.receive("a", "me"), counted.receive("b", "me")
    first.resize(900)
    with pytest.raises(ServiceError) as refused:
        second.resize(200)
    assert "rate_limited" == refused.value.code
    counted.receive("a", "you").resize(100)
    first.release()
    second.resize(1200)


def test_an_owner_has_few_unfinished_requests_and_half_as_many_connections():
    counted, _ = admission(max_streams_per_address=4)
    for number in range(2):
        counted.receive(f"a{number}", "me", socket=True)
    with pytest.raises(ServiceError) as refused:
        counted.receive("b", "me", socket=True)
    assert "rate_limited" == refused.value.code
    for number in range(2):
        counted.receive(f"c{number}", "me")
    with pytest.raises(ServiceError):
        counted.receive("d", "me")
    counted.receive("d", "you")


def test_kept_memory_is_taken_by_requests_the_one_used_longest_ago_first():
    counted, _ = admission(max_request_memory_bytes=4000)
    forgotten: list[str] = []
    reclaimable = {name: _kept(counted, name, forgotten) for name in "abcd"}
    for name in "abcda":
        reclaimable[name].keep(950)
    counted.receive("e").resize(900)
    assert ["b"] == forgotten
    reclaimable["a"].keep(1050)  # by itself, the address may use more
    reclaimable["c"].keep(4100)
    assert ["b", "c"] == forgotten
    for name in "abcd":
        reclaimable[name].drop()
    assert 900 == counted.bytes
    assert not counted.reclaimable


def test_large_request_takes_no_memory_kept_by_others():
    counted, _ = admission(max_request_memory_bytes=4000)
    forgotten: list[str] = []
    _kept(counted, "a", forgotten).keep(900)
    own = _kept(counted, "b", forgotten)
    own.keep(900)
    with pytest.raises(ServiceError) as refused:
        counted.receive("b").resize(3500)
    assert ("overloaded", ["b"]) == (refused.value.code, forgotten)


def test_kept_memory_is_dropped_after_a_time():
    counted, clock = admission()
    forgotten: list[str] = []
    _kept(counted, "a", forgotten).keep(10)
    clock.now += MAX_UNUSED_S + 1
    _kept(counted, "b", forgotten).keep(10)
    assert (["a"], 10) == (forgotten, counted.bytes)


def _kept(counted: Admission, name: str, forgotten: list[str]) -> RequestMemory:
    """Memory that is kept for an address; its name is added to those forgotten."""
    return RequestMemory(counted, (name,), lambda: forgotten.append(name))


BOB = Principal(tenant="t", user="bob", key="backend")
SERVER = Principal(tenant="local", key="backend")


def test_a_user_is_limited_by_name_and_not_by_an_offices_address():
    assert (BOB.owner, "") == (BOB.share, ANYONE.share)
    counted, _ = admission(max_streams_per_address=1, max_starts_per_minute_per_address=2)
    counted.enter(BOB.share)
    with pytest.raises(ServiceError, match="1 streams of your address or key"):
        counted.check_streams(BOB.share)
    counted.check_streams("203.0.113.7")
    with counted.receive(BOB.share, BOB.owner) as memory:
        assert (BOB.share,) == memory.names


def test_a_backend_may_use_half_of_the_process():
    counted, _ = admission(max_streams=20, max_streams_per_address=1)
    for _ in range(10):
        counted.count_start(SERVER.share)
        counted.enter(SERVER.share)
    with pytest.raises(ServiceError, match="10 streams"):
        counted.check_streams(SERVER.share)
    counted.check_streams("203.0.113.7")
