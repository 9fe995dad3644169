"""The context of an app: what its routes work with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Annotated

from fastapi import Depends, Request

from service.api.exchanges import Exchanges
from service.api.held_bytes import HeldBytes
from service.api.known_keys import KnownKeys
from service.api.limits import RequestLimits
from service.api.request_rate import RequestRate
from service.api.streams import OpenStreams
from service.api.watched import Watched
from service.domain.quotas import NO_QUOTAS, Quotas
from service.engine.further_check import FurtherChecks
from service.engine.queue import Engine
from service.environments.environments import Environments
from service.sandbox.tiers import Tier
from service.sandbox.zygote import ZygoteHealth
from service.serving.forms import Forms
from service.serving.inference import Inference
from service.serving.pictures import Pictures
from service.signing.signing_keys import NO_KEYS, PublicKeys
from service.storage.database import Store
from service.storage.quotas import Room
from service.turns import Turns
from service.webhooks.target import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessContext:
    """What health and metrics are read from, in any process of the service.

    `stopping` is set when the process begins to shut down, so that open streams end.
    """

    store: Store
    engine: Engine
    sandbox_health: Callable[[], ZygoteHealth]
    tier: Tier
    state_dir: Path
    torch_version: str
    stopping: Event = field(default_factory=Event)
    exchanges: Exchanges = field(default_factory=Exchanges)
    watched: Watched = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "watched", Watched(self.store, self.state_dir))


@dataclass(frozen=True, slots=True, kw_only=True)
class AppContext(ProcessContext):
    """What `main` has built for the whole API."""

    environments: Environments
    further_checks: FurtherChecks
    inference: Inference
    forms: Forms | None = None  # None: only the form as saved answers
    pictures: Pictures
    limits: RequestLimits
    turns: Turns
    transfers: Turns  # of files, whose place may be slow
    drawings: Turns  # pictures and reports take so much longer than all else
    parsings: Turns  # of large bodies of other requests
    submissions: Turns  # large trace requests, whose parsing gives way
    decodings: Turns  # of pictures in requests
    arriving: HeldBytes  # of bodies
    unread: HeldBytes  # of replies
    quotas: Quotas = NO_QUOTAS
    keys_required: bool
    signing_keys: PublicKeys = NO_KEYS
    streams: OpenStreams = field(default_factory=OpenStreams)
    connections: dict[str, Callable[[], int]] = field(default_factory=dict)  # how many are open, by protocol
    request_rate: RequestRate = field(default_factory=RequestRate)
    webhook_networks: Sequence[Network] = ()
    known_keys: KnownKeys = field(init=False)

    def __post_init__(self) -> None:
        ProcessContext.__post_init__(self)  # a class with slots is made anew, and super() means the one before
        object.__setattr__(self, "known_keys", KnownKeys(self.store))

    def room(self, tenant: str) -> Room:
        """Return the room that the tenant's quota has for what is stored with a change."""
        return self.store.allowances.room(tenant, self.quotas)


# Coroutines, although they wait for nothing: FastAPI would send a plain function to its thread pool.
async def _context(request: Request) -> AppContext:
    context: AppContext = request.app.state.context
    return context


async def _store(request: Request) -> Store:
    return (await _context(request)).store


async def _engine(request: Request) -> Engine:
    return (await _context(request)).engine


ContextDep = Annotated[AppContext, Depends(_context)]
StoreDep = Annotated[Store, Depends(_store)]
EngineDep = Annotated[Engine, Depends(_engine)]
