"""The operator path of a call: the operators that it runs and the values that it reads, in their order."""

from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.utils._python_dispatch import TorchDispatchMode

from tracehouse.check.prove.composite_operators import keep_composite_operators
from tracehouse.check.prove.recorder import find_line_of_caller
from tracehouse.check.prove.unprovable import Unprovable
from tracehouse.eager.call import Call
from tracehouse.eager.source import seed_all
from tracehouse.introspection import user_lines

_READS = {"_local_scalar_dense", "equal"}
# They only give another view or copy of a tensor, or a run on tensors without values calls others in their place.
_NOT_COMPARED = set(
    "detach alias lift lift_fresh detach_ lift_fresh_copy device slice view _unsafe_view expand clone _to_copy reshape "
    "_reshape_alias contiguous is_nonzero transpose t permute squeeze unsqueeze select as_strided copy_ "
    "_local_scalar_dense equal sym_size sym_stride sym_numel sym_storage_offset is_contiguous".split()
)
_COMMON_NAMES = {
    "_convolution": "convolution",
    "mkldnn_convolution": "convolution",
    "convolution_overrideable": "convolution",
}


@dataclass(frozen=True)
class RecordedRead:
    """A value of a tensor that became a value of Python's, and the line that read it."""

    line: user_lines.Line | None
    value: Any


@dataclass(frozen=True)
class OperatorPath:
    """The operators that a call ran, and the values that it read."""

    operators: list[str]
    reads: list[RecordedRead]


def comparable_operators(operators: list[str]) -> list[str]:
    """Return the operators that a run on real tensors and one without values have in common, one name for each."""
    return [_COMMON_NAMES.get(name, name) for name in operators if name not in _NOT_COMPARED]


def record_path(module: torch.nn.Module, call: Call, seed: int) -> OperatorPath:
    """Run a call on its real tensors and return its path. Raises whatever the model raises."""
    cloned = call.clone()
    seed_all(seed)
    recorder = _PathRecorder()
    with torch.no_grad(), enable_python_dispatcher(), keep_composite_operators(), recorder:
        cloned.run(module)
    return OperatorPath(recorder.operators, recorder.reads)


class ReadReplay:
    """Answers a value read on tensors without values with what a real run read at the same line.

    It does so only for reads that are known to be harmless.
    """

    def __init__(self, path: OperatorPath, harmless: Collection[user_lines.Line]) -> None:
        """`harmless` are lines that read values which change nothing in the result."""
        self._harmless = harmless
        self._unused: dict[user_lines.Line | None, deque[Any]] = defaultdict(deque)
        for read in path.reads:
            self._unused[read.line].append(read.value)

    def __call__(self, line: user_lines.Line | None, known: Any) -> Any:
        """Return `known`, the value where it is known without a real run, else the next value read at the line.

        Raises Unprovable where the read is not harmless, or the real run read no value there.
        """
        unused = self._unused[line]
        value = unused.popleft() if unused else None
        if known is not None:
            return known
        if line not in self._harmless:
            raise Unprovable("the model reads a value that depends on its inputs", line)
        if value is None:
            raise Unprovable("the model reads a value that it does not read of real tensors", line)
        return value


class _PathRecorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[str] = []
        self.reads: list[RecordedRead] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.rpartition("::")[2]
        result = func(*args, **(kwargs or {}))
        if name in _READS:
            self.reads.append(RecordedRead(find_line_of_caller(), result))
        elif name not in _NOT_COMPARED:
            self.operators.append(name)
        return result
