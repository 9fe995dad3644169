"""What a zygote is told: its config when it starts, and over its control socket one request for each fork."""

from service.sandbox.jail import Walls
from service.sandbox.limits import Limits, Profile
from tracehouse.frozen import Frozen

# Of a datagram on the control socket or a lifeline; what is sent there is far smaller.
MESSAGE_MAX_BYTES = 64 * 1024
# Over the control socket instead of a request: fork no more, and end with the last child.
RETIRE = b"retire"


class Config(Frozen):
    """`modules` are imported, the programs among them; `preload` is run; `path` goes before the import path."""

    modules: list[str]
    preload: str | None
    path: list[str]
    walls: Walls


class ForkRequest(Frozen):
    """Fork a child that runs `program`. Its descriptors come beside it: lifeline, channel, log, and the files."""

    program: str
    profile: Profile
    limits: Limits
    slot: int  # no other living child of this parent's has it, whichever zygote it came from
