"""How many bytes of bodies, or of replies, requests may hold."""

import pytest

from service.api.held_bytes import SMALL_BYTES, HeldBytes, HeldLimits, Holding
from service.domain.errors import TooMuchUnread

K = SMALL_BYTES


@pytest.fixture
def held() -> HeldBytes:
    return HeldBytes(HeldLimits(max_bytes=10 * K, tenant_max_bytes=6 * K), TooMuchUnread)


def test_a_tenant_has_its_share(held: HeldBytes) -> None:
    Holding(held).reach("aa", 4 * K)
    with pytest.raises(TooMuchUnread) as refused:
        Holding(held).reach("aa", 3 * K)
    Holding(held).reach("bb", 6 * K)

    assert refused.value.facts == {"limit": 6 * K, "held_bytes": 4 * K, "byte_size": 3 * K}


def test_all_tenants_together_have_a_limit(held: HeldBytes) -> None:
    Holding(held).reach("aa", 6 * K)
    Holding(held).reach("bb", 4 * K)

    with pytest.raises(TooMuchUnread):
        Holding(held).reach("cc", 2 * K)


def test_what_has_ended_makes_room(held: HeldBytes) -> None:
    first = Holding(held)
    first.reach("aa", 6 * K)
    first.close()

    Holding(held).reach("aa", 6 * K)
    with pytest.raises(TooMuchUnread):
        Holding(held).reach("aa", 2 * K)


def test_a_request_that_grows_counts_once(held: HeldBytes) -> None:
    growing = Holding(held)
    for byte_size in (2 * K, 4 * K, 3 * K):
        growing.reach("aa", byte_size)

    assert held.total_bytes == 4 * K
    growing.close()
    assert held.total_bytes == 0


def test_a_request_that_is_alone_may_be_larger_than_the_limit(held: HeldBytes) -> None:
    alone = Holding(held)
    alone.reach("aa", 100 * K)
    alone.reach("aa", 200 * K)

    with pytest.raises(TooMuchUnread):
        Holding(held).reach("aa", 2 * K)


def test_small_requests_are_not_counted(held: HeldBytes) -> None:
    Holding(held).reach("aa", 100 * K)
    Holding(held).reach("aa", K)

    assert held.total_bytes == 100 * K


def test_what_is_expected_is_not_held(held: HeldBytes) -> None:
    Holding(held).reach("aa", 5 * K)
    with pytest.raises(TooMuchUnread):
        Holding(held).expect("aa", 2 * K)
    Holding(held).expect("bb", 5 * K)

    assert held.total_bytes == 5 * K
