"""Deviations: `std_mean` and `var_mean` give what two operators give, of which a trace may have recorded these two."""

from collections.abc import Sequence
from typing import Any

import torch

from tracehouse.check.prove.operand_keys import Operands, bind_operands

_aten = torch.ops.aten
# Each with the operator that gives its first result alone.
DEVIATIONS = {_aten.std_mean.correction: _aten.std.correction, _aten.var_mean.correction: _aten.var.correction}


def split_call(func: Any, operands: Operands) -> Sequence[tuple[str, Operands]]:
    """Return the names and operands of the calls that give the operator's results one by one; none for another one.

    The deviation is the same to the last bit. The mean is rounded otherwise: it is computed along with the deviation
    (Welford's algorithm in torch's ReduceOpsKernel.cpp), and not from a sum.
    """
    deviation = DEVIATIONS.get(func)
    if deviation is None:
        return ()
    given = {argument.name: value for argument, value in operands}
    mean = bind_operands(_aten.mean.dim, (given["self"], given["dim"], given["keepdim"]), {})
    return ((deviation._schema.name.rpartition("::")[2], operands), ("mean", mean))
