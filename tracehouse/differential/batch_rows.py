"""Rows: whether an artifact answers several requests at once as it answers each alone.

Asked of the artifact as it is served, on rows that are drawn here: f(a with b) = f(a) with f(b), and what stands in b
does not show in the answer to a.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from tracehouse.contract.contract import Batch
from tracehouse.differential.comparison import Answer, ComparisonResult, compare_leaf
from tracehouse.tensors.tensor import Datatype, Tensor, array, array_bytes

AskArtifact = Callable[[Sequence[Tensor]], Answer | str]


class RowsRefused(Exception):
    """The artifact raised: it says nothing of rows."""


# Other rows are made as large, so that what they lend to their neighbours shows.
_LARGE = 100.0
_SIDES = ("alone", "with other rows")


def find_row_dependence(
    ask: AskArtifact, some: Sequence[Tensor], others: Sequence[Tensor], batch: Batch, tolerance: float
) -> str | None:
    """How the rows show in one another, or None. Inputs without rows must be the same in both. Raises RowsRefused."""
    alone, others_alone, together = (_asked(ask, inputs) for inputs in (some, others, _with(some, others, batch)))
    first = _rows_of(some, batch)
    return (
        _compared(alone, together, batch, 0, first, tolerance)
        or _compared(others_alone, together, batch, first, _rows_of(others, batch), tolerance)
        or _lent(ask, alone, some, others, batch, tolerance)
    )


def _asked(ask: AskArtifact, inputs: Sequence[Tensor]) -> Answer:
    answer = ask(inputs)
    if isinstance(answer, str):
        raise RowsRefused(answer)
    return answer


def _lent(
    ask: AskArtifact, alone: Answer, some: Sequence[Tensor], others: Sequence[Tensor], batch: Batch, tolerance: float
) -> str | None:
    """Whether other values in the other rows show in the first ones."""
    for change in (_large, _not_a_number):
        changed = [change(one) if one.name in batch.inputs else one for one in others]
        together = ask(_with(some, changed, batch))
        if isinstance(together, str):
            continue  # such values are none for this model, and its rows are refused with them
        if found := _compared(alone, together, batch, 0, _rows_of(some, batch), tolerance):
            return found
    return None


def _compared(alone: Answer, together: Answer, batch: Batch, first: int, rows: int, tolerance: float) -> str | None:
    if alone.leaves.keys() != together.leaves.keys():
        return "together they return other outputs"
    for name, leaf in alone.leaves.items():
        other = together.leaves[name]
        if name in batch.outputs:
            part = _part(other, batch.outputs[name], first, rows)
            if part is None:
                return f"{name!r} has other rows: {list(other.shape)}"
            other = part
        compared: ComparisonResult = compare_leaf(leaf, other, tolerance, _SIDES)
        if compared.difference is not None:
            return f"{name!r} differs: {compared.difference.what}"
    return None


def _with(some: Iterable[Tensor], others: Iterable[Tensor], batch: Batch) -> list[Tensor]:
    return [_joined(one, other, batch.inputs[one.name]) if one.name in batch.inputs else one
            for one, other in zip(some, others, strict=True)]  # fmt: skip


def _joined(one: Tensor, other: Tensor, dim: int) -> Tensor:
    joined = np.concatenate([_items(one), _items(other)], axis=dim)
    return Tensor(one.name, one.datatype, joined.shape, joined.tobytes())


def _part(tensor: Tensor, dim: int, first: int, rows: int) -> Tensor | None:
    if dim >= len(tensor.shape) or tensor.shape[dim] < first + rows:
        return None
    part = _items(tensor)[(slice(None),) * dim + (slice(first, first + rows),)]
    return Tensor(tensor.name, tensor.datatype, part.shape, np.ascontiguousarray(part).tobytes())


def _items(tensor: Tensor) -> "np.ndarray[tuple[int, ...], np.dtype[np.void]]":
    """As they travel, whatever they are: a bfloat16 too."""
    return np.frombuffer(tensor.data, f"V{tensor.datatype.item_bytes}").reshape(tensor.shape)


def _rows_of(inputs: Sequence[Tensor], batch: Batch) -> int:
    shapes: Mapping[str, tuple[int, ...]] = {one.name: one.shape for one in inputs}
    name, dim = next(iter(batch.inputs.items()))
    return shapes[name][dim]


def _large(tensor: Tensor) -> Tensor:
    return _changed(tensor, lambda values: values * _LARGE + 1)


def _not_a_number(tensor: Tensor) -> Tensor:
    return _changed(tensor, lambda values: np.full_like(values, np.nan))


def _changed(tensor: Tensor, change: Callable[["np.ndarray[tuple[int], np.dtype[np.float64]]"], object]) -> Tensor:
    if not tensor.datatype.is_float:
        return tensor
    values = array(tensor.datatype, tensor.data)
    kind = np.float32 if tensor.datatype is Datatype.BF16 else values.dtype
    with np.errstate(over="ignore"):
        wide = np.asarray(change(values.astype(np.float64))).astype(kind)
    return Tensor(tensor.name, tensor.datatype, tensor.shape, array_bytes(tensor.datatype, wide))
