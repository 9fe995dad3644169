"""Other datatypes of the inputs: which ones the artifact answers as the eager model does, in all combinations.

A trace may keep a datatype of its example, as in `torch.zeros(n, dtype=x.dtype)`. So a trace with the other datatype
must have the same graph, both must agree on it at the example's size and at others, and what is proven of the sizes
must be proven with it too. INT32 in place of INT64 is proven along with the sizes where neither side can tell them
apart. An output must always have the datatype of the example, or that of one and the same input, because the contract
can say nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from tracehouse.check.datatype_proof import DatatypeProver
from tracehouse.check.evidence import Evidence
from tracehouse.check.graph_diff.canonical import find_divergences
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.contract import MethodClaim
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.differential.datatype_combinations import Combination, find_accepted
from tracehouse.differential.size_samples import choose_telling_points, drop_duplicates
from tracehouse.eager.call import Call
from tracehouse.errors import LimitExceeded, ModelRaised
from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values import low_precision, returned
from tracehouse.torch_values.tensors import DTYPES, datatype_of
from tracehouse.torchscript.size_numbers import rounds_numbers_of_sizes

# The datatypes that a client may have in place of an example's.
_OTHERS = {
    Datatype.INT64: [Datatype.INT32],
    Datatype.INT32: [Datatype.INT64],
    Datatype.FP32: [Datatype.FP64, Datatype.FP16, Datatype.BF16],
    Datatype.FP64: [Datatype.FP32],
    Datatype.FP16: [Datatype.FP32, Datatype.BF16],
    Datatype.BF16: [Datatype.FP32, Datatype.FP16],
}

_Named = Mapping[str, Datatype | None]  # None: a dtype of torch that the protocol has no datatype for


@dataclass(frozen=True)
class FoundDatatypes:
    """The datatypes that inputs may have, by those that may have several, an input's own first.

    `datatype_of` has the outputs that do not always have the example's datatype, each with the input whose they have.
    """

    inputs: dict[str, list[Datatype]] = field(default_factory=dict)
    datatype_of: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Answered:
    """The datatypes of a call's inputs, and those of its outputs."""

    inputs: _Named
    outputs: _Named


def with_datatypes(claim: MethodClaim, target: Target, evidence: Evidence, budget: Budget) -> MethodClaim:
    """Return the claim with the datatypes that inputs may have, and the outputs that follow them."""
    agreed = {tuple(sorted(one.sizes.items())): one.call for one in reversed(evidence.size_calls) if one.agrees}
    prover = DatatypeProver(target, evidence, claim, budget)
    if prover.proves_all:  # one witness beside the proof
        others = sorted(agreed.values(), key=lambda call: call.byte_size)[:1]
    else:
        telling = choose_telling_points(dict(sizes) for sizes in agreed)
        # What holds at other sizes says nothing of one that is only tested.
        tested = [region for region in claim.regions if region.basis == "tested"]
        called = [sizes for sizes in map(dict, agreed) if any(one.contains_within_calls(sizes) for one in tested)]
        others = [agreed[tuple(sorted(sizes.items()))] for sizes in drop_duplicates([*telling, *called])]
    found = find_datatypes(target, others, prover, budget)
    return _with_memory_of(claim, found.inputs, target).model_copy(
        update={"datatypes": found.inputs, "datatype_of": found.datatype_of}
    )


def _with_memory_of(claim: MethodClaim, datatypes: Mapping[str, Sequence[Datatype]], target: Target) -> MethodClaim:
    """Return the claim with memory for the widest of these datatypes, or with no sizes beyond those that were called.

    A convolution of another datatype takes another way, and the memory for that was not measured.
    """
    if claim.memory is None:
        return claim
    has_other_floats = any(one.is_float for _, *others in datatypes.values() for one in others)
    if has_other_floats and any("conv" in step.operation for step in target.graph.steps):
        regions = [region.within_calls for region in claim.regions]
        return claim.model_copy(update={"regions": regions, "memory": None})
    return claim.model_copy(update={"memory": claim.memory.enlarged(_growth(datatypes), 0)})


def _growth(datatypes: Mapping[str, Sequence[Datatype]]) -> float:
    """Return how many times as large a tensor may be as with the example's datatypes, each input's first."""
    return max((one.item_bytes / own.item_bytes for own, *others in datatypes.values() for one in (own, *others)),
               default=1.0)  # fmt: skip


def find_datatypes(target: Target, others: Sequence[Call], prover: DatatypeProver, budget: Budget) -> FoundDatatypes:
    """Return the datatypes that inputs may have, and the outputs that follow them.

    `others` are calls of other sizes that agreed, and `prover` proves once more what is proven with the example's
    datatypes. Datatypes for which the budget leaves no time are not returned. Only a trace has a graph to compare, so
    nothing is returned for a script.
    """
    if target.retrace is None:
        return FoundDatatypes()
    search = _Search(target, [target.call, *others], prover, budget)
    own = {name: datatype_of(tensor) for name, tensor in target.call.tensors.items()}
    candidates = {name: [one, *search.candidates(one)] for name, one in own.items() if one is not None}
    inputs = find_accepted(candidates, search.hold)
    return FoundDatatypes(inputs, _find_followed(search.answered) or {})


class _Search:
    """The combinations that hold, with the datatypes of their outputs; at first those of the example."""

    def __init__(self, target: Target, calls: Sequence[Call], prover: DatatypeProver, budget: Budget) -> None:
        self._target = target
        self._calls = calls
        self._prover = prover
        self._budget = budget
        self.answered = [_Answered(_datatypes(target.call.tensors), _outputs(target.example.outputs))]

    def candidates(self, own: Datatype) -> list[Datatype]:
        """Return the datatypes to try in place of an input's own.

        A number that the trace computes from sizes in float32, and the model in Python, is not exact in float64. No
        proof covers that, since it was made with the example's datatype. Datatypes that end the process on this
        machine are left out.
        """
        is_on_cpu = all(tensor.device.type == "cpu" for tensor in self._target.call.tensors.values())
        others = [one for one in _OTHERS.get(own, []) if not (is_on_cpu and low_precision.crashes(DTYPES[one]))]
        if Datatype.FP64 in others and rounds_numbers_of_sizes(self._target.artifact, self._target.method):
            return [one for one in others if one is not Datatype.FP64]
        return others

    def hold(self, combinations: Sequence[Combination]) -> bool:
        """Whether both models agree with all combinations, and each output is like the example's or one input."""
        answered = [*self.answered]
        for changed in combinations:
            found = None if self._budget.is_spent else self._ask(changed)
            if found is None:
                return False
            answered.append(found)
        if _find_followed(answered) is None:
            return False
        self.answered = answered
        return True

    def _ask(self, changed: Combination) -> _Answered | None:
        """Return the datatypes of the calls with this combination; None if the models disagree or the graphs do."""
        is_proven = self._prover.covers(changed)
        witnesses = [min(self._calls, key=lambda call: call.byte_size)] if is_proven else self._calls
        calls = [_cast(call, changed) for call in witnesses]
        try:
            outputs = [self._outputs_of(call) for call in calls]
            if None in outputs or any(one != outputs[0] for one in outputs):
                return None
            if not (is_proven or (self._is_traced_alike(calls[0]) and self._prover.holds(calls[0]))):
                return None
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code, and torch's tracer of it
            return None
        if outputs[0] is None:
            return None
        return _Answered({**self.answered[0].inputs, **changed}, outputs[0])

    def _is_traced_alike(self, call: Call) -> bool:
        again = self._target.trace_again(call, within_s=CALL_LIMITS.second_trace.after(self._target.call_s))
        return not find_divergences(self._target.graph, again)

    def _outputs_of(self, call: Call) -> _Named | None:
        """Return the datatypes of eager's outputs, or None if the artifact does not answer as eager does."""
        target = self._target
        try:
            eager = target.eager.answer(call, within_s=target.call_s)
            asked = target.ask_artifact(call, eager)
        except (ModelRaised, LimitExceeded, TooSlow):
            return None
        return _outputs(eager.outputs) if asked.compared.agrees and not eager.drew else None


def _find_followed(answered: Sequence[_Answered]) -> dict[str, str] | None:
    """Return the input whose datatype an output always has, by the outputs that have several.

    None if an output has several datatypes, and is like no input, or if the outputs are not always the same.
    """
    first = answered[0]
    if any(one.outputs.keys() != first.outputs.keys() for one in answered):
        return None
    followed = {}
    for output, own in first.outputs.items():
        if all(one.outputs[output] is own for one in answered):
            continue
        alike = [name for name in first.inputs if all(one.inputs[name] is one.outputs[output] for one in answered)]
        if not alike:
            return None
        followed[output] = alike[0]
    return followed


def _cast(call: Call, datatypes: Combination) -> Call:
    changed = {name: call.tensors[name].to(DTYPES[datatype]) for name, datatype in datatypes.items()}
    return call.with_tensors({**call.tensors, **changed})


def _outputs(outputs: object) -> _Named:
    return _datatypes(returned.tensors(outputs))


def _datatypes(tensors: Mapping[str, torch.Tensor]) -> _Named:
    return {name: datatype_of(tensor) for name, tensor in tensors.items()}
