"""A call at other sizes: what a bucket is traced on, and compared on, in place of the example."""

from collections.abc import Mapping

import torch

from service.domain.dim import SymbolicDim, shape_at, solve, symbols_of
from service.domain.errors import ArgumentMismatch
from service.domain.example_inputs import Dynamic
from workers.tracing.call import Call
from workers.tracing.checks.inputs.resizing import along


def resized(call: Call, dynamic: Dynamic, sizes: Mapping[str, int]) -> Call:
    """The call with its declared dims as long as these symbols make them: its own values again and again, or cut off.

    Every process does it alike, so that all have the same example. Raises ArgumentMismatch.
    """
    shapes = {name: _shape(name, tensor, dynamic, call.method) for name, tensor in call.tensors.items()}
    if unknown := sorted(dynamic.keys() - shapes.keys()):
        raise ArgumentMismatch(f"dynamic names {unknown[0]!r}, which is no input", method=call.method, unknown=unknown)
    if not set().union(*map(symbols_of, shapes.values())) & sizes.keys():
        return call
    example = solve([(shape, call.tensors[name].shape) for name, shape in shapes.items()])
    if example is None:
        raise ArgumentMismatch("the example has not the sizes that dynamic says", method=call.method)
    wanted = {**example, **sizes}
    return call.with_tensors(
        {name: _resized(name, call.tensors[name], shape, wanted, call.method) for name, shape in shapes.items()}
    )


def _shape(name: str, tensor: torch.Tensor, dynamic: Dynamic, method: str) -> tuple[SymbolicDim, ...]:
    declared = dynamic.get(name, {})
    if beyond := [dim for dim in declared if int(dim) >= tensor.dim()]:
        raise ArgumentMismatch(
            f"dynamic names dim {beyond[0]} of {name!r}, which has {tensor.dim()}", method=method, input=name
        )
    return tuple(declared.get(str(dim), size) for dim, size in enumerate(tensor.shape))


def _resized(
    name: str, tensor: torch.Tensor, shape: tuple[SymbolicDim, ...], sizes: Mapping[str, int], method: str
) -> torch.Tensor:
    for dim, size in enumerate(shape_at(shape, sizes)):
        if size == tensor.shape[dim]:
            continue
        if size < 0 or not tensor.shape[dim]:
            raise ArgumentMismatch(f"dim {dim} of {name!r} cannot have the size {size}", method=method, input=name)
        tensor = along(tensor, dim, size)
    return tensor
