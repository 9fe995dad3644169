"""The model that a path of the protocol names: a name or `name@alias`, and perhaps a version."""

from typing import Annotated

from fastapi import Depends, Path

from service.api.context import ContextDep
from service.api.http.access import MayInfer
from service.domain.errors import (
    AliasNotFound,
    ArtifactNotFound,
    ArtifactWithdrawn,
    InvalidName,
    ModelNotFound,
    VersionNotFound,
)
from service.serving.inference import ServedModel

MODEL = "/v2/models/{name}"
MODEL_VERSION = "/v2/models/{name}/versions/{version}"

MODEL_ERRORS = (InvalidName, ModelNotFound, AliasNotFound, VersionNotFound, ArtifactNotFound, ArtifactWithdrawn)

Name = Annotated[
    str,
    Path(
        description="`name` or `name@alias`; `name` alone is the default version.",
        openapi_examples={"linear": {"value": "linear"}},
    ),
]
Version = Annotated[str, Path(description="The version.", openapi_examples={"first": {"value": "1"}})]


async def _default(context: ContextDep, caller: MayInfer, name: Name) -> ServedModel:
    return await context.inference.find(caller.tenant, name, None)


async def _versioned(context: ContextDep, caller: MayInfer, name: Name, version: Version) -> ServedModel:
    return await context.inference.find(caller.tenant, f"{name}:{version}", None)


Default = Annotated[ServedModel, Depends(_default)]
Versioned = Annotated[ServedModel, Depends(_versioned)]
