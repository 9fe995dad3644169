"""Other datatypes of the inputs: which ones the artifact answers as the eager model does, in all combinations.

A trace may keep a datatype of its example, as in `torch.zeros(n, dtype=x.dtype)`. So a trace with the other datatype
must have the same graph, and both must agree on it at the example's size and at another one. The outputs must have the
example's datatypes, because the contract has one for each.
"""

from collections.abc import Mapping, Sequence

import torch

from tracehouse.check.graph_diff.canonical import find_divergences
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.differential.datatype_combinations import are_few, combine
from tracehouse.eager.call import Call
from tracehouse.errors import LimitExceeded, ModelRaised
from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values import structure
from tracehouse.torch_values.tensors import DTYPES, datatype_of

# The datatypes that a client may have in place of an example's.
_OTHERS = {
    Datatype.INT64: [Datatype.INT32],
    Datatype.INT32: [Datatype.INT64],
    Datatype.FP32: [Datatype.FP64, Datatype.FP16],
    Datatype.FP64: [Datatype.FP32],
    Datatype.FP16: [Datatype.FP32],
}


def find_datatypes(target: Target, other_size: Call | None) -> dict[str, list[Datatype]]:
    """Return the datatypes that inputs may have, by the names of those that may have several; an input's own is first.

    `other_size` is a call of another size, if one agreed. Only a trace has a graph to compare, so nothing is returned
    for a script.
    """
    found: dict[str, list[Datatype]] = {}
    if target.retrace is None:
        return found
    calls = [target.call, *([] if other_size is None else [other_size])]
    for name, tensor in target.call.tensors.items():
        own = datatype_of(tensor)
        if own is None:
            continue
        others = [one for one in _OTHERS.get(own, []) if _all_agree(target, calls, [{name: one}])]
        wider = {**found, name: [own, *others]}
        together = [one for one in combine(wider) if name in one and len(one) > 1]
        if others and are_few(wider) and _all_agree(target, calls, together):
            found = wider
    return found


def _all_agree(target: Target, calls: Sequence[Call], combinations: Sequence[Mapping[str, Datatype]]) -> bool:
    return all(_agrees(target, [_cast(call, changed) for call in calls]) for changed in combinations)


def _cast(call: Call, datatypes: Mapping[str, Datatype]) -> Call:
    changed = {name: call.tensors[name].to(DTYPES[datatype]) for name, datatype in datatypes.items()}
    return call.with_tensors({**call.tensors, **changed})


def _agrees(target: Target, calls: Sequence[Call]) -> bool:
    """Whether the artifact answers all calls as eager does, and a trace of the first one has the artifact's graph."""
    try:
        if not all(_answers_alike(target, call) for call in calls):
            return False
        again = target.trace_again(calls[0], within_s=CALL_LIMITS.second_trace.after(target.call_s))
    except (Exception, TooSlow):  # noqa: BLE001 - submitted code, and torch's tracer of it
        return False
    return not find_divergences(target.graph, again)


def _answers_alike(target: Target, call: Call) -> bool:
    try:
        eager = target.eager.answer(call, within_s=target.call_s)
        asked = target.ask_artifact(call, eager)
    except (ModelRaised, LimitExceeded, TooSlow):
        return False
    return asked.compared.agrees and not eager.drew and _dtypes(eager.outputs) == _dtypes(target.example.outputs)


def _dtypes(outputs: object) -> dict[str, torch.dtype]:
    return {path: tensor.dtype for path, tensor in structure.tensors(outputs, "output").items()}
