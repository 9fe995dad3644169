"""What a form of an archive is made for, as a runner says it."""

from collections.abc import Sequence

import torch

from tracehouse.contract.contract import MethodContract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import Region, Span
from tracehouse.contract.structure import Argument, TensorLeaf
from tracehouse.forms.raced import RacedCalls
from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values.tensors import datatype_of

FLOAT_MAX = 100.0
TOLERANCE = 1e-4


def calls_of(
    *example: torch.Tensor, names: str = "x", answers: Datatype = Datatype.FP32, free: Sequence[int] = range(9)
) -> RacedCalls:
    """The calls of an archive with these arguments, whose sizes in the `free` dims may vary."""
    named = dict(zip(names.split(), example, strict=True))
    inputs = [
        InputSpec(
            name=name,
            datatype=datatype_of(one) or Datatype.FP32,
            shape=tuple(f"{name}{dim}" if dim in free else size for dim, size in enumerate(one.shape)),
            example=tuple(one.shape),
        )
        for name, one in named.items()
    ]
    symbols = {dim for one in inputs for dim in one.shape if isinstance(dim, str)}
    contract = MethodContract(
        arguments=[Argument(name=name, structure=TensorLeaf(tensor=name)) for name in named],
        inputs=inputs,
        outputs=[OutputSpec(name="output", datatype=answers, shape=(-1,))],
        returns=TensorLeaf(tensor="output"),
        regions=[Region(spans={one: [Span(low=0, high=1000)] for one in symbols}, basis="proven")] if symbols else [],
    )
    return RacedCalls(contract, named, FLOAT_MAX, TOLERANCE)
