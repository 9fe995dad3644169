"""What a route may ask for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Annotated

from fastapi import Depends, Request

from service.api.request_rate import RequestRate
from service.engine.queue import Engine
from service.sandbox.tiers import Tier
from service.serving.inference import Inference
from service.storage.database import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class AppContext:
    """What `main` built. `stopping` is set when the server begins to shut down, so that open streams end."""

    store: Store
    engine: Engine
    inference: Inference
    sandbox_alive: Callable[[], bool]
    tier: Tier
    state_dir: Path
    torch_version: str
    request_max_bytes: int
    upload_max_bytes: int
    answer_max_bytes: int
    request_idle_s: float
    streams_max: int
    tenant_streams_max: int
    keys_required: bool
    key_requests_per_minute: int
    streams: dict[object, str] = field(default_factory=dict)  # of each that is open, its tenant
    heartbeat_s: float = 15.0  # an event stream says something at least this often, so that no proxy closes it
    stopping: Event = field(default_factory=Event)
    request_rate: RequestRate = field(default_factory=RequestRate)


# Coroutines, although they wait for nothing: FastAPI would send a plain function to its thread pool.
async def _parts(request: Request) -> AppContext:
    parts: AppContext = request.app.state.parts
    return parts


async def _store(request: Request) -> Store:
    return (await _parts(request)).store


async def _engine(request: Request) -> Engine:
    return (await _parts(request)).engine


PartsDep = Annotated[AppContext, Depends(_parts)]
StoreDep = Annotated[Store, Depends(_store)]
EngineDep = Annotated[Engine, Depends(_engine)]
