"""Each problem has a status of gRPC, and what a call ends with is never more than clients take."""

import json
from urllib.parse import quote

import grpc
import pytest

from service.api.grpc.statuses import PROBLEM_KEY, details_of, metadata_of, problem_of_call, status_code_of
from service.domain.errors import TooMuchArrives
from tracehouse.errors import InvalidTensor, ServiceError, UnexpectedInput, by_slug

# gRPC's clients take so many bytes of metadata unless they are told otherwise.
CLIENTS_TAKE = 8 * 1024


@pytest.mark.parametrize("slug", sorted(by_slug()))
def test_only_what_is_the_services_fault_is_an_internal_error(slug: str) -> None:
    error = by_slug()[slug]
    code = status_code_of(problem_of_call(error("it went wrong"), "/x", "id"))

    if code is grpc.StatusCode.INTERNAL:
        assert error.fault == "service"
    assert code is not grpc.StatusCode.OK


@pytest.mark.parametrize(
    "error",
    [
        UnexpectedInput("x" * 100_000, inputs=["name"] * 10_000),
        InvalidTensor("名" * 3000, remedy="🙂" * 3000),
    ],
)
def test_a_long_problem_is_cut_to_what_clients_take(error: ServiceError) -> None:
    problem = problem_of_call(error, "/inference.GRPCInferenceService/ModelInfer", "id")
    metadata = metadata_of(error, problem)

    sent = len(quote(details_of(problem))) + sum(len(name) + len(value) for name, value in metadata.items())
    assert sent < CLIENTS_TAKE
    assert json.loads(metadata[PROBLEM_KEY])["code"] == error.slug()
    assert all(value.isascii() and value.isprintable() for value in metadata.values())


def test_what_is_refused_for_now_says_when_to_try_again() -> None:
    error = TooMuchArrives("too much")

    assert metadata_of(error, problem_of_call(error, "/x", "id"))["retry-after"] == "1"
