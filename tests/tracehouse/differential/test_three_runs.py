"""The rule that tells rounding from error by the eager model's answer in float64."""

from collections.abc import Callable

import numpy as np
import pytest

from tracehouse.contract.structure import TensorLeaf
from tracehouse.differential.comparison import Answer, ComparisonResult, Outcome
from tracehouse.differential.three_runs import compare_three_runs
from tracehouse.tensors.tensor import Datatype, Tensor, array_bytes

EXACT = np.random.default_rng(0).normal(size=4096)
EPS = 2.0**-23


def answer(values: np.ndarray, datatype: Datatype = Datatype.FP32) -> Answer:
    data = array_bytes(datatype, values.astype(np.float32 if datatype is not Datatype.FP64 else np.float64))
    return Answer(TensorLeaf(tensor="output"), {"output": Tensor("output", datatype, values.shape, data)})


def with_noise(noise: float, seed: int, exact: np.ndarray = EXACT) -> np.ndarray:
    """Return the values as a model computes them that is off by this much."""
    drawn = np.random.default_rng(seed).normal(size=exact.shape)
    noisy: np.ndarray = exact + noise * drawn
    return noisy


def judge(
    eager: np.ndarray, artifact: np.ndarray, exact: np.ndarray = EXACT, datatype: Datatype = Datatype.FP32
) -> ComparisonResult:
    ask: Callable[[], Answer | str] = lambda: answer(exact, Datatype.FP64)  # noqa: E731
    return compare_three_runs(answer(eager, datatype), answer(artifact, datatype), ask, 1e-5)


@pytest.mark.parametrize("noise", [1e-7, 1e-6, 1e-5, 1e-4])
def test_an_artifact_that_rounds_as_eager_does_agrees(noise: float) -> None:
    judged = judge(with_noise(noise, 1), with_noise(noise, 2))

    assert judged.agrees


@pytest.mark.parametrize("noise", [1e-6, 1e-5, 1e-4])
def test_a_difference_of_three_times_the_noise_is_found(noise: float) -> None:
    eager = with_noise(noise, 1)
    largest = np.abs(eager - EXACT).max()

    judged = judge(eager, eager + 3 * largest)

    assert judged.outcome is Outcome.FAIL


def test_what_the_fixed_tolerance_takes_for_rounding_is_found_and_both_errors_are_told() -> None:
    eager = with_noise(1e-7, 1)
    judged = judge(eager, eager + 3e-6)

    assert compare_three_runs(answer(eager), answer(eager + 3e-6), lambda: "it raises", 1e-5).agrees
    assert judged.outcome is Outcome.FAIL
    assert judged.difference is not None
    assert "against the model in float64, the artifact's error is up to" in judged.difference.what


def test_a_single_wrong_value_among_thousands_is_found() -> None:
    eager = with_noise(1e-7, 1)
    artifact = eager.copy()
    artifact[1234] += 8e-6
    judged = judge(eager, artifact)

    assert judged.difference is not None
    assert judged.difference.index == [1234]


def test_a_badly_conditioned_answer_agrees_with_limits_and_its_condition_is_told() -> None:
    judged = judge(with_noise(1e-4, 1), with_noise(1e-4, 2))

    assert judged.outcome is Outcome.LIMITED
    assert judged.condition is not None
    assert 1e-4 < judged.condition * EPS * np.abs(EXACT).max() < 1e-3
    assert judged.relative > 1e-5


def test_where_float64_falls_on_another_side_the_tolerance_decides() -> None:
    # Eager and the artifact agree that the value is below the threshold; float64 sees it above.
    other_side = EXACT.copy()
    other_side[7] += 1.0
    eager = with_noise(1e-7, 1)
    near, far = with_noise(1e-7, 2), with_noise(1e-7, 2)
    far[7] += 1e-3

    assert judge(eager, near, other_side).outcome is Outcome.PASS
    assert judge(eager, far, other_side).outcome is Outcome.INCONCLUSIVE
    assert not judge(eager, far, other_side).agrees


@pytest.mark.parametrize("size", [1, 2, 8])
def test_a_few_values_that_eager_has_right_by_luck_may_be_rounded(size: int) -> None:
    exact = EXACT[:size].astype(np.float32).astype(np.float64)
    rounded = np.nextafter(exact.astype(np.float32), np.float32(np.inf)).astype(np.float64)

    assert judge(exact, rounded, exact).agrees


@pytest.mark.parametrize("datatype", [Datatype.BF16, Datatype.FP16])
def test_half_precision_has_a_multiplier_and_an_epsilon_of_its_own(datatype: Datatype) -> None:
    eps = {Datatype.BF16: 2.0**-7, Datatype.FP16: 2.0**-10}[datatype]
    eager = with_noise(2 * eps, 1)

    assert judge(eager, with_noise(2 * eps, 2), datatype=datatype).agrees
    assert not judge(eager, eager + 3.5 * np.abs(eager - EXACT).max(), datatype=datatype).agrees


def test_nan_and_infinity_must_lie_where_eager_has_them() -> None:
    eager, artifact = with_noise(1e-7, 1), with_noise(1e-7, 2)
    eager[3] = artifact[3] = np.inf
    eager[4] = artifact[4] = np.nan

    assert judge(eager, artifact).agrees
    artifact[5] = np.nan
    assert not judge(eager, artifact).agrees


def test_without_float64_the_tolerance_decides_and_it_is_told_why() -> None:
    eager = answer(with_noise(1e-7, 1))
    near = compare_three_runs(eager, answer(with_noise(1e-7, 2)), lambda: "it raises", 1e-5)
    far = compare_three_runs(eager, answer(with_noise(1e-4, 2)), lambda: "it raises", 1e-5)

    assert (near.outcome, near.without_float64) == (Outcome.PASS, "it raises")
    assert (far.outcome, far.without_float64) == (Outcome.FAIL, "it raises")


def test_equal_bytes_and_gross_differences_need_no_float64() -> None:
    def ask() -> Answer:
        raise AssertionError("it was asked")

    eager = answer(with_noise(1e-7, 1))

    assert compare_three_runs(eager, eager, ask, 1e-5).outcome is Outcome.PASS
    assert compare_three_runs(eager, answer(EXACT + 0.1), ask, 1e-5).outcome is Outcome.FAIL


def test_a_form_that_folds_constants_may_round_twice_as_much() -> None:
    eager = with_noise(1e-6, 1)
    folded = with_noise(3e-6, 2)
    precise = answer(EXACT, Datatype.FP64)

    assert not compare_three_runs(answer(eager), answer(folded), lambda: precise, 1e-5).agrees
    assert compare_three_runs(answer(eager), answer(folded), lambda: precise, 1e-5, rebuilt=True).agrees


def test_a_constant_that_a_trace_rounds_once_more_is_no_fault() -> None:
    length = np.float32(1020)
    once, twice = np.float32(1 / 1020 / 1020), np.float32(1) / length / length
    x = EXACT.astype(np.float32)

    assert once != twice
    assert judge(x * once, x * twice, x.astype(np.float64) / 1020 / 1020).agrees
