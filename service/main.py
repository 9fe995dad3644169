"""The wiring: settings in, the whole service out. The only place that builds anything."""

import logging
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

import uvicorn
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from service.api.app import create_app
from service.api.context import AppContext
from service.api.http.connection import bounded
from service.domain.quotas import NO_QUOTAS, Quotas
from service.engine.embedded import EmbeddedEngine
from service.sandbox.limits import Limits
from service.sandbox.tiers import Tier
from service.sandbox.torch_probe import require_gpu
from service.sandbox.zygote import Zygote
from service.serving.inference import Inference
from service.serving.pool import Pool
from service.settings import Settings
from service.storage.database import Store
from tracehouse.byte_units import MIB
from workers.limits import TraceLimits
from workers.worker import Worker

# macOS calls its limit infinite, and refuses to be asked for that.
_FILES_ENOUGH = 2**16

PROGRAMS = (
    "workers.programs.tracer",
    "workers.programs.reference",
    "workers.programs.runner",
    "workers.programs.packer",
)

log = logging.getLogger(__name__)


class NoUsableKey(Exception):
    """Everybody must have a key, and nobody could."""


def run(
    settings: Settings, listening: socket.socket, *, keys_required: bool, tier: Tier, on_ready: Callable[[str], object]
) -> None:
    """Serve on a bound socket until a signal ends it; `on_ready` is given the address. Raises what `build` raises."""
    config = uvicorn.Config(
        build(settings, keys_required=keys_required, tier=tier),
        http=bounded(
            idle_s=settings.request_idle_s, connections_max=min(settings.connections_max, _open_files_max() // 4)
        ),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_s)),
    )
    Server(config, on_ready).run([listening])


def _open_files_max() -> int:
    """How many files this process may open, once it has raised that as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _FILES_ENOUGH
    raised = _FILES_ENOUGH if hard == resource.RLIM_INFINITY else max(soft, min(hard, _FILES_ENOUGH))
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised


def build(settings: Settings, *, keys_required: bool, tier: Tier) -> FastAPI:
    """The service on the embedded default. It starts and stops with the app's lifespan, and can do so once.

    Raises NoGpu and NoUsableKey.
    """
    limits = _trace_limits(settings)
    if settings.gpu_slots:
        require_gpu(tier, limits.for_child("cpu"))
    store = Store.open(settings.database, settings.blobs)
    if keys_required and not store.api_keys.any_usable():
        store.close()
        raise NoUsableKey
    zygote = Zygote(["workers.programs.tracer_warmup", *PROGRAMS], settings.preload, tier=tier)
    worker = Worker(store, zygote, limits, settings.trace_attempts)
    engine = EmbeddedEngine(
        store,
        worker.run,
        slots={"cpu": settings.trace_slots, "gpu": settings.gpu_slots},
        queue_max=settings.queue_max,
        attempts=settings.trace_attempts,
        quotas=_quotas(settings) if keys_required else NO_QUOTAS,
    )
    pool = Pool(
        zygote,
        store.blobs,
        limits=_runner_limits(settings),
        threads=settings.runner_threads,
        memory_max_bytes=settings.pool_memory_mib * MIB,
        waiting_max=settings.pool_waiting,
        infer_timeout_s=settings.infer_timeout_s,
        answer_max_bytes=settings.infer_result_max_bytes,
        devices=("cpu", "cuda") if settings.gpu_slots else ("cpu",),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(zygote.start)
        for warning in zygote.warnings:
            log.warning(warning)
        await run_in_threadpool(engine.start)
        yield
        # The server has answered what was asked, or given up on it: what still runs is cut or queued again.
        await pool.close(0)
        await run_in_threadpool(engine.stop, settings.shutdown_grace_s)
        await run_in_threadpool(zygote.close)
        await run_in_threadpool(store.close)

    parts = AppContext(
        store=store,
        engine=engine,
        inference=Inference(store, pool),
        sandbox_alive=lambda: zygote.alive,
        tier=tier,
        state_dir=settings.state_dir,
        torch_version=version("torch"),
        request_max_bytes=settings.request_max_bytes,
        upload_max_bytes=settings.upload_max_bytes,
        answer_max_bytes=settings.infer_result_max_bytes,
        request_idle_s=settings.request_idle_s,
        streams_max=settings.streams_max,
        tenant_streams_max=settings.tenant_streams_max,
        keys_required=keys_required,
        key_requests_per_minute=settings.key_requests_per_minute,
    )
    return create_app(parts, lifespan, cors_origins=settings.cors_origins or ())


def _quotas(settings: Settings) -> Quotas:
    return Quotas(queued_max=settings.tenant_queued_max, stored_max_bytes=settings.tenant_stored_max_bytes)


def _trace_limits(settings: Settings) -> TraceLimits:
    return TraceLimits(
        wall_s=settings.trace_wall_s,
        cpu_s=settings.trace_cpu_s,
        memory_mib=settings.trace_memory_mib,
        threads=settings.runner_threads,
        log_max_bytes=settings.trace_log_max_bytes,
        source_max_bytes=settings.source_max_bytes,
        child_threads_max=settings.child_threads_max,
        child_open_files_max=settings.child_open_files_max,
    )


def _runner_limits(settings: Settings) -> Limits:
    """A runner answers for as long as it is asked: no limit on its processor time."""
    return Limits(
        address_space_mib=settings.runner_memory_mib,
        cpu_s=None,
        open_files=settings.child_open_files_max,
        threads=settings.child_threads_max,
    )


class Server(uvicorn.Server):
    """Says its address once it can be reached. Told to stop, it ends open event streams at once, and has not failed."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[str], object]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn raises the signal that stopped it once more when it is done; without these it would kill us then.
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, lambda *_: None)
        super().run(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        assert isinstance(app, FastAPI)
        parts: AppContext = app.state.parts
        parts.stopping.set()
        await super().shutdown(sockets)
