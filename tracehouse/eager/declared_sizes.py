"""Declared sizes: a call is checked against `dynamic`, and resized if it is for a bucket with other sizes."""

from collections.abc import Mapping

import torch

from tracehouse.contract.dims import SymbolicDim, shape_at, solve_or_conflict, symbols_of
from tracehouse.eager.call import Call
from tracehouse.errors import ArgumentMismatch
from tracehouse.spec.example_inputs import Dynamic
from tracehouse.torch_values.resizing import resize_dim

_REMEDY = "name in `dynamic` the inputs and dims of the examples, and give dims of different sizes different symbols"


def resize_call(call: Call, dynamic: Dynamic, sizes: Mapping[str, int]) -> Call:
    """Return the call with its declared dims resized, where `sizes` has a size in elements for their symbols.

    A dim is made longer by repeating the call's own values, and shorter by cutting them off. The result depends on
    nothing else, so every process gets the same example. Raises ArgumentMismatch if `dynamic` does not fit the call.
    """
    shapes = {name: _declared_shape(name, tensor, dynamic, call.method) for name, tensor in call.tensors.items()}
    if unknown := sorted(dynamic.keys() - shapes.keys()):
        detail = f"dynamic names {unknown[0]!r}, which is not an input: {call.method} has {', '.join(shapes)}"
        raise ArgumentMismatch(detail, method=call.method, unknown=unknown, inputs=[*shapes], remedy=_REMEDY)
    example = _solve_symbols(call, shapes)
    if not set().union(*map(symbols_of, shapes.values())) & sizes.keys():
        return call
    wanted = {**example, **sizes}
    return call.with_tensors(
        {name: _resize_tensor(name, call.tensors[name], shape, wanted, call.method) for name, shape in shapes.items()}
    )


def _declared_shape(name: str, tensor: torch.Tensor, dynamic: Dynamic, method: str) -> tuple[SymbolicDim, ...]:
    declared = dynamic.get(name, {})
    if beyond := [dim for dim in declared if int(dim) >= tensor.dim()]:
        raise ArgumentMismatch(
            f"dynamic names dim {beyond[0]} of {name!r}, which has {tensor.dim()} dims, counted from 0",
            method=method, input=name, remedy=_REMEDY,
        )  # fmt: skip
    return tuple(declared.get(str(dim), size) for dim, size in enumerate(tensor.shape))


def _solve_symbols(call: Call, shapes: Mapping[str, tuple[SymbolicDim, ...]]) -> dict[str, int]:
    """Return the size of each symbol in the example. Raises ArgumentMismatch if the dims contradict one another."""
    found = solve_or_conflict([(shape, call.tensors[name].shape) for name, shape in shapes.items()])
    if isinstance(found, dict):
        return found
    name = [*shapes][found.shape]
    size, declared = call.tensors[name].shape[found.dim], shapes[name][found.dim]
    if found.expected is not None:
        conflict = f"must be {found.expected} by the other dims"
    else:
        conflict = "has no solution in whole numbers"
    raise ArgumentMismatch(
        f"dim {found.dim} of {name!r} is {size} in the example; dynamic calls it {declared}, which {conflict}",
        method=call.method, input=name, remedy=_REMEDY,
    )  # fmt: skip


def _resize_tensor(
    name: str, tensor: torch.Tensor, shape: tuple[SymbolicDim, ...], sizes: Mapping[str, int], method: str
) -> torch.Tensor:
    for dim, size in enumerate(shape_at(shape, sizes)):
        if size == tensor.shape[dim]:
            continue
        if size < 0 or not tensor.shape[dim]:
            raise ArgumentMismatch(f"dim {dim} of {name!r} cannot have the size {size}", method=method, input=name)
        tensor = resize_dim(tensor, dim, size)
    return tensor
