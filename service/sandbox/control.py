"""What a parent sends a zygote: its config at the start, and over the control socket a request for each fork."""

from service.sandbox.jail import Walls
from service.sandbox.limits import Limits, Profile
from tracehouse.frozen import Frozen

# The limit of a datagram on the control socket or a lifeline; real ones are far smaller.
MESSAGE_MAX_BYTES = 64 * 1024
# Sent over the control socket in place of a request: fork no more, and end with the last child.
RETIRE = b"retire"
# Sent in place of a request, and the answer: whoever forks can answer.
PING, PONG = b"ping", b"pong"


class Config(Frozen):
    """`modules` are imported, the programs among them; `preload` is run; `path` goes before the import path.

    With `forks_often`, all that is there then is moved into huge pages.
    """

    modules: list[str]
    preload: str | None
    path: list[str]
    walls: Walls
    forks_often: bool


class ForkRequest(Frozen):
    """Fork a child that runs `program`. Its descriptors come beside it: lifeline, channel, log, and the files, before
    which come the two of shared bodies if it `shares_bodies`.

    `packages` are folders that come last in its import path, once it is in the jail, and which it may read. `imports`
    are modules of the service that it imports before that, beside those that the zygote has. Unless clients wait for
    what it `answers`, it gives way to all that does.
    """

    program: str
    profile: Profile
    limits: Limits
    packages: list[str] = []
    imports: list[str] = []
    shares_bodies: bool = False
    answers: bool = False
    slot: int  # unique among the living children of this parent, whichever zygote forked them
