"""An exchange: what it keeps of what has failed."""

import gc
from weakref import ref

import pytest

from service.api.grpc.exchange import Exchange
from service.domain.errors import TooMuchUnread
from tracehouse.errors import ServiceError

pytestmark = pytest.mark.anyio


class Reply:
    """Some megabytes."""


async def test_a_reply_that_is_refused_is_forgotten_at_once() -> None:
    made: list[ref[Reply]] = []

    async def answer() -> bytes:
        reply = Reply()
        made.append(ref(reply))
        raise TooMuchUnread("too much is unread")

    async def fail(_: ServiceError) -> bytes:
        return b"refused"

    gc.disable()
    try:
        assert await Exchange().run(answer(), fail) == b"refused"
        assert [each() for each in made] == [None]
    finally:
        gc.enable()
