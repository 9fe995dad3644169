"""Batch rows: requests that are answered together, beside each of them alone."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tracehouse.contract.contract import Batch
from tracehouse.contract.structure import TensorLeaf
from tracehouse.differential.batch_rows import find_row_dependence
from tracehouse.differential.comparison import Answer
from tracehouse.tensors.tensor import Datatype, Tensor

BATCH = Batch(symbol="batch", up_to=8, inputs={"x": 0}, outputs={"output": 0})
TOLERANCE = 1e-5
Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def request(*rows: float) -> list[Tensor]:
    return [Tensor("x", Datatype.FP32, (len(rows), 1), np.asarray(rows, np.float32).tobytes())]


def answering(compute: Callable[[Array], Array], asked: list[int] | None = None) -> Callable[..., Answer | str]:
    """Return an artifact that computes this of `x`; `asked` gets the number of rows of each call."""

    def ask(inputs: Sequence[Tensor]) -> Answer | str:
        x = np.frombuffer(inputs[0].data, np.float32).reshape(inputs[0].shape)
        if asked is not None:
            asked.append(len(x))
        with np.errstate(all="ignore"):
            try:
                made = compute(x).astype(np.float32)
            except ValueError as error:
                return str(error)
        output = Tensor("output", Datatype.FP32, made.shape, made.tobytes())
        return Answer(TensorLeaf(tensor="output"), {"output": output})

    return ask


ONE, OTHER = request(1.0), request(2.0)


def test_a_request_that_comes_several_times_is_asked_alone_once() -> None:
    asked: list[int] = []

    found = find_row_dependence(
        answering(lambda x: x * 2, asked), [ONE, OTHER] * 4, BATCH, TOLERANCE, changes_values=False
    )

    assert found is None
    assert asked == [1, 1, 8]


def refuses_what_is_not_finite(x: Array) -> Array:
    if not np.isfinite(x).all():
        raise ValueError("not finite")
    return x * 2


def test_a_model_that_refuses_extreme_values_is_asked_without_them() -> None:
    assert find_row_dependence(answering(refuses_what_is_not_finite), [ONE, OTHER] * 4, BATCH, TOLERANCE) is None


@pytest.mark.parametrize("requests", [[ONE, OTHER], [ONE, OTHER] * 4], ids=["few", "many"])
@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x - x.mean(0),
        lambda x: x[::-1],
        lambda x: x + (x.max() > 50),
        lambda x: x + 0 * x.sum(),
        lambda x: x + np.isnan(x).any(),
        lambda x: x[:1].repeat(len(x), 0),
    ],
)
def test_rows_that_depend_on_others_are_found(compute: Callable[[Array], Array], requests: list[list[Tensor]]) -> None:
    assert find_row_dependence(answering(compute), requests, BATCH, TOLERANCE) is not None


def test_large_values_that_reach_other_rows_are_found_where_not_a_number_is_refused() -> None:
    def compute(x: Array) -> Array:
        return refuses_what_is_not_finite(x) + (x.max() > 50)

    assert find_row_dependence(answering(compute), [ONE, OTHER] * 4, BATCH, TOLERANCE) is not None
