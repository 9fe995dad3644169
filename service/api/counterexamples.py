"""Counterexamples of an artifact: inputs that it answers otherwise than the model, as arrays and as a test."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from service.api.artifacts import Digest
from service.api.context import StoreDep
from service.api.downloads import attachment, partial_responses
from service.api.http.access import ACCESS_RESPONSES, MayRead
from service.api.problems import RangeNotSatisfiable, problem_responses
from service.domain.errors import ArtifactNotFound, CounterexampleNotFound
from tracehouse.artifact.counterexample import Counterexample
from tracehouse.artifact.counterexample_files import arrays_file, test_file
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import InvalidRequest

router = APIRouter(tags=["Artifacts"], responses=ACCESS_RESPONSES)

Number = Annotated[
    int, Path(ge=0, le=999, examples=[0], description="Its place in the artifact's `counterexamples`, from 0 on.")
]

_BINARY: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_PROBLEMS = problem_responses(InvalidRequest, ArtifactNotFound, CounterexampleNotFound, RangeNotSatisfiable)


@router.get(
    "/artifacts/{digest}/counterexamples/{number}.npz",
    response_class=Response,
    summary="Download a counterexample's arrays",
    responses={
        200: {"description": "What `numpy.load` takes, without pickles.", "content": _BINARY},
        **partial_responses(),
        **_PROBLEMS,
    },
)
def get_arrays(request: Request, store: StoreDep, caller: MayRead, digest: Digest, number: Number) -> Response:
    """`input.<leaf>` is what both were asked, `eager.<leaf>` what the model gave, `artifact.<leaf>` what the artifact
    gave, where it did not raise. numpy has no bfloat16: it stands there as float32, and a `note` says so."""
    found = _counterexample(store.artifacts.get(caller.tenant, digest), number)
    return attachment(request, store.blobs, found.arrays, filename=arrays_file(number))


@router.get(
    "/artifacts/{digest}/counterexamples/{number}.py",
    response_class=Response,
    summary="Download a counterexample as a test",
    responses={
        200: {
            "description": "A pytest file that needs nothing of the service: torch, numpy and pytest.",
            "content": _BINARY,
        },
        **partial_responses(),
        **_PROBLEMS,
    },
)
def get_test(request: Request, store: StoreDep, caller: MayRead, digest: Digest, number: Number) -> Response:
    """It makes the model of the submitted source, which is in it, traces it as the request asked, and compares the two
    on this input: it fails until the model is mended, in the file itself. Uploads too large to stand in it are to be
    put beside it, and safetensors is needed where the weights are such a file."""
    found = _counterexample(store.artifacts.get(caller.tenant, digest), number)
    return attachment(request, store.blobs, found.test, filename=test_file(number))


def _counterexample(artifact: Artifact, number: int) -> Counterexample:
    if number < len(artifact.counterexamples):
        return artifact.counterexamples[number]
    raise CounterexampleNotFound(
        f"there is no counterexample {number} of this artifact", counterexamples=len(artifact.counterexamples)
    )
