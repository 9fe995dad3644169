"""What every process of the service builds in the same way: telemetry, engine, signer, and the server of HTTP."""

import logging
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal

import uvicorn
from fastapi import FastAPI

from service import limits, telemetry
from service import log as log_lines
from service.api.fast_path import FastPath
from service.api.http.connection import FindTenant, bounded_protocol
from service.api.http.places import Places
from service.domain.quotas import Quotas
from service.engine.distributed import DistributedEngine
from service.engine.embedded import EmbeddedEngine
from service.engine.further_check import FurtherChecks
from service.engine.queue import Engine
from service.sandbox.jail import Walls
from service.sandbox.tiers import Tier
from service.settings import Settings
from service.signing.signer import Signer
from service.signing.signing_keys import SigningKeys, SigningKeyUnusable
from service.storage.database import Store
from tracehouse.errors import ServiceError
from workers.worker import Worker

if TYPE_CHECKING:
    from asyncio.trsock import TransportSocket

log = logging.getLogger(__name__)


def start_telemetry(service: str) -> None:
    """Send traces of OpenTelemetry if the environment says where to. Raises TelemetryUnusable."""
    telemetry.start(service)
    if telemetry.is_on():
        log_lines.add_to_lines(telemetry.current_ids)


def open_engine(
    settings: Settings,
    store: Store,
    worker: Worker,
    further_checks: FurtherChecks,
    slots: Mapping[str, int],
    quotas: Quotas,
    *,
    tells_positions: bool = True,
) -> Engine:
    """Return the engine that suits the database: SQLite is one process's, PostgreSQL that of any number."""
    engine_class = partial(DistributedEngine, tells_positions=tells_positions) if store.is_shared else EmbeddedEngine
    return engine_class(
        store,
        worker.run,
        slots={"cpu": 0, "gpu": 0, **slots},
        queue_max=settings.queue_max,
        attempts=settings.trace_attempts,
        quotas=quotas,
        quick_slots=settings.quick_slots,
        limits_s=limits.trace_walls(settings),
        find_idle=further_checks.find_idle if settings.check_further == "idle" else None,
    )


def open_signer(keys: SigningKeys, tier: Tier, walls: Walls) -> Signer | None:
    """Return what signs; None if submitted code can read every file, so that a signature would say nothing."""
    if not tier.confines:
        log.warning("artifacts are not signed, for submitted code could read the key: nothing confines it")
        return None
    if walls.lets_read(keys.private_file):
        raise SigningKeyUnusable(f"submitted code may read {keys.private_file}: put the signing key elsewhere")
    signer = Signer(keys.open())
    log.info("artifacts are signed", extra={"signing_key_id": signer.public_key.id})
    return signer


def server_config(
    app: FastAPI,
    settings: Settings,
    places: Places,
    count_problem: Callable[[ServiceError], object],
    *,
    grace_s: float,
    find_tenant: FindTenant = lambda _: None,
    fast_path: FastPath | None = None,
    lifespan: Literal["auto", "off"] = "auto",
) -> uvicorn.Config:
    """Return how HTTP is served: on bounded connections, and with our own log."""
    protocol = bounded_protocol(
        idle_s=settings.request_idle_s,
        head_s=settings.request_head_s,
        places=places,
        find_tenant=find_tenant,
        fast_path=fast_path,
        count_problem=count_problem,
    )
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",  # another protocol would take the connection over, and there is nothing for it
        lifespan=lifespan,
        timeout_keep_alive=settings.keep_alive_s,
        forwarded_allow_ips=settings.forwarded_allow_ips,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(grace_s)),
    )


def address_of(listening: "socket.socket | TransportSocket") -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
