"""The operator path of a call: the operators that it runs and the values that it reads, in their order."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.utils._python_dispatch import TorchDispatchMode

from tracehouse.check.instrumentation.taint import Taint
from tracehouse.check.prove.composite_operators import keep_composite_operators
from tracehouse.check.prove.read_variations import RecordedRead, Variation, are_few_truths
from tracehouse.check.prove.recorder import find_line_of_caller
from tracehouse.check.prove.unprovable import ReadsValue
from tracehouse.eager.call import Call
from tracehouse.eager.source import seed_all
from tracehouse.introspection import user_lines

_READS = {"_local_scalar_dense", "equal"}
# They only give another view or copy of a tensor, or a run on tensors without values calls others in their place.
_NOT_COMPARED = set(
    "detach alias lift lift_fresh detach_ lift_fresh_copy device slice view _unsafe_view expand clone _to_copy reshape "
    "_reshape_alias contiguous is_nonzero transpose t permute squeeze unsqueeze select as_strided copy_ "
    "_local_scalar_dense equal sym_size sym_stride sym_numel sym_storage_offset is_contiguous scalar_tensor".split()
)
_COMMON_NAMES = {
    "_convolution": "convolution",
    "mkldnn_convolution": "convolution",
    "convolution_overrideable": "convolution",
}

# Another answer to what a loop asks may keep it going for ever. Chosen.
OTHER_READS_MAX = 200

DEPENDS_ON_INPUTS = "the model reads a value that depends on its inputs"


@dataclass(frozen=True)
class OperatorPath:
    """The operators that a call ran, and the values that it read."""

    operators: list[str]
    reads: list[RecordedRead]


def comparable_operators(operators: list[str]) -> list[str]:
    """Return the operators that a run on real tensors and one without values have in common, one name for each."""
    return [_COMMON_NAMES.get(name, name) for name in operators if name not in _NOT_COMPARED]


class TooManyReads(Exception):
    """A call reads so many values that it may never end."""


def record_path(module: torch.nn.Module, call: Call, seed: int, *, reads_max: float = math.inf) -> OperatorPath:
    """Run a call on its real tensors and return its path.

    Raises TooManyReads if it reads more than `reads_max` values, and whatever the model raises.
    """
    cloned = call.clone()
    seed_all(seed)
    recorder = _PathRecorder(reads_max, Taint(cloned.tensors.values()))
    with torch.no_grad(), enable_python_dispatcher(), keep_composite_operators(), recorder:
        cloned.run(module)
    return OperatorPath(recorder.operators, recorder.reads)


class ReadReplay:
    """Answers a value read on tensors without values with what a real run read at the same line.

    It does so for reads that are known to be harmless, for one truth that follows from sizes alone, and for few truths:
    variations try all answers to these.
    """

    def __init__(
        self, path: OperatorPath, harmless: Collection[user_lines.Line], variation: Variation | None = None
    ) -> None:
        """`harmless` are lines that read values which change nothing in the result.

        With a variation, other values are read: it answers every read, also those that only such values lead to.
        """
        self.answered: list[RecordedRead] = []  # the reads whose values are those of the real run
        self.met_others = False  # whether a value was read that the real run does not read
        self._harmless = harmless
        self._variation = variation
        self._others_left = OTHER_READS_MAX
        self._counts: Counter[user_lines.Line | None] = Counter()
        self._reads = path.reads
        self._unused: dict[user_lines.Line | None, deque[Any]] = {}
        self.begin()
        others = [read for read in path.reads if read.line not in harmless]
        is_truth_of_sizes = len(others) == 1 and type(others[0].value) is bool and not others[0].follows_inputs
        # Whether lines are followed of which only the variations show whether they are harmless.
        self.is_doubtful = bool(others) and not is_truth_of_sizes and are_few_truths(path.reads)
        self._followed = {one.line for one in others} if self.is_doubtful or is_truth_of_sizes else set()
        # Whether another value is read in the place of one that follows from sizes: at other sizes it may be read.
        varied = {line for line, _ in variation.values} if variation is not None else set()
        self.varies_sizes = any(read.line in varied and not read.follows_inputs for read in path.reads)

    def begin(self) -> None:
        """Begin with the first read, as a call that is made again does."""
        self._counts.clear()
        self._unused = defaultdict(deque)
        for read in self._reads:
            self._unused[read.line].append(read.value)

    def __call__(self, line: user_lines.Line | None, known: Any, datatype: torch.dtype) -> Any:
        """Return `known`, the value where it is known without a real run, else the next value read at the line.

        Raises ReadsValue where the read is not harmless, or the real run read no value there.
        """
        unused = self._unused[line]
        value = unused.popleft() if unused else None
        if known is not None:
            return known
        if self._variation is not None:
            return self._vary(self._variation, line, value, datatype)
        if line not in self._harmless and (line is None or line not in self._followed):
            raise ReadsValue(DEPENDS_ON_INPUTS, line)
        if value is None:
            raise ReadsValue("the model reads a value that it does not read of real tensors", line)
        self.answered.append(RecordedRead(line, value))
        return value

    def _vary(
        self, variation: Variation, line: user_lines.Line | None, value: Any, datatype: torch.dtype
    ) -> bool | int | float:
        place = self._counts[line]
        self._counts[line] += 1
        if value is None:
            self.met_others = True
            self._others_left -= 1
            if self._others_left < 0:
                raise ReadsValue(f"it reads over {OTHER_READS_MAX} further values", line)
            truth: bool | int | float = torch.tensor(variation.others).to(datatype).item()
            return truth
        changed: bool | int | float = variation.values.get((line, place), value)
        return changed


class _PathRecorder(TorchDispatchMode):
    def __init__(self, reads_max: float, taint: Taint) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._reads_max = reads_max
        self._taint = taint
        self.operators: list[str] = []
        self.reads: list[RecordedRead] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.rpartition("::")[2]
        result = func(*args, **(kwargs or {}))
        self._taint.propagate(func, args, kwargs or {}, result)
        if name in _READS:
            if len(self.reads) >= self._reads_max:
                raise TooManyReads
            follows_inputs = any(one in self._taint for one in args if isinstance(one, torch.Tensor))
            self.reads.append(RecordedRead(find_line_of_caller(), result, follows_inputs))
        elif name not in _NOT_COMPARED:
            self.operators.append(name)
        return result
