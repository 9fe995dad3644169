"""What gRPC may use. This file needs none of gRPC's packages."""

from service.turns import TurnLimits
from tracehouse.frozen import Frozen


class GrpcLimits(Frozen):
    """Where to listen, and how much at most.

    `readings` says how many messages may arrive at the same time: each may have `message_max_bytes`. `listenings` says
    how many of them may be those of streams, which wait for a message that may never come. No honest call takes longer
    than `call_max_s`.
    """

    host: str
    port: int
    message_max_bytes: int
    readings: TurnLimits
    listenings: TurnLimits
    calls_max: int
    address_calls_max: int
    connections_max: int
    handshake_s: float
    call_max_s: float
    stream_idle_s: float
    stream_max_s: float
    stop_grace_s: float
