"""Eager outputs: what each call of a request in mode eager returned, in one tensor file.

A tensor's name is `<call>.<leaf>`: calls are counted from 0, and leaves are named as in a contract (`0.output`,
`1.output.logits`). The file's text `calls` is a JSON list of the calls in their order.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from pydantic import Field, TypeAdapter

from tracehouse.contract.structure import Structure, tensors_of
from tracehouse.frozen import Frozen
from tracehouse.tensors import tensor_file
from tracehouse.tensors.tensor import Tensor
from tracehouse.tensors.tensor_file import TensorFile


class EagerCall(Frozen):
    """One call, and the structure of what it returned, in which values that are no tensors are constants."""

    method: str
    case: str = Field(description="`example`, or `check_inputs[0]` and so on.")
    returns: Structure


_calls = TypeAdapter(list[EagerCall])


@dataclass(frozen=True)
class EagerResult:
    """One call and what it returned."""

    method: str
    case: str
    returns: Structure
    outputs: Sequence[Tensor]


def iter_file_bytes(results: Iterable[EagerResult]) -> Iterator[bytes | bytearray | memoryview]:
    """Yield the bytes of the file that `EagerOutputs` reads."""
    results = list(results)
    calls = [EagerCall(method=one.method, case=one.case, returns=one.returns) for one in results]
    named = [(f"{place}.{tensor.name}", tensor) for place, one in enumerate(results) for tensor in one.outputs]
    return tensor_file.iter_file_bytes(named, {"calls": _calls.dump_json(calls).decode()})


class EagerOutputs:
    """The outputs in a file, which must stay open."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = TensorFile(file)
        self.calls = _calls.validate_json(self._file.about["calls"])

    def outputs(self, place: int) -> Iterator[Tensor]:
        """Yield the outputs of the call at that place, read one by one."""
        leaves = list(tensors_of(self.calls[place].returns))
        read = self._file.read(f"{place}.{leaf}" for leaf in leaves)
        return (replace(tensor, name=leaf) for leaf, tensor in zip(leaves, read, strict=True))
