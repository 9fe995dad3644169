"""The protocol's routes about all models: which there are, and having their processes started or ended."""

from collections.abc import Iterator
from typing import Literal

from fastapi import APIRouter, Request, Response

from service.api.context import ContextDep, StoreDep
from service.api.http.access import ACCESS_RESPONSES, MayInfer
from service.api.http.body import parse_json, read_text
from service.api.http.in_turn import run
from service.api.json_members import as_object
from service.api.oip.model_ref import MODEL_ERRORS, Default
from service.api.oip.statistics import ModelStatistics, StatisticsReply
from service.api.problems import RequestTimeout, problem_responses
from service.domain.errors import (
    BlobMissing,
    ContentDamaged,
    DeviceUnavailable,
    MalformedJson,
    NotSupported,
    PayloadTooLarge,
    PoolMemoryShort,
    PoolSaturated,
    SandboxUnavailable,
    ShuttingDown,
    UnsupportedMediaType,
    UploadTruncated,
)
from service.domain.model import Model, ModelVersion
from service.serving.statistics import Statistics
from service.storage.database import Store
from tracehouse.errors import GoldenCaseFailed, InvalidRequest, RunnerLost
from tracehouse.frozen import Frozen

# Bytes of a body that says what to list or load.
_BODY_MAX_BYTES = 2**16
_PAGE = 100

_BODY_ERRORS = (
    MalformedJson, InvalidRequest, PayloadTooLarge, UnsupportedMediaType, UploadTruncated, RequestTimeout, NotSupported,
)  # fmt: skip

router = APIRouter(tags=["Open Inference Protocol"], responses=ACCESS_RESPONSES)


class IndexEntry(Frozen):
    """One version of a model."""

    name: str
    version: str
    state: Literal["READY", "UNAVAILABLE"]
    reason: str = ""

    @classmethod
    def of(cls, model: Model, version: ModelVersion) -> "IndexEntry":
        digests = {*version.artifacts.values(), *(bucket.digest for bucket in version.buckets)}
        is_refuted = bool(digests & version.withdrawn.keys())
        return cls(
            name=model.name,
            version=str(version.version),
            state="UNAVAILABLE" if is_refuted else "READY",
            reason="a later check refuted it" if is_refuted else "",
        )


@router.post(
    "/v2/repository/index", summary="List all versions of all models", responses=problem_responses(*_BODY_ERRORS)
)
async def repository_index(request: Request, store: StoreDep, caller: MayInfer) -> list[IndexEntry]:
    """Each version that is registered can be asked. With `{"ready": true}`, those that cannot are left out."""
    asked = await _read_object(request)
    return await run(request, index_of, store, caller.tenant, only_ready=asked.get("ready") is True)


@router.post(
    "/v2/repository/models/{name}/load",
    summary="Start a model's process",
    responses=problem_responses(
        *_BODY_ERRORS, *MODEL_ERRORS, RunnerLost, GoldenCaseFailed, PoolMemoryShort, PoolSaturated, BlobMissing,
        ContentDamaged, DeviceUnavailable, SandboxUnavailable, ShuttingDown,
    ),
)  # fmt: skip
async def load_model(request: Request, context: ContextDep, served: Default) -> Response:
    """Replies when the process has replayed its golden cases. A model comes here by `POST /trace`, and in no other way:
    `parameters` with a configuration or files are refused.
    """
    if (await _read_object(request)).get("parameters"):
        raise no_load_parameters()
    await context.inference.prepare(served)
    return Response(b"{}", media_type="application/json")


@router.post(
    "/v2/repository/models/{name}/unload",
    summary="End a model's process",
    responses=problem_responses(*_BODY_ERRORS, *MODEL_ERRORS),
)
async def unload_model(request: Request, context: ContextDep, served: Default) -> Response:
    """Frees its memory once it has answered. The model stays registered, and the next request starts a process."""
    await _read_object(request)
    await context.inference.release(served)
    return Response(b"{}", media_type="application/json")


@router.get("/v2/models/stats", summary="Count what all models were asked")
async def all_statistics(request: Request, context: ContextDep, store: StoreDep, caller: MayInfer) -> StatisticsReply:
    """Counts since the service started, of each version."""
    return await run(request, statistics_of_all, store, caller.tenant, context.inference.statistics)


def index_of(store: Store, tenant: str, *, only_ready: bool) -> list[IndexEntry]:
    """Return an entry for each version of the tenant's models."""
    entries = [IndexEntry.of(model, version) for model in _models(store, tenant) for version in model.versions]
    return [entry for entry in entries if entry.state == "READY"] if only_ready else entries


def statistics_of_all(store: Store, tenant: str, statistics: Statistics) -> StatisticsReply:
    """Count what each version of the tenant's models was asked."""
    return StatisticsReply(
        model_stats=[
            ModelStatistics.of(statistics, tenant, model.name, version.version)
            for model in _models(store, tenant)
            for version in model.versions
        ]
    )


def no_load_parameters() -> NotSupported:
    return NotSupported("models are made by POST /trace, and are loaded as they are")


def _models(store: Store, tenant: str) -> Iterator[Model]:
    after: str | None = None
    while True:
        page = store.models.list(tenant, _PAGE, after)
        yield from page.items
        if page.next_cursor is None:
            return
        after = page.next_cursor


async def _read_object(request: Request) -> dict[str, object]:
    """Return the JSON object of the body, whatever its content type says; an empty one if there is no body."""
    text = await read_text(request, _BODY_MAX_BYTES)
    return {**as_object(parse_json(text), "")} if text.strip() else {}
