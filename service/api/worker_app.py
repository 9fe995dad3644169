"""What a worker answers over HTTP: its health and its metrics, to whoever reaches the port, and nothing else."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.telemetry import TelemetryConfig
from starlette.types import ASGIApp

from service.api import health, problems
from service.api.context import ProcessContext
from service.api.http.access_log import AccessLog
from service.api.http.head import Head
from service.api.http.security_headers import SecurityHeaders
from service.api.metrics.exposition import write
from service.api.metrics.machine import http_metrics, process_metrics
from service.api.metrics.snapshot import ProcessSnapshot
from service.api.metrics.traces import trace_metrics
from service.domain.errors import StorageUnavailable
from tracehouse.errors import ServiceError

# What a machine asks every few seconds.
_PROBES = {*health.PATHS, "/healthz", "/metrics"}

# Kubernetes' probes and compose's healthcheck of this repository give up after 5 seconds.
_WAIT_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext(ProcessContext):
    pool: str
    slots: int
    takes_turns: Callable[[], bool]  # whether its slots begin requests
    readiness: "Readiness" = field(init=False)

    def __post_init__(self) -> None:
        ProcessContext.__post_init__(self)
        object.__setattr__(self, "readiness", Readiness(self))


class WorkerReady(health.Ready):
    """The worker begins trace requests of its pool, `slots` at a time."""

    pool: str
    slots: int


class Readiness:
    """Checks on one thread of its own, for all that ask meanwhile: many that ask take nothing from the traces."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._limiter = CapacityLimiter(1)
        self._checking: asyncio.Task[WorkerReady | ServiceError] | None = None

    async def check(self) -> WorkerReady:
        """Raises one of READY_ERRORS."""
        if self._checking is None:
            self._checking = asyncio.create_task(self._check_on_thread())
        checking = self._checking
        done, _ = await asyncio.wait([checking], timeout=_WAIT_S)
        if not done:
            raise StorageUnavailable(f"database and files did not answer within {_WAIT_S:g} seconds")
        result = checking.result()
        if isinstance(result, ServiceError):
            raise result
        return result

    async def _check_on_thread(self) -> WorkerReady | ServiceError:
        try:
            return await to_thread.run_sync(self._check, limiter=self._limiter)
        except ServiceError as error:
            return error
        finally:
            self._checking = None

    def _check(self) -> WorkerReady:
        context = self._context
        ready = health.check_ready(context)
        if not context.takes_turns():
            raise StorageUnavailable("the slots begin no requests: the database has not heard of this worker lately")
        return WorkerReady(
            sandbox=ready.sandbox, damaged_files=ready.damaged_files, pool=context.pool, slots=context.slots
        )


class WorkerApp(FastAPI):
    def build_middleware_stack(self) -> ASGIApp:
        return AccessLog(SecurityHeaders(Head(super().build_middleware_stack())), probes=_PROBES)


def create_worker_app(context: WorkerContext) -> FastAPI:
    quiet: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
    app = WorkerApp(openapi_url=None, redirect_slashes=False, telemetry=quiet)
    app.state.context = context
    problems.install(app)
    app.include_router(_router)
    return app


_router = APIRouter()


async def _context(request: Request) -> WorkerContext:
    context: WorkerContext = request.app.state.context
    return context


ContextDep = Annotated[WorkerContext, Depends(_context)]


@_router.get(health.LIVEZ)
@_router.get("/healthz")
async def livez() -> health.Alive:
    return health.Alive()


@_router.get(health.READYZ)
async def readyz(context: ContextDep) -> WorkerReady:
    return await context.readiness.check()


@_router.get("/metrics")
async def metrics(request: Request, context: ContextDep) -> Response:
    """Returns what `serve` has under the same names, as far as a worker does it. None names a tenant or a model."""
    taken = ProcessSnapshot.of_process(context, await context.watched.read())
    accept = request.headers.get("accept", "")
    content, media_type = await to_thread.run_sync(_write, taken, accept, limiter=context.watched.rendering)
    return Response(content, media_type=media_type)


def _write(taken: ProcessSnapshot, accept: str) -> tuple[bytes, str]:
    every = (process_metrics, http_metrics, trace_metrics)
    return write(chain.from_iterable(metrics_of(taken) for metrics_of in every), accept)
