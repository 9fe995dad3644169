"""Row trials of artifacts that answer as a test says: which numbers of rows give the same bytes, and why none do."""

import struct
from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import pytest

from service.domain.bitwise import BatchLevel, RowTrial
from service.serving import row_trial
from service.serving.row_trial import try_rows
from service.serving.served_method import ServedMethod
from tracehouse.contract.buckets import BucketContract
from tracehouse.contract.contract import Batch, MethodContract
from tracehouse.contract.regions import Region, Span
from tracehouse.errors import GraphRaised, InferenceTimeout
from tracehouse.tensors.tensor import Datatype, Tensor

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No outcome hangs on how busy the machine is."""
    monkeypatch.setattr(row_trial, "_TRIAL_S", 3600.0)


Values = "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
Model = Callable[[Values], Values]


def contract(up_to: int = 64, low: int = 1, high: int = 1000) -> MethodContract:
    """Takes rows of two numbers, of which `up_to` may be joined."""
    tensor = {"datatype": "FP32", "shape": ["batch", 2]}
    return MethodContract.model_validate(
        {
            "arguments": [{"name": "x", "structure": {"tensor": "x"}}],
            "inputs": [{"name": "x", "example": [3, 2], "fixed": {"1": "model"}, **tensor}],
            "outputs": [{"name": "output", **tensor}],
            "returns": {"tensor": "output"},
            "regions": [Region(spans={"batch": [Span(low=low, high=high)]}, basis="proven")],
            "batch": Batch(symbol="batch", up_to=up_to, inputs={"x": 0}, outputs={"output": 0}),
        }
    )


async def try_model(model: Model, method: MethodContract | None = None) -> RowTrial:
    served = ServedMethod([BucketContract({}, method or contract())], is_open=False, memory_max_bytes=None)

    async def ask(_: str, inputs: Sequence[Tensor]) -> list[Tensor]:
        values = np.frombuffer(inputs[0].data, np.float32).reshape(inputs[0].shape)
        answer = model(values).astype(np.float32)
        return [Tensor("output", Datatype.FP32, answer.shape, answer.tobytes())]

    example = Tensor("x", Datatype.FP32, (3, 2), struct.pack("<6f", *range(6)))
    [trial] = await try_rows(ask, {"forward": served}, {"forward": [[example]]}, 0)
    return trial


def with_rows(values: Values, change: object) -> Values:
    """Change each row a little, as code does that rounds otherwise."""
    return values + np.reshape(np.asarray(change), (-1, 1)) * np.float32(1e-3)


async def test_rows_that_nothing_changes_may_have_any_number() -> None:
    found = await try_model(lambda values: values)

    assert (found.level, found.rows) == (BatchLevel.BITWISE, [1, 2, 4, 8, 16, 32, 64])
    assert found.calls > 100
    assert [(one.name, one.shape) for one in found.inputs] == [("x", (1, 2))]


async def test_a_row_that_is_answered_otherwise_alone_is_never_alone() -> None:
    """As with most models: torch multiplies by a vector and by a matrix with other code."""
    found = await try_model(lambda values: with_rows(values, len(values) > 1))

    assert (found.level, found.rows) == (BatchLevel.BITWISE, [2, 4, 8, 16, 32, 64])


async def test_of_several_kinds_of_code_that_for_the_most_numbers_of_rows_answers() -> None:
    found = await try_model(lambda values: with_rows(values, len(values) >= 16))

    assert (found.level, found.rows) == (BatchLevel.BITWISE, [1, 2, 4, 8])


async def test_only_as_many_rows_as_the_certificate_covers_are_tried() -> None:
    asked = set()

    def model(values: Values) -> Values:
        asked.add(len(values))
        return values

    found = await try_model(model, contract(up_to=9))

    assert found.rows == [1, 2, 4, 8]
    assert asked == {1, 2, 4, 8}


async def test_only_sizes_that_the_contract_takes_are_tried() -> None:
    found = await try_model(lambda values: values, contract(low=3, high=40))

    assert found.rows == [4, 8, 16, 32]


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (lambda values: with_rows(values, np.arange(len(values)) % 2), "changed with its place"),
        (lambda values: with_rows(values, values.max() > 1), "changed with its place"),
        (lambda values: with_rows(values, ~np.isfinite(values).all()), "changed with its place"),
        (lambda values: with_rows(values, 0 if len(values) == 1 else np.arange(len(values))), "changed with its place"),
        (lambda values: values[:1], "another number of rows"),
    ],
)
async def test_rows_whose_bytes_change_are_numeric(model: Model, why: str) -> None:
    found = await try_model(model)

    assert (found.level, found.rows) == (BatchLevel.NUMERIC, [])
    assert why in found.why


async def test_bytes_that_change_from_the_fourth_row_on_leave_two() -> None:
    found = await try_model(lambda values: with_rows(values, np.arange(len(values)) % 4 == 3))

    assert found.rows == [1, 2]


async def test_if_each_number_of_rows_has_bytes_of_its_own_all_calls_have_one() -> None:
    found = await try_model(lambda values: with_rows(values, len(values)))

    assert (found.level, found.rows) == (BatchLevel.BITWISE, [4])


async def test_the_sign_of_zero_and_the_bits_of_nan_count() -> None:
    found = await try_model(lambda values: np.copysign(0 * values, len(values) - 1.5))

    assert found.rows == [2, 4, 8, 16, 32, 64]


async def test_an_artifact_that_raises_on_all_rows_is_numeric() -> None:
    def refuse(_: Values) -> Values:
        raise GraphRaised("no")

    found = await try_model(refuse)

    assert (found.level, found.why) == (BatchLevel.NUMERIC, "the artifact raises on all rows that were drawn")


async def test_an_artifact_that_refuses_odd_values_may_be_bitwise() -> None:
    def take_finite(values: Values) -> Values:
        if not np.isfinite(values).all():
            raise GraphRaised("no")
        return values

    assert (await try_model(take_finite)).level is BatchLevel.BITWISE


async def test_a_trial_that_cannot_be_made_to_its_end_is_numeric() -> None:
    def hang(values: Values) -> Values:
        if len(values) > 4:
            raise InferenceTimeout("no answer came within 10 s")
        return values

    found = await try_model(hang)

    assert (found.level, found.rows) == (BatchLevel.NUMERIC, [])
    assert "no answer came" in found.why


async def test_where_calls_are_slow_fewer_rows_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_trial, "_TRIAL_S", 0.0)

    found = await try_model(lambda values: values)

    assert (found.level, found.why) == (BatchLevel.NUMERIC, "a call takes too long for a trial")


async def test_without_a_certificate_there_is_no_trial() -> None:
    served = ServedMethod(
        [BucketContract({}, contract().model_copy(update={"batch": None}))], is_open=False, memory_max_bytes=None
    )

    async def ask(*_: object) -> list[Tensor]:
        pytest.fail("it was asked")

    example = Tensor("x", Datatype.FP32, (3, 2), bytes(4 * prod((3, 2))))
    assert await try_rows(ask, {"forward": served}, {"forward": [[example]]}, 0) == []
