"""Batch rows: whether an artifact answers the rows of several requests together as it answers them alone.

The artifact is called in the form that is served, on rows that the caller drew. The answer to a and b together must be
the answers to a and to b, joined, however often, and the rows for a must not change with the values in b. This is a
metamorphic test:
it compares answers with one another, and needs no model to say which is right.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from tracehouse.contract.contract import Batch
from tracehouse.differential.comparison import Answer, ComparisonResult, compare_leaf
from tracehouse.tensors.tensor import Datatype, Tensor, array, array_bytes

# Calls the artifact on these inputs. A text is what it raised.
AskArtifact = Callable[[Sequence[Tensor]], Answer | str]


class RowsRefused(Exception):
    """The artifact raised on these inputs, so nothing is known of its rows."""


# Other rows are made this many times as large, so that their influence on their neighbours shows. Chosen.
_LARGE = 100.0
_NAMES = ("alone", "with other rows")


def find_row_dependence(
    ask: AskArtifact,
    requests: Sequence[Sequence[Tensor]],
    batch: Batch,
    tolerance: float,
    *,
    changes_values: bool = True,
) -> str | None:
    """Return how rows depend on one another, as text, or None if they do not. Raises RowsRefused.

    `requests` are the inputs of two or more calls, whose sizes differ at most in the number of rows; one that comes
    several times is asked alone once. Inputs to which `batch` gives no row dim must be the same in all. With
    `changes_values`, the artifact is called twice more, on extreme floats in all rows but the first request's.
    `tolerance` is the relative error that is allowed.
    """
    distinct = {id(inputs): inputs for inputs in requests}
    alone = {key: _answer(ask, inputs) for key, inputs in distinct.items()}
    together = _answer(ask, _join_all(requests, batch))
    place = 0
    for inputs in requests:
        rows = _count_rows(inputs, batch)
        if found := _compare_rows(alone[id(inputs)], together, batch, place, rows, tolerance):
            return found
        place += rows
    return _find_influence(ask, alone[id(requests[0])], requests, batch, tolerance) if changes_values else None


def _answer(ask: AskArtifact, inputs: Sequence[Tensor]) -> Answer:
    answer = ask(inputs)
    if isinstance(answer, str):
        raise RowsRefused(answer)
    return answer


def _find_influence(
    ask: AskArtifact, alone: Answer, requests: Sequence[Sequence[Tensor]], batch: Batch, tolerance: float
) -> str | None:
    """Return how the answer to the first request changes with the values in the others' rows, or None."""
    first, *others = requests
    if not any(one.datatype.is_float for one in first if one.name in batch.inputs):
        return None
    for change in (_large, _not_a_number):
        changed = [[change(one) if one.name in batch.inputs else one for one in inputs] for inputs in others]
        together = ask(_join_all([first, *changed], batch))
        if isinstance(together, str):
            continue  # the model refuses such values, and all rows with them
        if found := _compare_rows(alone, together, batch, 0, _count_rows(first, batch), tolerance):
            return found
    return None


def _compare_rows(alone: Answer, together: Answer, batch: Batch, first: int, rows: int, tolerance: float) -> str | None:
    if alone.leaves.keys() != together.leaves.keys():
        return "together they return other outputs"
    for name, leaf in alone.leaves.items():
        other = together.leaves[name]
        if name in batch.outputs:
            part = _part(other, batch.outputs[name], first, rows)
            if part is None:
                return f"{name!r} has other rows: {list(other.shape)}"
            other = part
        compared: ComparisonResult = compare_leaf(leaf, other, tolerance, _NAMES)
        if compared.difference is not None:
            return f"{name!r} differs: {compared.difference.what}"
    return None


def _join_all(requests: Iterable[Sequence[Tensor]], batch: Batch) -> list[Tensor]:
    return [_join(tensors, batch.inputs[tensors[0].name]) if tensors[0].name in batch.inputs else tensors[0]
            for tensors in zip(*requests, strict=True)]  # fmt: skip


def _join(tensors: Sequence[Tensor], dim: int) -> Tensor:
    joined = np.concatenate([*map(_items, tensors)], axis=dim)
    return Tensor(tensors[0].name, tensors[0].datatype, joined.shape, joined.tobytes())


def _part(tensor: Tensor, dim: int, first: int, rows: int) -> Tensor | None:
    if dim >= len(tensor.shape) or tensor.shape[dim] < first + rows:
        return None
    part = _items(tensor)[(slice(None),) * dim + (slice(first, first + rows),)]
    return Tensor(tensor.name, tensor.datatype, part.shape, np.ascontiguousarray(part).tobytes())


def _items(tensor: Tensor) -> "np.ndarray[tuple[int, ...], np.dtype[np.void]]":
    """Return the tensor's items as opaque bytes, which numpy can join for every datatype, bfloat16 too."""
    return np.frombuffer(tensor.data, f"V{tensor.datatype.item_bytes}").reshape(tensor.shape)


def _count_rows(inputs: Sequence[Tensor], batch: Batch) -> int:
    shapes: Mapping[str, tuple[int, ...]] = {one.name: one.shape for one in inputs}
    name, dim = next(iter(batch.inputs.items()))
    return shapes[name][dim]


def _large(tensor: Tensor) -> Tensor:
    return _change(tensor, lambda values: values * _LARGE + 1)


def _not_a_number(tensor: Tensor) -> Tensor:
    return _change(tensor, lambda values: np.full_like(values, np.nan))


def _change(tensor: Tensor, change: Callable[["np.ndarray[tuple[int], np.dtype[np.float64]]"], object]) -> Tensor:
    if not tensor.datatype.is_float:
        return tensor
    values = array(tensor.datatype, tensor.data)
    kind = np.float32 if tensor.datatype is Datatype.BF16 else values.dtype
    with np.errstate(over="ignore"):
        wide = np.asarray(change(values.astype(np.float64))).astype(kind)
    return Tensor(tensor.name, tensor.datatype, tensor.shape, array_bytes(tensor.datatype, wide))
