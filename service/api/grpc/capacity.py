"""Capacity: what all calls of the server share."""

from dataclasses import dataclass
from typing import Self

from service.api.grpc.limits import GrpcLimits
from service.api.http.places import Places
from service.turns import Turns


@dataclass(frozen=True, slots=True)
class Capacity:
    """Places for requests, turns for messages that arrive, and for streams that wait for one; and the limits."""

    places: Places
    readings: Turns
    listenings: Turns
    limits: GrpcLimits

    @classmethod
    def of(cls, limits: GrpcLimits) -> Self:
        places = Places(connections_max=limits.calls_max, address_max=limits.address_calls_max)
        return cls(places, Turns(limits.readings), Turns(limits.listenings), limits)
