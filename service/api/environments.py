"""Environments: which extra packages a trace request may ask for. The operator installs them with the command."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from fastapi import APIRouter, Path
from pydantic import Field

from service.api.context import AppContext, ContextDep
from service.api.http.access import ACCESS_RESPONSES, MayRead
from service.api.http.in_turn import InTurn
from service.api.problems import problem_responses
from service.domain.environment import Environment
from service.domain.errors import EnvironmentNotFound, EnvironmentUnusable, UnknownEnvironment
from service.environments.environments import Environments
from service.environments.usability import fault_of
from service.sandbox.tiers import Tier
from tracehouse.artifact.environment import EnvironmentRef
from tracehouse.errors import InvalidRequest
from tracehouse.frozen import Frozen
from tracehouse.spec.environment_name import EnvironmentName

router = APIRouter(tags=["Environments"], responses=ACCESS_RESPONSES, route_class=InTurn)
_POINTER = "/environment"


class EnvironmentReply(Environment):
    """An environment, and whether it can be used."""

    fault: str | None = Field(description="Why no request can use it now; null if requests can.")

    @classmethod
    def of(cls, environment: Environment, context: AppContext) -> Self:
        fault = fault_of(environment, context.environments, context.tier)
        return cls(**environment.model_dump(), fault=fault)


class EnvironmentList(Frozen):
    """Every environment, in the order of their names."""

    environments: list[EnvironmentReply]


@router.get("/environments", summary="List the environments")
def list_environments(context: ContextDep, _: MayRead) -> EnvironmentList:
    """Lists the packages that each environment adds to those of the service. All tenants may use all of them."""
    return EnvironmentList(environments=[EnvironmentReply.of(each, context) for each in context.environments.list()])


@router.get(
    "/environments/{name}",
    summary="Read an environment",
    responses=problem_responses(InvalidRequest, EnvironmentNotFound),
)
def get_environment(
    context: ContextDep,
    _: MayRead,
    name: Annotated[
        EnvironmentName,
        Path(description="The environment's name.", openapi_examples={"for example": {"value": "vision"}}),
    ],
) -> EnvironmentReply:
    """Returns its digest, what it was made for, and its packages with their versions."""
    return EnvironmentReply.of(context.environments.find(name), context)


def requested_environment(environments: Environments, tier: Tier, name: str | None) -> EnvironmentRef | None:
    """Return the present version of the environment that a request names.

    Raises UnknownEnvironment and EnvironmentUnusable.
    """
    if name is None:
        return None
    try:
        environment = environments.find(name)
    except EnvironmentNotFound:
        detail = f"there is no environment {name!r} here"
        known = [each.name for each in environments.list()]
        raise UnknownEnvironment(detail, **_facts(name, detail), environments=known) from None
    if (fault := fault_of(environment, environments, tier)) is not None:
        detail = f"environment {name!r} cannot be used: {fault}"
        raise EnvironmentUnusable(detail, **_facts(name, detail))
    return environment.ref


def _facts(name: str, detail: str) -> Mapping[str, Any]:
    return {"environment": name, "errors": [{"pointer": _POINTER, "detail": detail}]}
