"""Models: the registry's names and their versions."""

import re
from typing import Annotated, Any, Self

from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from service.api.context import ContextDep, StoreDep
from service.api.counterexamples import BINARY, Number
from service.api.downloads import BLOB_ERRORS, attachment, partial_responses
from service.api.http.access import ACCESS_ERRORS, ACCESS_RESPONSES, MayAdmin, MayRead
from service.api.http.body import BODY_ERRORS, describe_body, read_model
from service.api.http.in_turn import InTurn, run
from service.api.model_reply import ModelReply, describe_model, describe_models
from service.api.pagination import Cursor, Limit, link_next
from service.api.problems import RangeNotSatisfiable, problem_responses
from service.domain.errors import (
    CounterexampleNotFound,
    DefaultVersionMoved,
    InvalidCursor,
    MalformedHeader,
    ModelNotFound,
    NothingIsChecked,
    NothingToMoveBackTo,
    StorageQuotaExceeded,
    TooManyPinned,
    VersionAliased,
    VersionIsDefault,
    VersionNotFound,
)
from service.domain.live_check import LiveCheck
from service.domain.model import ModelRef
from tracehouse.artifact.counterexample_files import arrays_file
from tracehouse.errors import InvalidRequest
from tracehouse.frozen import Frozen
from tracehouse.spec.model_name import ModelName

router = APIRouter(tags=["Models"], responses=ACCESS_RESPONSES, route_class=InTurn)

Name = Annotated[
    ModelName, Path(alias="name", description="The model's name.", openapi_examples={"linear": {"value": "linear"}})
]
Version = Annotated[
    int, Path(alias="version", ge=1, lt=10**9, description="The version.", openapi_examples={"first": {"value": 1}})
]

# A year.
_IDLE_MAX_S = 366 * 86_400
_VERSION_ETAG = re.compile(r'"([1-9][0-9]{0,8})"')


def check_conditions(if_match: str | None, if_none_match: str | None) -> None:
    """Refuse an `If-None-Match` that is not `*`, or that has an `If-Match` beside it."""
    if if_none_match is not None and (if_none_match.strip() != "*" or if_match is not None):
        raise MalformedHeader("If-None-Match takes * here, and no If-Match beside it", header="If-None-Match")


class ModelList(Frozen):
    """Models in the order of their names."""

    models: list[ModelReply]
    next_cursor: str | None = Field(description="The `cursor` of the next page; null on the last page.")


def _without_default(schema: dict[str, Any]) -> None:
    """What is left out stays as it is, so that it has no default."""
    schema.pop("default")


class ModelChange(Frozen):
    """How the model is to be served from now on. What is left out stays as it is; at least one is named."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    bitwise: bool = Field(
        False,
        strict=True,
        description="What `bitwise` of the model is to be.",
        json_schema_extra=_without_default,
    )
    idle_s: float | None = Field(
        None,
        ge=0,
        le=_IDLE_MAX_S,
        allow_inf_nan=False,
        strict=True,
        description="What `idle_s` of the model is to be. null: the service decides.",
        json_schema_extra=_without_default,
    )

    pinned: bool = Field(
        False,
        strict=True,
        description="What `pinned` of the model is to be. A tenant may have 1000 pinned models.",
        json_schema_extra=_without_default,
    )

    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        strict=True,
        description="What `threads` of the model is to be. null: the service decides.",
        json_schema_extra=_without_default,
    )

    replicas: int | None = Field(
        None,
        ge=1,
        le=1024,
        strict=True,
        description="What `replicas` of the model is to be. null: the service decides.",
        json_schema_extra=_without_default,
    )

    @model_validator(mode="after")
    def _check_named(self) -> Self:
        if not self.model_fields_set:
            raise PydanticCustomError("nothing_to_change", "name what is to change")
        return self

    @property
    def named(self) -> dict[str, Any]:
        """What is to change."""
        return self.model_dump(exclude_unset=True)


class PromotionTarget(Frozen):
    """The version that is to become the default version, and when it is to be moved back."""

    version: int = Field(ge=1, lt=10**9, strict=True)
    move_back_after: int | None = Field(
        None,
        ge=1,
        lt=10**9,
        strict=True,
        description="Make the default version before the default again, once so many answers of the new one are not "
        "those of the model in Python. It needs a `LIVE_CHECK_SHARE` above 0. Default: it stays.",
    )


class PromotionReply(Frozen):
    """The default version, and the one before: promote that one to roll back."""

    name: str
    default_version: int
    previous_version: int | None = Field(description="The default version before; null if there was none.")


@router.get("/models", summary="List models", responses=problem_responses(InvalidRequest, InvalidCursor))
def list_models(
    request: Request, response: Response, context: ContextDep, caller: MayRead, limit: Limit = 20, cursor: Cursor = None
) -> ModelList:
    """Lists models by name, a page at a time."""
    page = context.store.models.list(caller.tenant, limit, cursor)
    link_next(request, response, page.next_cursor)
    return ModelList(models=describe_models(context, caller.tenant, page.items), next_cursor=page.next_cursor)


@router.get("/models/{name}", summary="Read a model", responses=problem_responses(InvalidRequest, ModelNotFound))
def get_model(context: ContextDep, caller: MayRead, name: Name) -> ModelReply:
    """Returns its versions, oldest first, and the versions that its aliases point at."""
    return describe_model(context, caller.tenant, context.store.models.get(caller.tenant, name))


@router.patch(
    "/models/{name}",
    summary="Change how a model is served",
    responses=problem_responses(*BODY_ERRORS, *ACCESS_ERRORS, ModelNotFound, TooManyPinned, StorageQuotaExceeded),
    openapi_extra=describe_body(ModelChange, example={"bitwise": True, "idle_s": 600}),
)
async def change_model(request: Request, context: ContextDep, caller: MayAdmin, name: Name) -> ModelReply:
    """Sets how the model is served: all its versions, under all names, by each transport.

    If it is not `bitwise`, requests are answered together if the batch certificate says that rows are independent,
    which is so within the tolerance: the last digits of an answer may depend on how many others were asked at once.
    """
    change = await read_model(request, ModelChange)
    room = context.room(caller.tenant)
    set_serving = context.store.models.set_serving
    model = await run(request, set_serving, caller.tenant, name, change.named, by=caller.actor, room=room)
    return await run(request, describe_model, context, caller.tenant, model)


@router.delete(
    "/models/{name}",
    status_code=204,
    summary="Delete a model",
    responses=problem_responses(InvalidRequest, ModelNotFound),
)
def delete_model(store: StoreDep, caller: MayAdmin, name: Name) -> None:
    """Deletes all its versions and aliases. The artifacts remain under their digests; the numbers are not reused."""
    store.models.delete(caller.tenant, name, by=caller.actor)


@router.delete(
    "/models/{name}/versions/{version}",
    status_code=204,
    summary="Delete a version",
    responses=problem_responses(InvalidRequest, ModelNotFound, VersionNotFound, VersionAliased, VersionIsDefault),
)
def delete_version(store: StoreDep, caller: MayAdmin, name: Name, version: Version) -> None:
    """Refused while an alias points at the version, or while it is the default version and there are others.

    Its number is not reused.
    """
    store.models.delete_version(caller.tenant, name, version, by=caller.actor)


@router.get(
    "/models/{name}/versions/{version}/counterexamples/{number}.npz",
    response_class=Response,
    summary="Download a request whose answer was not the model's",
    responses={
        200: {"description": "A file for `numpy.load`, without pickles.", "content": BINARY},
        **partial_responses(),
        **problem_responses(
            InvalidRequest, ModelNotFound, VersionNotFound, CounterexampleNotFound, RangeNotSatisfiable, *BLOB_ERRORS
        ),
    },
)
def get_live_counterexample(
    request: Request, store: StoreDep, caller: MayRead, name: Name, version: Version, number: Number
) -> Response:
    """`input.<leaf>` are the inputs of the request, `artifact.<leaf>` is what it was answered, and `eager.<leaf>` what
    the model in Python returns, unless it raises. numpy has no bfloat16: such arrays are float32, and a `note` says so.
    """
    store.models.resolve(caller.tenant, ModelRef(name=name, version=version))
    checked = store.live_checks.find(caller.tenant, [name]).get((name, version), LiveCheck())
    if number >= len(checked.counterexamples):
        detail = f"there is no counterexample {number} of this version"
        raise CounterexampleNotFound(detail, counterexamples=len(checked.counterexamples))
    return attachment(request, store.blobs, checked.counterexamples[number].arrays, filename=arrays_file(number))


@router.post(
    "/models/{name}/promote",
    summary="Promote a version, or roll back to one",
    responses=problem_responses(
        *BODY_ERRORS,
        *ACCESS_ERRORS,
        MalformedHeader,
        ModelNotFound,
        VersionNotFound,
        NothingIsChecked,
        NothingToMoveBackTo,
        DefaultVersionMoved,
        StorageQuotaExceeded,
    ),
    openapi_extra=describe_body(PromotionTarget, example={"version": 1}),
)
async def promote(
    request: Request,
    context: ContextDep,
    caller: MayAdmin,
    name: Name,
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match",
            description='The present default version in quotes, as in `"2"`: refused if it is another one by now.',
        ),
    ] = None,
    if_none_match: Annotated[
        str | None,
        Header(alias="If-None-Match", description="`*`: refused if there is a default version by now."),
    ] = None,
) -> PromotionReply:
    """Makes the version the default version, whatever its verdict and its contract: from the next request on, it
    answers `/infer/{name}`.

    The reply names the default version before. To roll back, promote that one. With `move_back_after`, the live check
    does that when it finds the new version wrong so often.
    """
    target = await read_model(request, PromotionTarget)
    expected = _expected_version(if_match, if_none_match)
    if target.move_back_after is not None and context.inference.live_checker is None:
        raise NothingIsChecked("LIVE_CHECK_SHARE is 0", name=name)
    previous = await run(
        request,
        context.store.models.promote,
        caller.tenant,
        name,
        target.version,
        expected,
        move_back_after=target.move_back_after,
        by=caller.actor,
        room=context.room(caller.tenant),
    )
    return PromotionReply(name=name, default_version=target.version, previous_version=previous)


def _expected_version(if_match: str | None, if_none_match: str | None) -> int | None:
    """Return the default version that is expected: 0 for none, None for any."""
    check_conditions(if_match, if_none_match)
    if if_none_match is not None:
        return 0
    if if_match is None or if_match.strip() == "*":
        return None
    version = _VERSION_ETAG.fullmatch(if_match.strip())
    if version is None:
        raise MalformedHeader('If-Match takes one version here, in quotes, as in "2"', header="If-Match")
    return int(version[1])
