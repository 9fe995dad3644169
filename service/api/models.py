"""Models: the registry's names, versions and aliases."""

import re
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from service.api.context import StoreDep
from service.api.http.access import ACCESS_RESPONSES, MayAdmin, MayRead
from service.api.http.body import read_model
from service.api.pagination import Cursor, Limit, link_next
from service.api.problems import RequestTimeout, problem_responses
from service.domain.errors import (
    AliasMoved,
    AliasNotFound,
    IfMatchRequired,
    InvalidCursor,
    MalformedHeader,
    MalformedJson,
    ModelNotFound,
    PayloadTooLarge,
    UnsupportedMediaType,
    VersionAliased,
    VersionNotFound,
)
from service.domain.model import Alias, Bucket, Model, ModelVersion
from tracehouse.errors import InvalidRequest
from tracehouse.findings.trace_check import Verdict
from tracehouse.frozen import Frozen
from tracehouse.spec.model_name import ModelName

router = APIRouter(tags=["Models"], responses=ACCESS_RESPONSES)

Name = Annotated[
    ModelName, Path(alias="name", description="The model's name.", openapi_examples={"linear": {"value": "linear"}})
]
AliasName = Annotated[
    ModelName, Path(alias="alias", description="The alias.", openapi_examples={"prod": {"value": "prod"}})
]
Version = Annotated[
    int, Path(alias="version", ge=1, lt=10**9, description="The version.", openapi_examples={"first": {"value": 1}})
]

_ETAG = re.compile(r'(?:W/)?"[^"]*"|\*')


class VersionLinks(Frozen):
    """Paths."""

    trace_request: str
    artifact: str
    infer: str


class VersionReply(Frozen):
    """One version: it never changes, and its number is never used again."""

    version: int
    verdict: Verdict
    artifacts: dict[str, str] = Field(description="The artifact's digest, by device; that of the first of its buckets.")
    buckets: list[Bucket] = Field(
        description="Where there is one artifact for each of several sizes: which. A request is answered by the one "
        "that takes its sizes."
    )
    created_at: datetime
    links: VersionLinks

    @classmethod
    def of(cls, name: str, version: ModelVersion) -> "VersionReply":
        links = VersionLinks(
            trace_request=f"/trace/{version.trace_request}",
            artifact=f"/artifacts/{next(iter(version.artifacts.values()))}",
            infer=f"/infer/{name}:{version.version}",
        )
        shown = version.model_dump(exclude={"trace_request"})
        return cls(**shown, links=links)


class AliasReply(Frozen):
    """`etag` is what a move of it sends as `If-Match`."""

    alias: str
    version: int
    etag: str

    @classmethod
    def of(cls, alias: Alias) -> "AliasReply":
        return cls(alias=alias.alias, version=alias.version, etag=alias.etag)


class ModelReply(Frozen):
    """A name, its versions, and the aliases that point at them."""

    name: str
    versions: list[VersionReply]
    aliases: list[AliasReply]

    @classmethod
    def of(cls, model: Model) -> "ModelReply":
        return cls(
            name=model.name,
            versions=[VersionReply.of(model.name, version) for version in model.versions],
            aliases=[AliasReply.of(alias) for alias in model.aliases],
        )


class ModelList(Frozen):
    """By name."""

    models: list[ModelReply]
    next_cursor: str | None = Field(description="Gives the next page; null on the last one.")


class AliasTarget(Frozen):
    """Where an alias is to point."""

    version: int = Field(ge=1, lt=10**9, strict=True)


@router.get("/models", summary="List models", responses=problem_responses(InvalidRequest, InvalidCursor))
def list_models(
    request: Request, response: Response, store: StoreDep, caller: MayRead, limit: Limit = 20, cursor: Cursor = None
) -> ModelList:
    """By name, a page at a time."""
    page = store.models.list(caller.tenant, limit, cursor)
    link_next(request, response, page.next_cursor)
    return ModelList(models=[ModelReply.of(model) for model in page.items], next_cursor=page.next_cursor)


@router.get("/models/{name}", summary="Look at a model", responses=problem_responses(InvalidRequest, ModelNotFound))
def get_model(store: StoreDep, caller: MayRead, name: Name) -> ModelReply:
    """Its versions, oldest first, and where its aliases point."""
    return ModelReply.of(store.models.get(caller.tenant, name))


@router.delete(
    "/models/{name}",
    status_code=204,
    summary="Delete a model",
    responses=problem_responses(InvalidRequest, ModelNotFound),
)
def delete_model(store: StoreDep, caller: MayAdmin, name: Name) -> None:
    """With all its versions and aliases. The artifacts stay under their digests; version numbers do not come again."""
    store.models.delete(caller.tenant, name)


@router.delete(
    "/models/{name}/versions/{version}",
    status_code=204,
    summary="Delete a version",
    responses=problem_responses(InvalidRequest, ModelNotFound, VersionNotFound, VersionAliased),
)
def delete_version(store: StoreDep, caller: MayAdmin, name: Name, version: Version) -> None:
    """Not while an alias points at it. Its number does not come again."""
    store.models.delete_version(caller.tenant, name, version)


_WITH_ETAG: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": {"description": "Its place, for `If-Match`.", "schema": {"type": "string"}}}}
}


@router.get(
    "/models/{name}/aliases/{alias}",
    summary="Look at an alias",
    responses={**_WITH_ETAG, **problem_responses(InvalidRequest, ModelNotFound, AliasNotFound)},
)
def get_alias(response: Response, store: StoreDep, caller: MayRead, name: Name, alias: AliasName) -> AliasReply:
    """Where it points, and the ETag with which it can be moved from there."""
    found = next((each for each in store.models.get(caller.tenant, name).aliases if each.alias == alias), None)
    if found is None:
        raise AliasNotFound(f"there is no alias {alias!r}", name=name, alias=alias)
    response.headers["ETag"] = found.etag
    return AliasReply.of(found)


@router.put(
    "/models/{name}/aliases/{alias}",
    summary="Set an alias",
    responses={
        **_WITH_ETAG,
        **problem_responses(
            MalformedJson,
            MalformedHeader,
            RequestTimeout,
            ModelNotFound,
            VersionNotFound,
            AliasMoved,
            PayloadTooLarge,
            UnsupportedMediaType,
            InvalidRequest,
            IfMatchRequired,
        ),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/AliasTarget"},
                    "example": {"version": 1},
                }
            },
        }
    },
)
async def put_alias(
    request: Request,
    response: Response,
    store: StoreDep,
    caller: MayAdmin,
    name: Name,
    alias: AliasName,
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match", description="The ETag of the place that it is moved from; needed if it is there already."
        ),
    ] = None,
    if_none_match: Annotated[
        str | None, Header(alias="If-None-Match", description="`*`: only if it is not there yet.")
    ] = None,
) -> AliasReply:
    """A new alias is made; one that is there is moved, and only from where `If-Match` says it is."""
    target = await read_model(request, AliasTarget)
    expected = _expected(if_match, if_none_match)
    try:
        put = await run_in_threadpool(store.models.put_alias, caller.tenant, name, alias, target.version, expected)
    except IfMatchRequired as error:
        if if_none_match is None:
            raise
        raise AliasMoved("the alias is there already", **error.facts) from error
    response.headers["ETag"] = put.etag
    return AliasReply.of(put)


@router.delete(
    "/models/{name}/aliases/{alias}",
    status_code=204,
    summary="Delete an alias",
    responses=problem_responses(InvalidRequest, ModelNotFound, AliasNotFound),
)
def delete_alias(store: StoreDep, caller: MayAdmin, name: Name, alias: AliasName) -> None:
    """The version that it points at stays."""
    store.models.delete_alias(caller.tenant, name, alias)


def _expected(if_match: str | None, if_none_match: str | None) -> str | None:
    if if_none_match is not None and (if_none_match.strip() != "*" or if_match is not None):
        raise MalformedHeader("If-None-Match takes * here, and no If-Match beside it", header="If-None-Match")
    if if_match is not None and not _ETAG.fullmatch(if_match.strip()):
        raise MalformedHeader("If-Match takes one ETag, in its quotes", header="If-Match")
    return if_match.strip() if if_match is not None else None
