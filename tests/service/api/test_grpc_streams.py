"""A stream over gRPC whose client is in this process: what the service keeps of it between two requests."""

import asyncio
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from service.api.exchanges import Exchanges
from service.api.grpc.capacity import Capacity
from service.api.grpc.limits import GrpcLimits
from service.api.grpc.open_inference_pb2 import ModelStreamInferResponse
from service.api.grpc.request import Request
from service.api.grpc.stream import Stream
from service.api.held_bytes import HeldBytes, HeldLimits
from service.domain.api_key import Scope
from service.domain.errors import TooMuchArrives, TooMuchUnread
from service.turns import TurnLimits
from tests.conftest import PATIENCE_S

LARGE_BYTES = 2**20
ONE_TURN = TurnLimits(running_max=1, tenant_running_max=1, waiting_max=1, tenant_waiting_max=1)


class Text(bytes):
    """Bytes of which it shows how many somebody still has."""

    living = 0

    def __init__(self, _: object) -> None:
        Text.living += 1

    def __del__(self) -> None:
        Text.living -= 1


class Client:
    """The client's end of a stream, in place of gRPC."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[Text | None] = asyncio.Queue()
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> Text | None:
        return await self.said.get()

    async def write(self, reply: bytes) -> None:
        self.heard.put_nowait(reply[:1000])

    async def send_initial_metadata(self, _: object) -> None:
        pass

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def add_done_callback(self, _: object) -> None:
        pass

    def set_trailing_metadata(self, _: object) -> None:
        pass


def stream_of(client: Client, *, arriving_max: int) -> Stream:
    arriving = HeldBytes(HeldLimits(max_bytes=arriving_max, tenant_max_bytes=arriving_max), TooMuchArrives)
    arriving.add("another", 1)
    unread = HeldBytes(HeldLimits(max_bytes=2**30, tenant_max_bytes=2**30), TooMuchUnread)
    limits = GrpcLimits(
        host="", port=0, message_max_bytes=2**30, readings=ONE_TURN, listenings=ONE_TURN, calls_max=10,
        address_calls_max=10, connections_max=10, handshake_s=PATIENCE_S, call_max_s=PATIENCE_S,
        stream_idle_s=PATIENCE_S, stream_max_s=PATIENCE_S, stop_grace_s=PATIENCE_S,
    )  # fmt: skip
    context: Any = SimpleNamespace(
        keys_required=False, arriving=arriving, unread=unread, stopping=Event(), exchanges=Exchanges()
    )
    rpc: Any = client
    return Stream("/stream", context, rpc, Capacity.of(limits), Scope.INFER)


@pytest.mark.parametrize(("arriving_max", "is_answered"), [(2**30, True), (2, False)])
def test_a_stream_that_waits_keeps_neither_the_last_request_nor_its_reply(arriving_max: int, is_answered: bool) -> None:
    async def answer(request: Request) -> bytes:
        return Text(await request.read())

    async def talk() -> None:
        client = Client()
        running = asyncio.create_task(stream_of(client, arriving_max=arriving_max).answer(answer))
        client.said.put_nowait(Text(LARGE_BYTES))
        reply = await client.heard.get()
        assert (reply == bytes(1000)) == is_answered
        assert is_answered or "requests hold" in ModelStreamInferResponse.FromString(reply).error_message
        for _ in range(100):  # turns of the loop, in which nothing is asked
            await asyncio.sleep(0)
        assert Text.living == 0
        client.said.put_nowait(None)
        await running

    asyncio.run(talk())
