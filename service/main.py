"""The wiring: settings in, the whole service out. The only place that builds anything."""

import logging
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

import uvicorn
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from service.api.app import create_app
from service.api.deps import Parts
from service.engine.embedded import EmbeddedEngine
from service.sandbox.limits import Limits
from service.sandbox.zygote import Zygote
from service.serving.pool import Pool
from service.settings import MIB, Settings
from service.storage.database import Store
from workers.tracing.attempt import TraceLimits
from workers.tracing.worker import Worker

PROGRAMS = ("workers.tracing.child", "workers.runner")

log = logging.getLogger(__name__)


def build(settings: Settings) -> FastAPI:
    """The service on the embedded default. It starts and stops with the app's lifespan, and can do so once."""
    store = Store.open(settings.database, settings.blobs)
    zygote = Zygote(["workers.warmup", *PROGRAMS], settings.preload)
    worker = Worker(store, zygote, _trace_limits(settings), settings.trace_attempts)
    engine = EmbeddedEngine(
        store, worker.run, slots=settings.trace_slots, queue_max=settings.queue_max, attempts=settings.trace_attempts
    )
    pool = Pool(
        zygote,
        store.blobs,
        # A runner answers for as long as it is asked: no limit on its processor time.
        limits=Limits(address_space_mib=settings.runner_memory_mib, cpu_s=None),
        threads=settings.runner_threads,
        memory_max_bytes=settings.pool_memory_mib * MIB,
        waiting_max=settings.pool_waiting,
        infer_timeout_s=settings.infer_timeout_s,
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

    parts = Parts(
        store=store,
        engine=engine,
        pool=pool,
        sandbox_alive=lambda: zygote.alive,
        state_dir=settings.state_dir,
        torch_version=version("torch"),
        request_max_bytes=settings.request_max_bytes,
        upload_max_bytes=settings.upload_max_bytes,
    )
    return create_app(parts, lifespan)


def _trace_limits(settings: Settings) -> TraceLimits:
    return TraceLimits(
        wall_s=settings.trace_wall_s,
        cpu_s=settings.trace_cpu_s,
        memory_mib=settings.trace_memory_mib,
        threads=settings.runner_threads,
        log_max_bytes=settings.trace_log_max_bytes,
        source_max_bytes=settings.source_max_bytes,
    )


class Server(uvicorn.Server):
    """Ends open event streams as soon as it is told to stop, and takes being told to stop for no failure."""

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn raises the signal that stopped it once more when it is done; without these it would kill us then.
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, lambda *_: None)
        super().run(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        assert isinstance(app, FastAPI)
        parts: Parts = app.state.parts
        parts.stopping.set()
        await super().shutdown(sockets)
