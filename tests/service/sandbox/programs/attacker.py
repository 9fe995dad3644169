"""Makes the attack that it is told to, on the world that it is told of, and says what came of it."""

from types import SimpleNamespace
from typing import Any

import attacks  # noqa: F401 - all of them
from attacks.attack import ATTACKS
from attacks.memory import HOSTAGE

from service.sandbox.channel import Channel

_TEXT_MAX_CHARACTERS = 100_000


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    if header["attack"] is None:
        hold(channel, str(header["secret"]))
        return
    targets: Any = header["world"]
    world = SimpleNamespace(**targets, files=files, channel_descriptor=channel._socket.fileno())
    channel.send({"begun": True})
    said: dict[str, Any] = {}
    try:
        said["returned"] = told(ATTACKS[str(header["attack"])].run(world))
    except BaseException as error:  # noqa: BLE001 - it is what the jail said
        said["raised"] = repr(error)
    channel.send(said)


def hold(channel: Channel, secret: str) -> None:
    """Be the sibling of another: with a secret in memory, until its parent has had enough."""
    HOSTAGE.value = secret.encode()
    channel.send({})
    channel.receive()


def told(returned: Any) -> Any:
    if isinstance(returned, bool | None):
        return returned
    text = returned.decode("latin-1") if isinstance(returned, bytes) else str(returned)
    return text[:_TEXT_MAX_CHARACTERS]
