"""Claims of further datatypes, verified: each combination is asked on inputs that are drawn here."""

from collections.abc import Mapping, Sequence

import numpy as np

from tracehouse.contract.contract import MethodContract
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.datatype_combinations import Datatypes, are_few, combine
from tracehouse.differential.size_samples import Sizes
from tracehouse.tensors.tensor import Datatype, Tensor, array, array_bytes
from workers.verification.differential_runs import DifferentialTester
from workers.verification.sized_inputs import SizedInputs

_DRAWS = 3  # at each size. Chosen.


def holds_for_datatypes(
    tester: DifferentialTester,
    call: BoundCall,
    contract: MethodContract,
    inputs: SizedInputs,
    claimed: Datatypes,
    sizes: Sequence[Sizes],
) -> bool:
    """Whether both models agree with all combinations of the claimed datatypes at each of these sizes.

    The outputs must have the contract's datatypes. Inputs that the eager model refuses say nothing; at each size, some
    must be answered.
    """
    expected = {(spec.name, spec.datatype) for spec in contract.outputs}
    if not are_few(claimed):
        return False
    for changed in combine(claimed):
        for one in sizes:
            drawn = [_cast(inputs.draw(one, number), changed) for number in range(_DRAWS)]
            answers = [tester.compare_unrecorded(call, given) for given in drawn]
            answered = [outputs for outputs in answers if outputs != "refused"]
            if not answered or any(
                outputs == "differs" or {(spec.name, spec.datatype) for spec in outputs} != expected
                for outputs in answered
            ):
                return False
    return True


def _cast(inputs: Sequence[Tensor], datatypes: Mapping[str, Datatype]) -> list[Tensor]:
    with np.errstate(over="ignore", invalid="ignore"):  # numbers near the largest may overflow
        return [_cast_tensor(one, datatypes.get(one.name, one.datatype)) for one in inputs]


def _cast_tensor(tensor: Tensor, datatype: Datatype) -> Tensor:
    if datatype is tensor.datatype:
        return tensor
    data = array_bytes(datatype, array(tensor.datatype, tensor.data))
    return Tensor(tensor.name, datatype, tensor.shape, data)
