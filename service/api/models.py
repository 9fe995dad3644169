"""Models: the registry's names, versions and aliases."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import Field

from service.api.context import AppContext, ContextDep, StoreDep
from service.api.counterexamples import BINARY, Number
from service.api.downloads import BLOB_ERRORS, attachment, partial_responses
from service.api.http.access import ACCESS_RESPONSES, MayAdmin, MayRead
from service.api.http.body import BODY_ERRORS, describe_body, read_model
from service.api.http.in_turn import InTurn, run
from service.api.pagination import Cursor, Limit, link_next
from service.api.problems import RangeNotSatisfiable, problem_responses
from service.domain.bitwise import BitwiseRows
from service.domain.errors import (
    AliasMoved,
    AliasNotFound,
    CounterexampleNotFound,
    DefaultVersionMoved,
    IfMatchRequired,
    InvalidCursor,
    MalformedHeader,
    ModelNotFound,
    NothingIsChecked,
    NothingToMoveBackTo,
    VersionAliased,
    VersionIsDefault,
    VersionNotFound,
)
from service.domain.form_race import FormRace
from service.domain.live_check import LiveCheck
from service.domain.model import Alias, Bucket, Model, ModelRef, ModelVersion, MovedBack
from service.domain.promotion import Promotion
from service.serving.bitwise import Bitwise
from service.serving.forms import Forms
from tracehouse.artifact.counterexample_files import arrays_file
from tracehouse.errors import InvalidRequest
from tracehouse.findings.verdict import Verdict
from tracehouse.frozen import Frozen
from tracehouse.spec.model_name import ModelName

router = APIRouter(tags=["Models"], responses=ACCESS_RESPONSES, route_class=InTurn)

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
_VERSION_ETAG = re.compile(r'"([1-9][0-9]{0,8})"')


class VersionLinks(Frozen):
    """The paths of what belongs to a version."""

    trace_request: str
    artifact: str
    infer: str


@dataclass(frozen=True)
class _Known:
    """What is known of versions beside their rows."""

    forms: Forms | None = None
    bitwise: Bitwise | None = None
    live_checks: Mapping[tuple[str, int], LiveCheck] = field(default_factory=dict)

    def raced(self, version: ModelVersion) -> dict[str, FormRace]:
        return {} if self.forms is None else _found(version, self.forms.find)

    def rows(self, version: ModelVersion) -> dict[str, BitwiseRows]:
        return {} if self.bitwise is None else _found(version, self.bitwise.find)


Found = TypeVar("Found")


def _found(version: ModelVersion, find: Callable[[str], Found | None]) -> dict[str, Found]:
    """Return what is found of the version's artifacts, by digest."""
    digests = dict.fromkeys([*version.artifacts.values(), *(bucket.digest for bucket in version.buckets)])
    return {digest: found for digest in digests if (found := find(digest)) is not None}


_NOTHING = _Known()


class VersionReply(Frozen):
    """One version. Its number is never used again, and nothing in it changes but `withdrawn`, `forms`, `bitwise` and
    `live_check`."""

    version: int
    verdict: Verdict
    artifacts: dict[str, str] = Field(
        description="The artifact's digest by device; with buckets, the digest of the first."
    )
    buckets: list[Bucket] = Field(
        description="If there is one artifact for each of several sizes, these. The one that takes a request's sizes "
        "answers it."
    )
    withdrawn: dict[str, str] = Field(
        description="Those of its artifacts of which a later check found a wrong answer that they promise to be right, "
        "by digest, with the trace request of that check: `/infer` refuses them."
    )
    promotion: Promotion | None = Field(
        description="Whether it became the default version when it was registered; null if an earlier release did that."
    )
    forms: dict[str, FormRace] = Field(
        description="With `SERVED_FORMS=raced`, by digest: which form of the artifact answers on this machine, by how "
        "much it is faster than the form as saved, and why other forms may not answer. An artifact that is not here "
        "answers as saved; it has not been raced yet."
    )
    bitwise: dict[str, BitwiseRows] = Field(
        description="By digest, whether answers have the same bytes whoever shares their calls, as calls on this "
        "machine showed. It is found out at the first request after the model was told to be `bitwise`."
    )
    live_check: LiveCheck | None = Field(
        description="With `LIVE_CHECK_SHARE`, what came of the answers that were compared with those of the model in "
        "Python; null if none was drawn for that yet."
    )
    created_at: datetime
    links: VersionLinks

    @classmethod
    def of(cls, name: str, version: ModelVersion, about: _Known = _NOTHING) -> "VersionReply":
        links = VersionLinks(
            trace_request=f"/trace/{version.trace_request}",
            artifact=f"/artifacts/{next(iter(version.artifacts.values()))}",
            infer=f"/infer/{name}:{version.version}",
        )
        fields = version.model_dump(exclude={"trace_request"})
        checked = about.live_checks.get((name, version.version))
        return cls(**fields, links=links, forms=about.raced(version), bitwise=about.rows(version), live_check=checked)


class AliasReply(Frozen):
    """An alias. Send its `etag` as `If-Match` to move it."""

    alias: str
    version: int
    etag: str
    move_back_after: int | None = Field(
        description="After so many answers of this version that are not those of the model in Python, counted since "
        "the alias was set, it is moved to `move_back_to`; null if it stays."
    )
    move_back_to: int | None
    moved_back: MovedBack | None = Field(description="Present if the live check moved it back, and nobody since then.")

    @classmethod
    def of(cls, alias: Alias) -> "AliasReply":
        return cls(etag=alias.etag, **alias.model_dump(exclude={"revision"}))


class ModelReply(Frozen):
    """A name, its versions, and the aliases that point at them."""

    name: str
    default_version: int | None = Field(
        description="The version that answers `/infer/{name}`, where neither a version nor an alias is named; null if "
        "none was promoted."
    )
    move_back_after: int | None = Field(
        description="After so many answers of the default version that are not those of the model in Python, counted "
        "since it was promoted, `move_back_to` is the default version again; null if it stays."
    )
    move_back_to: int | None
    moved_back: MovedBack | None = Field(
        description="Present if the live check moved the default version back, and nobody set it since then."
    )
    bitwise: bool = Field(
        description="Whether the bytes of an answer may depend on nobody who asks at the same time. Then requests "
        "share a call only where `bitwise` of the version says that it changes no byte, and the form as saved answers."
    )
    versions: list[VersionReply]
    aliases: list[AliasReply]

    @classmethod
    def of(cls, model: Model, about: _Known = _NOTHING) -> "ModelReply":
        return cls(
            name=model.name,
            default_version=model.default_version,
            move_back_after=model.move_back_after,
            move_back_to=model.move_back_to,
            moved_back=model.moved_back,
            bitwise=model.bitwise,
            versions=[VersionReply.of(model.name, version, about) for version in model.versions],
            aliases=[AliasReply.of(alias) for alias in model.aliases],
        )


class ModelList(Frozen):
    """Models in the order of their names."""

    models: list[ModelReply]
    next_cursor: str | None = Field(description="The `cursor` of the next page; null on the last page.")


class ModelChange(Frozen):
    """How the model is to be served."""

    bitwise: bool = Field(strict=True, description="What `bitwise` of the model is to be.")


class AliasTarget(Frozen):
    """The version that an alias is to point at, and when it is to be moved back."""

    version: int = Field(ge=1, lt=10**9, strict=True)
    move_back_after: int | None = Field(
        None,
        ge=1,
        lt=10**9,
        strict=True,
        description="Move the alias back to the version that it pointed at before, once so many answers of the new one "
        "are not those of the model in Python. It needs a `LIVE_CHECK_SHARE` above 0. Default: it stays.",
    )


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
    known = _known(context, caller.tenant, page.items)
    return ModelList(models=[ModelReply.of(model, known) for model in page.items], next_cursor=page.next_cursor)


@router.get("/models/{name}", summary="Read a model", responses=problem_responses(InvalidRequest, ModelNotFound))
def get_model(context: ContextDep, caller: MayRead, name: Name) -> ModelReply:
    """Returns its versions, oldest first, and the versions that its aliases point at."""
    return describe_model(context, caller.tenant, context.store.models.get(caller.tenant, name))


def describe_model(context: AppContext, tenant: str, model: Model) -> ModelReply:
    """Return what is known of a model."""
    return ModelReply.of(model, _known(context, tenant, [model]))


@router.patch(
    "/models/{name}",
    summary="Change how a model is served",
    responses=problem_responses(*BODY_ERRORS, ModelNotFound),
    openapi_extra=describe_body(ModelChange, example={"bitwise": True}),
)
async def change_model(request: Request, context: ContextDep, caller: MayAdmin, name: Name) -> ModelReply:
    """Sets whether the model is served bitwise: all its versions, under all names, by each transport.

    Without it, requests are answered together if the batch certificate says that rows are independent, which is so
    within the tolerance: the last digits of an answer may depend on how many others were asked at once.
    """
    change = await read_model(request, ModelChange)
    set_bitwise = partial(context.store.models.set_bitwise, bitwise=change.bitwise, by=caller.actor)
    model = await run(request, set_bitwise, caller.tenant, name)
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
        MalformedHeader,
        ModelNotFound,
        VersionNotFound,
        NothingIsChecked,
        NothingToMoveBackTo,
        DefaultVersionMoved,
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
) -> PromotionReply:
    """Makes the version the default version, whatever its verdict and its contract: from the next request on, it
    answers `/infer/{name}`.

    The reply names the default version before. To roll back, promote that one. With `move_back_after`, the live check
    does that when it finds the new version wrong so often.
    """
    target = await read_model(request, PromotionTarget)
    expected = _expected_version(if_match)
    if target.move_back_after is not None and context.inference.live_checker is None:
        raise NothingIsChecked("LIVE_CHECK_SHARE is 0", name=name)
    promote = partial(context.store.models.promote, move_back_after=target.move_back_after, by=caller.actor)
    previous = await run(request, promote, caller.tenant, name, target.version, expected)
    return PromotionReply(name=name, default_version=target.version, previous_version=previous)


_WITH_ETAG: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "ETag": {"description": "The value for `If-Match` in a move of the alias.", "schema": {"type": "string"}}
        }
    }
}


@router.get(
    "/models/{name}/aliases/{alias}",
    summary="Read an alias",
    responses={**_WITH_ETAG, **problem_responses(InvalidRequest, ModelNotFound, AliasNotFound)},
)
def get_alias(response: Response, store: StoreDep, caller: MayRead, name: Name, alias: AliasName) -> AliasReply:
    """Returns the version that it points at, and the ETag that a move needs."""
    aliases = store.models.get(caller.tenant, name).aliases
    named = next((each for each in aliases if each.alias == alias), None)
    if named is None:
        raise AliasNotFound(f"there is no alias {alias!r}", name=name, alias=alias)
    response.headers["ETag"] = named.etag
    return AliasReply.of(named)


@router.put(
    "/models/{name}/aliases/{alias}",
    summary="Set an alias",
    responses={
        **_WITH_ETAG,
        **problem_responses(
            *BODY_ERRORS,
            MalformedHeader,
            ModelNotFound,
            VersionNotFound,
            NothingIsChecked,
            NothingToMoveBackTo,
            AliasMoved,
            IfMatchRequired,
        ),
    },
    openapi_extra=describe_body(AliasTarget, example={"version": 1}),
)
async def put_alias(
    request: Request,
    response: Response,
    context: ContextDep,
    caller: MayAdmin,
    name: Name,
    alias: AliasName,
    if_match: Annotated[
        str | None,
        Header(alias="If-Match", description="The alias's current ETag; required if the alias exists."),
    ] = None,
    if_none_match: Annotated[
        str | None, Header(alias="If-None-Match", description="`*`: only if the alias does not exist yet.")
    ] = None,
) -> AliasReply:
    """Makes a new alias, or moves one that exists if `If-Match` has its current ETag.

    With `move_back_after`, the live check moves it back when it finds the new version wrong so often.
    """
    target = await read_model(request, AliasTarget)
    expected_etag = _expected_etag(if_match, if_none_match)
    if target.move_back_after is not None and context.inference.live_checker is None:
        raise NothingIsChecked("LIVE_CHECK_SHARE is 0", name=name, alias=alias)
    try:
        moved = caller.tenant, name, alias, target.version, expected_etag
        move = partial(context.store.models.put_alias, move_back_after=target.move_back_after, by=caller.actor)
        put = await run(request, move, *moved)
    except IfMatchRequired as error:
        if if_none_match is None:
            raise
        raise AliasMoved("the alias exists already", **error.facts) from error
    response.headers["ETag"] = put.etag
    return AliasReply.of(put)


@router.delete(
    "/models/{name}/aliases/{alias}",
    status_code=204,
    summary="Delete an alias",
    responses=problem_responses(InvalidRequest, ModelNotFound, AliasNotFound),
)
def delete_alias(store: StoreDep, caller: MayAdmin, name: Name, alias: AliasName) -> None:
    """Deletes the alias; the version that it points at remains."""
    store.models.delete_alias(caller.tenant, name, alias, by=caller.actor)


def _known(context: AppContext, tenant: str, models: Sequence[Model]) -> _Known:
    return _Known(
        context.forms,
        context.inference.bitwise,
        context.store.live_checks.find(tenant, [model.name for model in models]),
    )


def _expected_version(if_match: str | None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    version = _VERSION_ETAG.fullmatch(if_match.strip())
    if version is None:
        raise MalformedHeader('If-Match takes one version here, in quotes, as in "2"', header="If-Match")
    return int(version[1])


def _expected_etag(if_match: str | None, if_none_match: str | None) -> str | None:
    if if_none_match is not None and (if_none_match.strip() != "*" or if_match is not None):
        raise MalformedHeader("If-None-Match takes * here, and no If-Match beside it", header="If-None-Match")
    if if_match is not None and not _ETAG.fullmatch(if_match.strip()):
        raise MalformedHeader("If-Match takes one ETag, in its quotes", header="If-Match")
    return if_match.strip() if if_match is not None else None
