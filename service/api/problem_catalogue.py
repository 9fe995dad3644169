"""The catalogue of problems: each kind of error, which a problem document's `type` points at."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from service.api.http.in_turn import InTurn
from service.api.problems import problem_responses, status_of
from tracehouse.errors import Fault, InvalidRequest, NotFound, ServiceError, by_slug
from tracehouse.frozen import Frozen

router = APIRouter(tags=["Problems"], route_class=InTurn)


class ProblemNotFound(NotFound):
    """No problem has this name

    `GET /problems` lists them.
    """


class ProblemKind(Frozen):
    """One kind of problem."""

    code: str
    type: str
    title: str
    remedy: str | None = Field(description="What to do about it, if that is the same for every problem of this kind.")
    status: int
    fault: Fault


class ProblemKinds(Frozen):
    """The kinds of problems in the order of their codes."""

    problems: list[ProblemKind]


@router.get("/problems", summary="List every kind of problem")
def list_problems() -> ProblemKinds:
    """A problem document's `type` is the path of one of these; its `code` is the last part of that path."""
    return ProblemKinds(problems=[_kind(error) for _, error in sorted(by_slug().items())])


@router.get(
    "/problems/{code}",
    summary="Describe one kind of problem",
    responses=problem_responses(ProblemNotFound, InvalidRequest),
)
def get_problem(
    code: Annotated[
        str,
        Path(description="A problem document's `code`.", openapi_examples={"for example": {"value": "shape-mismatch"}}),
    ],
) -> ProblemKind:
    """Describes the kind that a problem document's `type` points at."""
    if code not in by_slug():
        raise ProblemNotFound("no problem has this name", code=code[:80])
    return _kind(by_slug()[code])


def _kind(error: type[ServiceError]) -> ProblemKind:
    return ProblemKind(
        code=error.slug(),
        type=f"/problems/{error.slug()}",
        title=error.title(),
        remedy=error.remedy(),
        status=status_of(error),
        fault=error.fault,
    )
