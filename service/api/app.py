"""The app: all routes, the replies to errors, and the documentation of both."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version

from fastapi import APIRouter, FastAPI
from fastapi.routing import iter_route_contexts
from fastapi.telemetry import TelemetryConfig
from starlette.types import ASGIApp

from service import telemetry
from service.api import (
    aliases,
    api_keys,
    artifacts,
    audit,
    counterexamples,
    docs,
    eager_outputs,
    environments,
    events,
    findings,
    further_checks,
    health,
    inference,
    models,
    printouts,
    problem_catalogue,
    problems,
    report,
    signatures,
    signing_keys,
    tenants,
    trace_requests,
    upload_limits,
    webhooks,
)
from service.api.context import AppContext
from service.api.http import cors
from service.api.http.access_log import AccessLog
from service.api.http.admission import Admission
from service.api.http.head import Head
from service.api.http.held import Held
from service.api.http.local import CrossSiteRequest, ForeignHost, Local
from service.api.http.security_headers import SecurityHeaders
from service.api.http.sending import Sending
from service.api.metrics import routes as metrics
from service.api.oip import routes as oip
from service.api.problems import InternalError, problem_responses
from service.api.studio import pages
from service.domain.errors import (
    ProcessLost,
    ReleaseTooOld,
    StorageUnavailable,
    TooMuchArrives,
    TooMuchUnread,
    TooMuchWorkWaits,
)

# What a machine asks every few seconds.
_PROBES = {*health.PATHS, "/metrics"}

# What every process that answers requests needs: each problem names its page under /problems.
_OF_ALL = (problem_catalogue.router, health.router, metrics.router)
_INFERENCE = (inference.router, oip.router, *_OF_ALL)
_EVERYTHING = (
    trace_requests.router,
    eager_outputs.router,
    events.router,
    inference.router,
    oip.router,
    models.router,
    aliases.router,
    artifacts.router,
    printouts.router,
    report.router,
    counterexamples.router,
    signatures.router,
    signing_keys.router,
    environments.router,
    findings.router,
    further_checks.router,
    webhooks.router,
    audit.router,
    tenants.router,
    api_keys.router,
    upload_limits.router,
    *_OF_ALL,
)

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

_TAGS = [
    {"name": "Trace requests", "description": "Submit a model, follow its trace, and read the result."},
    {"name": "Inference", "description": "Run a model. Inputs outside its contract are refused."},
    {
        "name": "Open Inference Protocol",
        "description": "The same models for the official clients of Triton and KServe, which speak this protocol.",
    },
    {"name": "Models", "description": "Model names, their versions, and aliases that point at versions."},
    {"name": "Artifacts", "description": "What a trace makes: archive, contract, check, printouts."},
    {"name": "Signing keys", "description": "The public keys to check the signatures of artifacts with."},
    {"name": "Environments", "description": "Packages that a model's source may import, installed by name."},
    {"name": "Webhooks", "description": "Addresses that are told when a trace request has ended."},
    {"name": "Administration", "description": "Who changed what, and how much each tenant has and may have."},
    {"name": "Findings", "description": "What each finding's `kind` means, and what to write instead."},
    {"name": "Problems", "description": "Every kind of error, and what its `code` means."},
    {"name": "Health", "description": "Probes for whatever keeps the service running."},
]


class App(FastAPI):
    """Starlette's handler of uncaught errors is outside of added middleware; the access log must be outside of both."""

    def build_middleware_stack(self) -> ASGIApp:
        inner = SecurityHeaders(Admission(Head(Held(Sending(super().build_middleware_stack())))))
        return AccessLog(inner, probes=_PROBES)


def create_app(context: AppContext, lifespan: Lifespan | None = None, *, cors_origins: Collection[str] = ()) -> FastAPI:
    """Make the app. `cors_origins` are the origins of other pages that may use it; without any, there is no CORS."""
    app = _create(context, lifespan, cors_origins, _EVERYTHING)
    docs.install(app)
    pages.install(app)
    return app


def create_inference_app(
    context: AppContext, lifespan: Lifespan | None = None, *, cors_origins: Collection[str] = ()
) -> FastAPI:
    """Make the app of a process that answers inference and nothing else: no traces, no registry, no keys, no pages."""
    return _create(context, lifespan, cors_origins, _INFERENCE)


def _create(
    context: AppContext,
    lifespan: Lifespan | None,
    cors_origins: Collection[str],
    routers: Sequence[APIRouter],
) -> FastAPI:
    app = App(
        title="Tracehouse",
        version=version("tracehouse"),
        description=docs.DESCRIPTION,
        openapi_tags=_TAGS,
        openapi_url=None,  # service.api.docs serves it
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
        telemetry=_telemetry(),
        responses=problem_responses(
            InternalError,
            StorageUnavailable,
            ReleaseTooOld,
            TooMuchWorkWaits,
            ProcessLost,
            TooMuchArrives,
            TooMuchUnread,
            ForeignHost,
            CrossSiteRequest,
        ),
    )
    app.state.context = context
    problems.install(app)
    app.add_middleware(Local, origins=cors_origins)
    cors.install(app, cors_origins)
    for router in routers:
        app.include_router(router)
    return app


def _telemetry() -> TelemetryConfig:
    """Return which requests have a span, if this process sends traces. Metrics and logs of the service are its own."""
    return {
        "tracing": telemetry.is_on(),
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "auto_configure": False,
        "exclude": lambda scope: scope.get("path") in _PROBES,
    }


def prepare_routes(app: FastAPI) -> None:
    """Have FastAPI make its models of all routes now. It makes them when it looks at a route for the first time, which
    may take 100 ms, in which no other request is answered."""
    for _ in iter_route_contexts(app.routes):
        pass
