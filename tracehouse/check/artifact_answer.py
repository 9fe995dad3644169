"""The artifact's answer to a call that the eager model has answered, and the comparison of both."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from tracehouse.check.calls import CallResult, call_artifact
from tracehouse.check.oracle import EagerOracle
from tracehouse.differential.comparison import ComparisonResult, Difference
from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error
from tracehouse.introspection import user_lines
from tracehouse.torch_values.compare import compare


@dataclass(frozen=True)
class ArtifactAnswer:
    """What the artifact answered, or the error that it raised, and the comparison with the eager model's answer."""

    compared: ComparisonResult
    answer: CallResult | None
    error: Exception | None = None


def ask_artifact(
    oracle: EagerOracle,
    artifact: torch.jit.ScriptModule,
    call: Call,
    eager: CallResult,
    *,
    tolerance: float,
    seed: int,
    gradients: bool = False,
    around: AbstractContextManager[Any] | None = None,
) -> ArtifactAnswer:
    """Call the artifact, and compare its outputs, and then the inputs as the call left them, with the eager model's.

    `eager` is the answer of `oracle`, which says how far apart rounding makes two answers, or `tolerance` does.
    `around` surrounds the artifact's call alone. An artifact that raises differs. Raises LimitExceeded if there is no
    more memory, which says nothing about it.
    """
    try:
        with around or nullcontext():
            answer = call_artifact(artifact, call, seed, gradients=gradients)
    except Exception as error:
        if is_out_of_memory(error):
            raise out_of_memory_error(error) from error
        difference = Difference("output", f"the artifact raised: {user_lines.last_error_line(error)}")
        return ArtifactAnswer(ComparisonResult(None, difference), None, error)
    return ArtifactAnswer(_compare(oracle, call, eager, answer, tolerance), answer)


def _compare(
    oracle: EagerOracle, call: Call, eager: CallResult, artifact: CallResult, tolerance: float
) -> ComparisonResult:
    outputs = oracle.compare(call, eager, artifact, tolerance)
    if not outputs.agrees:
        return outputs
    left = compare(eager.inputs, artifact.inputs, tolerance, "input").difference
    if left is None:
        return outputs
    afterwards = Difference(left.leaf, f"afterwards {left.what}", left.index, left.eager, left.artifact)
    return ComparisonResult(outputs.largest, afterwards)
