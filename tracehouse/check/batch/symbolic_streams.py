"""Symbolic streams: the operator streams of calls with several numbers of rows, read off the runs of a proof.

A run on symbols stands for calls of many sizes. It is read only if each number in it is a number plus a multiple of the
number of rows. Then what its streams have in common for two numbers of rows, they have in common for all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tracehouse.check.batch.operator_stream import Operation, Stream, Tensor
from tracehouse.check.batch.row_step import Mixes
from tracehouse.check.prove.operand_keys import tensors_in
from tracehouse.check.prove.proven_runs import ProvenRun, ProvenRuns
from tracehouse.check.prove.size_arithmetic import CannotEvaluate
from tracehouse.check.prove.symbols import SYMBOLIC, expression_of, is_fake
from tracehouse.check.prove.tensor_memory import storage_of

# A run is read for so many rows, if it stands for both. A choice: odd numbers seldom are sizes of something else.
_PREFERRED = (3, 5)


def read_streams(
    runs: ProvenRuns, sizes: Mapping[str, int], symbol: str, counts: Iterable[int]
) -> tuple[list[Stream], list[int]]:
    """Return streams of calls that together stand for all these numbers of rows, and the number of rows of each.

    The calls have these `sizes`, but for `symbol`, which is the number of rows. Raises Mixes if some number of rows is
    not proven, or if a run depends on it otherwise than said above.
    """
    stood_for: dict[int, tuple[ProvenRun, list[int]]] = {}
    for rows in counts:
        run = runs.run_at({**sizes, symbol: rows})
        if run is None:
            raise Mixes(f"it is not proven what the artifact computes for {rows} rows")
        stood_for.setdefault(id(run), (run, []))[1].append(rows)
    by_share = sorted(stood_for.values(), key=lambda one: -len(one[1]))
    if len(by_share[0][1]) < len(_PREFERRED):
        raise Mixes("the artifact computes otherwise for each number of rows")
    streams: list[Stream] = []
    chosen: list[int] = []
    for run, its_counts in by_share:
        rows_read = _PREFERRED if set(_PREFERRED) <= set(its_counts) else its_counts[-len(_PREFERRED) :]
        streams += _RunReader(run, sizes, symbol, its_counts).read(rows_read)
        chosen += rows_read
    return streams, chosen


class _RunReader:
    """Reads one run for several numbers of rows, of all that it stands for."""

    def __init__(self, run: ProvenRun, sizes: Mapping[str, int], symbol: str, counts: Sequence[int]) -> None:
        self._run = run
        self._counts = np.asarray(counts, dtype=np.int64)
        self._evaluation = run.evaluation(
            lambda name: self._counts if name == symbol else np.full_like(self._counts, sizes[name])
        )
        self._numbers: dict[int, list[Any]] = {}  # by the identity of torch's node of a symbolic number
        self._tensors: dict[int, list[Tensor]] = {}  # by the identity of a tensor, which the run keeps

    def read(self, counts: Sequence[int]) -> list[Stream]:
        """Return the stream for each of these numbers of rows. Raises Mixes."""
        self._places = [int(place) for place in np.searchsorted(self._counts, counts)]
        self._streams = [Stream() for _ in counts]
        for path, tensor in self._run.inputs.items():
            self._set_each("given", path, self._describe_made(tensor))
        for call in self._run.calls:
            arguments = self._read_nested(call.arguments)
            made = [self._describe_made(tensor) for tensor in tensors_in(call.result)]
            scalars = self._read_scalar(call.result)
            for place, stream in enumerate(self._streams):
                outputs = [tensor[place] for tensor in made]
                stream.operations.append(Operation(call.operator, arguments[place], outputs, scalars[place]))
        for path, tensor in self._run.outputs.items():
            self._set_each("outputs", path, self._describe(tensor))
        return self._streams

    def _set_each(self, name: str, path: str, tensors: Sequence[Tensor]) -> None:
        for stream, tensor in zip(self._streams, tensors, strict=True):
            getattr(stream, name)[path] = tensor

    def _read_nested(self, value: Any) -> list[Any]:
        """Return an argument for each stream: its tensors are described, and its symbolic numbers are numbers."""
        if isinstance(value, torch.Tensor):
            return self._describe(value)
        if isinstance(value, SYMBOLIC):
            return self._read_number(value)
        if isinstance(value, Mapping):
            items = [self._read_nested(one) for one in value.values()]
            return [dict(zip(value, one, strict=True)) for one in self._transpose(items)]
        if isinstance(value, list | tuple):
            return [[*one] for one in self._transpose([self._read_nested(one) for one in value])]
        return [value] * len(self._places)

    def _transpose(self, items: Sequence[list[Any]]) -> Iterator[Sequence[Any]]:
        return zip(*items, strict=True) if items else iter([()] * len(self._places))

    def _read_scalar(self, result: Any) -> list[Any]:
        """Return the number that an operator returned, for each stream; None if it returned tensors."""
        is_number = isinstance(result, bool | int | float | complex | torch.SymInt | torch.SymFloat | torch.SymBool)
        return self._read_nested(result) if is_number else [None] * len(self._places)

    def _read_number(self, number: torch.SymInt | torch.SymFloat | torch.SymBool) -> list[Any]:
        """Return the number for each stream. Raises Mixes unless it is as said above."""
        node = id(number.node)
        if node not in self._numbers:
            try:
                values = np.broadcast_to(self._evaluation.value(expression_of(number)), self._counts.shape)
            except CannotEvaluate as error:
                raise Mixes("a number that is computed from sizes is not known") from error
            if not _is_multiple_and_number(values, self._counts):
                raise Mixes("a number grows otherwise than the number of rows")
            self._numbers[node] = [values[place].item() for place in self._places]
        return self._numbers[node]

    def _describe(self, tensor: torch.Tensor) -> list[Tensor]:
        """Describe a tensor that an operator takes. Raises Mixes unless one gave it, or the artifact holds it."""
        if id(tensor) in self._tensors:
            return self._tensors[id(tensor)]
        address = self._find_held(tensor)
        described = self._describe_made(tensor)
        for stream, one in zip(self._streams, described, strict=True):
            stream.found[one.number] = f"{address} {tensor.dtype} {one.shape} {one.strides} {tensor.storage_offset()}"
        return described

    def _find_held(self, tensor: torch.Tensor) -> int:
        """Return the address of a tensor that the artifact holds. Raises Mixes for another one."""
        if not is_fake(tensor):
            return tensor.untyped_storage().data_ptr()
        address = self._run.held.get(storage_of(tensor))
        if address is None:
            raise Mixes("a tensor comes from no operator that was seen")
        return address

    def _describe_made(self, tensor: torch.Tensor) -> list[Tensor]:
        known = self._tensors.get(id(tensor))
        if known is None:
            if tensor.layout is not torch.strided:
                raise Mixes("a tensor is not laid out in strides")
            number, memory = len(self._tensors), storage_of(tensor)
            is_boolean = tensor.dtype in (torch.bool, torch.uint8)
            layouts = zip(self._read_nested(tensor.shape), self._read_nested(tensor.stride()), strict=True)
            known = self._tensors[id(tensor)] = [
                Tensor(number, tuple(shape), tuple(strides), memory, is_boolean) for shape, strides in layouts
            ]
        return known


def _is_multiple_and_number(values: "np.ndarray[Any, Any]", counts: "np.ndarray[Any, Any]") -> bool:
    """Whether integers grow evenly with the number of rows; floats and truths must not change with it."""
    if not (np.issubdtype(values.dtype, np.integer) or values.dtype == object):
        return bool((values == values[0]).all())
    if len(counts) == 1:
        return True
    pace, rest = divmod(int(values[-1]) - int(values[0]), int(counts[-1]) - int(counts[0]))
    return rest == 0 and bool((values == int(values[0]) + pace * (counts - counts[0])).all())
