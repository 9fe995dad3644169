"""Counterexamples of an artifact: inputs on which it differs from the model, as arrays and as a test."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from service.api.artifacts import Digest
from service.api.context import StoreDep
from service.api.downloads import BLOB_ERRORS, attachment, partial_responses
from service.api.http.access import ACCESS_RESPONSES, MayRead
from service.api.http.in_turn import InTurn, transfers_files
from service.api.problems import RangeNotSatisfiable, problem_responses
from service.domain.errors import ArtifactNotFound, CounterexampleNotFound
from tracehouse.artifact.counterexample import Counterexample
from tracehouse.artifact.counterexample_files import arrays_file, test_file
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import InvalidRequest

router = APIRouter(tags=["Artifacts"], responses=ACCESS_RESPONSES, route_class=InTurn)

Number = Annotated[int, Path(ge=0, le=999, examples=[0], description="The index in the artifact's `counterexamples`.")]

BINARY: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_PROBLEMS = problem_responses(
    InvalidRequest, ArtifactNotFound, CounterexampleNotFound, RangeNotSatisfiable, *BLOB_ERRORS
)


@router.get(
    "/artifacts/{digest}/counterexamples/{number}.npz",
    response_class=Response,
    summary="Download a counterexample's arrays",
    responses={
        200: {"description": "A file for `numpy.load`, without pickles.", "content": BINARY},
        **partial_responses(),
        **_PROBLEMS,
    },
)
@transfers_files
def get_arrays(request: Request, store: StoreDep, caller: MayRead, digest: Digest, number: Number) -> Response:
    """`input.<leaf>` are the inputs, `eager.<leaf>` the model's outputs, `artifact.<leaf>` the artifact's outputs,
    unless it raised. numpy has no bfloat16: such arrays are float32, and a `note` says so."""
    counterexample = _counterexample(store.artifacts.get(caller.tenant, digest), number)
    return attachment(request, store.blobs, counterexample.arrays, filename=arrays_file(number))


@router.get(
    "/artifacts/{digest}/counterexamples/{number}.py",
    response_class=Response,
    summary="Download a counterexample as a test",
    responses={
        200: {
            "description": "A pytest file that needs torch, numpy and pytest, but not this service.",
            "content": BINARY,
        },
        **partial_responses(),
        **_PROBLEMS,
    },
)
@transfers_files
def get_test(request: Request, store: StoreDep, caller: MayRead, digest: Digest, number: Number) -> Response:
    """The test contains the submitted source. It makes the model, traces it as the request asked, and compares both on
    this input: it fails until you mend the model in the file. Put uploads that are too large for the file beside it. It
    needs safetensors if the weights are such a file."""
    counterexample = _counterexample(store.artifacts.get(caller.tenant, digest), number)
    return attachment(request, store.blobs, counterexample.test, filename=test_file(number))


def _counterexample(artifact: Artifact, number: int) -> Counterexample:
    if number < len(artifact.counterexamples):
        return artifact.counterexamples[number]
    raise CounterexampleNotFound(
        f"there is no counterexample {number} of this artifact", counterexamples=len(artifact.counterexamples)
    )
