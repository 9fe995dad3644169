"""The process of a worker, built from its settings: it runs trace requests, and answers health and metrics."""

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version

import uvicorn

from service import limits, telemetry
from service.api.http.connection import close_vanished
from service.api.http.places import Places
from service.api.worker_app import WorkerContext, create_worker_app
from service.domain.quotas import NO_QUOTAS
from service.engine.distributed import DistributedEngine
from service.engine.further_check import FurtherChecks
from service.environments.environments import Environments
from service.process_parts import address_of, open_engine, open_signer, server_config, start_telemetry
from service.sandbox.tiers import Tier
from service.sandbox.torch_probe import require_gpu
from service.sandbox.zygote import Zygote
from service.settings import Settings
from service.signing.signing_keys import SigningKeys, SigningKeyUnusable
from service.storage.database import Store
from workers.attempt import MODULES
from workers.worker import Worker

# Connections to a worker at a time, of which an address may have half. Probes and Prometheus need a few.
_PROBES_MAX = 64
_PROBES_END_S = 5.0

log = logging.getLogger(__name__)


def run_worker(
    settings: Settings,
    *,
    pool: str,
    slots: int,
    tier: Tier,
    on_ready: Callable[[str | None], object],
    stop: threading.Event,
    listening: socket.socket | None = None,
) -> None:
    """Run trace requests of a pool, so many at a time, until `stop` is set. The database is a PostgreSQL.

    Health and metrics are answered on a bound socket, if there is one; `on_ready` is called with their address.

    Raises NoGpu, SigningKeyUnusable, BlobUrlUnusable and TelemetryUnusable.
    """
    start_telemetry("tracehouse-worker")
    trace_limits = limits.trace_limits(settings)
    if pool == "gpu":
        require_gpu(tier, trace_limits.for_child("cpu"))
    environments = Environments(settings.environments)
    signing_keys = SigningKeys(settings.signing_keys, settings.signing_key)
    if tier.confines and not signing_keys.private_file.exists():
        # One of its own would be a key that nobody knows who asks the API for the keys that sign.
        raise SigningKeyUnusable(
            f"there is no {signing_keys.private_file}: a worker signs with the key of the processes that answer HTTP. "
            "Give it their state directory, or the same SIGNING_KEY as them"
        )
    signer = open_signer(signing_keys, tier, tier.walls(MODULES).with_readable([str(environments.directory)]))
    store = Store.open(settings.database, settings.blobs, limits.cache_limits(settings))
    has_keys = settings.api_keys == "required" or store.api_keys.any_usable()
    quotas = limits.quotas(settings) if has_keys else NO_QUOTAS
    environments.prepare()
    zygote = Zygote(MODULES, settings.preload, tier=tier, packages=environments.directory, forks_often=True)
    worker = Worker(store, zygote, environments, trace_limits, settings.trace_attempts, quotas, signer)
    further_checks = FurtherChecks(store, environments, version("torch"))
    engine = open_engine(settings, store, worker, further_checks, {pool: slots}, quotas, tells_positions=False)
    assert isinstance(engine, DistributedEngine)
    zygote.start()
    for warning in zygote.warnings:
        log.warning(warning)
    engine.start()
    context = WorkerContext(
        store=store,
        engine=engine,
        sandbox_health=lambda: zygote.health,
        tier=tier,
        state_dir=settings.state_dir,
        torch_version=version("torch"),
        pool=pool,
        slots=slots,
        takes_turns=lambda: engine.takes_turns,
    )
    with nullcontext() if listening is None else _answer_probes(settings, context, listening):
        on_ready(None if listening is None else address_of(listening))
        stop.wait()
        context.stopping.set()
        engine.stop(settings.shutdown_grace_s)
    zygote.close()
    store.close()
    telemetry.stop()


@contextmanager
def _answer_probes(settings: Settings, context: WorkerContext, listening: socket.socket) -> Iterator[None]:
    """Answer health and metrics on a thread of its own until the block ends."""
    places = Places(connections_max=_PROBES_MAX, address_max=_PROBES_MAX // 2)
    config = server_config(
        create_worker_app(context), settings, places, context.exchanges.count_problem, grace_s=1, lifespan="off"
    )
    close_vanished(listening, settings.request_idle_s)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), name="probes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_PROBES_END_S)
