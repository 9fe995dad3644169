"""Fresh rounds: the eager model and the artifact on inputs of an example's shapes, with values drawn here."""

import os
import time
from collections.abc import Sequence
from itertools import islice

import numpy as np

from tracehouse.differential import random_inputs
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.case_names import name_random_inputs
from tracehouse.differential.differential_run import DifferentialRun
from tracehouse.errors import Failure
from tracehouse.tensors.tensor import Tensor
from workers.verification.differential_runs import DifferentialTester

# Least and greatest number of rounds of fresh inputs that are compared, the further ones within the time; and how many
# rounds are drawn, for the eager model may refuse some.
ROUNDS_LEAST, ROUNDS_MOST, ROUNDS_DRAWN = 2, 6, 12
# Each round tells less than the one before it: a small model has them all in this time, and only the least number of
# rounds may make a large model's request longer.
ROUNDS_S = 0.1


def ask_fresh(tester: DifferentialTester, example: BoundCall) -> tuple[int, list[Failure]]:
    """Ask both models rounds of drawn inputs. Return how many were compared, and what the eager model refused."""
    rng = np.random.default_rng(int.from_bytes(os.urandom(32)))
    until = time.monotonic() + ROUNDS_S
    compared = 0
    refusals: list[Failure] = []
    for inputs in islice(random_inputs.draw_rounds(example.inputs, rng), ROUNDS_DRAWN):
        if compared == ROUNDS_MOST or (compared >= ROUNDS_LEAST and time.monotonic() > until):
            break
        case = name_random_inputs(f"{compared + 1}")
        seed = draw_seed()
        run = tester.ask(example, case, inputs, seed=seed)
        if run.refusal is not None:
            run = _ask_like_example(tester, example, case, inputs, seed) or run
        if run.refusal is not None:
            refusals.append(run.refusal)
        else:
            compared += run.comparisons is not None
    return compared, refusals


def _ask_like_example(
    tester: DifferentialTester, example: BoundCall, case: str, inputs: Sequence[Tensor], seed: int
) -> DifferentialRun | None:
    """Ask inputs that were refused once more, with the patterns of the example's values; None if these are kept."""
    kept = random_inputs.keep_patterns(example.inputs, inputs)
    return None if kept == [*inputs] else tester.ask(example, case, kept, seed=seed)


def draw_seed() -> int:
    """Return a seed that nobody could know beforehand."""
    return int.from_bytes(os.urandom(8)) >> 1
