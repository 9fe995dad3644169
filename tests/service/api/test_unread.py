"""How many bytes of replies may wait to be read."""

import pytest

from service.api.unread import Unread, UnreadLimits
from service.domain.errors import TooMuchUnread


@pytest.fixture
def unread() -> Unread:
    return Unread(UnreadLimits(max_bytes=100, tenant_max_bytes=60))


def test_a_tenant_has_its_share(unread: Unread) -> None:
    unread.take("aa", 40)
    with pytest.raises(TooMuchUnread) as refused:
        unread.take("aa", 21)
    unread.take("bb", 60)

    assert refused.value.facts == {"limit": 60, "unread_bytes": 40, "byte_size": 21}


def test_all_tenants_together_have_a_limit(unread: Unread) -> None:
    unread.take("aa", 60)
    unread.take("bb", 40)

    with pytest.raises(TooMuchUnread):
        unread.take("cc", 1)


def test_what_was_read_makes_room(unread: Unread) -> None:
    unread.take("aa", 60)
    unread.give_back("aa", 60)

    unread.take("aa", 60)
    with pytest.raises(TooMuchUnread):
        unread.take("aa", 1)


def test_one_reply_may_be_larger_than_the_limit(unread: Unread) -> None:
    unread.take("aa", 1000)

    with pytest.raises(TooMuchUnread):
        unread.take("aa", 1)
