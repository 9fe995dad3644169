"""Kinds of findings: what a finding's `kind` means, one entry for each kind there is."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from service.api.http.in_turn import InTurn
from service.api.problems import problem_responses
from tracehouse.errors import InvalidRequest, NotFound
from tracehouse.findings.kinds import CATALOGUE, FindingKind, Kind, Weight, entry_of, path_of
from tracehouse.frozen import Frozen

router = APIRouter(tags=["Findings"], route_class=InTurn)


class FindingKindNotFound(NotFound):
    """There is no kind of finding of this name

    `GET /findings` lists them.
    """


class FindingKindSummary(Frozen):
    """One kind of finding, in short."""

    kind: Kind
    title: str
    weight: Weight
    link: str = Field(description="The path of its whole entry.")


class FindingKinds(Frozen):
    """Every kind of finding, by its name."""

    findings: list[FindingKindSummary]


@router.get("/findings", summary="List every kind of finding")
def list_finding_kinds() -> FindingKinds:
    """Each finding's `kind` is one of these, unless an earlier release stored it."""
    return FindingKinds(
        findings=[
            FindingKindSummary(kind=entry.kind, title=entry.title, weight=entry.weight, link=path_of(entry.kind))
            for _, entry in sorted(CATALOGUE.items())
        ]
    )


@router.get(
    "/findings/{kind}",
    summary="Describe one kind of finding",
    responses=problem_responses(FindingKindNotFound, InvalidRequest),
)
def get_finding_kind(
    kind: Annotated[
        str, Path(description="A finding's `kind`.", openapi_examples={"for example": {"value": "baked-value"}})
    ],
) -> FindingKind:
    """What the kind means, whether it speaks against the artifact, what to write instead, and an example."""
    entry = entry_of(kind)
    if entry is None:
        raise FindingKindNotFound("there is no kind of finding of this name", kind=kind[:80])
    return entry
