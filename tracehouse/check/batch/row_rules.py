"""Row rules: for each operator of torch, where the rows are in what it returns.

An operator without a rule, and one that computes across rows, mixes them. A rule is called if an argument has rows.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import torch

from tracehouse.check.batch.operator_stream import Operation, Shape, Tensor, find_tensors
from tracehouse.check.batch.row_states import PLACES, Fixed, Place, Rows, Starts, State, locate
from tracehouse.check.batch.row_step import Mixes, Step

Rule = Callable[[Step], list[State]]


def find_rule(step: Step) -> Rule:
    """Return the rule of a step's operator. Raises Mixes if there is none."""
    operation = step.operation
    if is_pointwise(operation):
        return _apply_pointwise
    if (rule := _RULES.get(operation.name)) is not None:
        return rule
    if operation.name.startswith(("linalg_", "_linalg_")):
        return _keep_before(lambda _: 2)
    raise Mixes("no rule says that it does not")


def is_pointwise(operation: Operation) -> bool:
    """Whether each entry comes from the entries at its own place."""
    return torch.Tag.pointwise in operation.operator.tags or operation.name in _POINTWISE


def _apply_pointwise(step: Step) -> list[State]:
    """Each entry comes from the entries at its own place, after broadcasting."""
    step.require_same_arguments()
    places = {_from_the_right(step, tensor) for tensor in step.operation.tensors if _holds_rows(step, tensor)}
    if len(places) != 1:
        raise Mixes("rows of one tensor meet other rows of another")
    _require_no_places(step, step.operation.tensors)
    [(dim, inner)] = places
    return [step.give_rows(output, dim, inner) for output in range(len(step.outputs))]


def _keep_stride(step: Step) -> list[State]:
    """The entries stay in their order."""
    [state] = {step.state(tensor) for tensor in step.operation.tensors}
    for output, tensor in enumerate(step.outputs):
        assert isinstance(state, Rows)
        place = locate(state.stride, tensor.shape, step.rows[0])
        if place is None:
            raise Mixes("rows are spread over several dims")
        step.give_rows(output, place.dim, place.inner)
    return [state for _ in step.outputs]


def _scale_stride(factor: int) -> Rule:
    def apply(step: Step) -> list[State]:
        state = step.state(step.tensor("self"))
        assert isinstance(state, Rows)
        stride, rest = divmod(state.stride * factor, 2)
        if rest:
            raise Mixes("pairs of numbers have two rows")
        return [Rows(stride)]

    return apply


def _permute(step: Step) -> list[State]:
    """Dims change places."""
    tensor = step.tensor("self")
    place = step.place(tensor)
    return [step.give_rows(0, _find_order(step, len(tensor.shape)).index(place.dim), place.inner)]


def _find_order(step: Step, dims: int) -> list[int]:
    if (order := step.value("dims")) is not None:
        return [dim % dims for dim in order]
    order = [*range(dims)]
    one, other = (step.value(name) for name in ("dim0", "dim1"))
    one, other = (0, dims - 1) if one is None else (one % dims, other % dims)
    order[one], order[other] = order[other], order[one]
    return order


def _expand(step: Step) -> list[State]:
    tensor = step.tensor("self")
    place = step.place(tensor)
    return [step.give_rows(0, place.dim - len(tensor.shape) + len(step.outputs[0].shape), place.inner)]


def _slice(step: Step) -> list[State]:
    """A part of each row stays, or whole blocks of all rows."""
    place, dim = _find_both(step, "dim")
    if dim == place.dim:
        block = place.inner * step.rows[0]
        if (step.value("start") or 0) % block or step.value("step") != 1 or step.outputs[0].shape[dim] % block:
            raise Mixes("it takes some of the rows")
    elif any(one.arguments.get("start") != step.operation.arguments.get("start") for one in step.runs):
        raise Mixes("where it starts depends on the number of rows")
    return [step.give_rows(0, place.dim, place.inner)]


def _select(step: Step) -> list[State]:
    step.require_same_arguments()
    place, dim = _find_both(step, "dim")
    if dim == place.dim:
        raise Mixes("it takes some of the rows")
    return [step.give_rows(output, place.dim - (dim < place.dim), place.inner) for output in range(len(step.outputs))]


def _split(step: Step) -> list[State]:
    place, dim = _find_both(step, "dim")
    block = place.inner * step.rows[0]
    if dim == place.dim and any(one.shape[dim] % block for one in step.outputs):
        raise Mixes("it takes some of the rows")
    return [step.give_rows(output, place.dim, place.inner) for output in range(len(step.outputs))]


def _unfold(step: Step) -> list[State]:
    """Windows along a dim become a dim at the end."""
    step.require_same_arguments()
    place, dim = _find_both(step, "dimension")
    if dim == place.dim:
        raise Mixes("a window has several rows")
    return [step.give_rows(0, place.dim, place.inner)]


def _diagonal(step: Step) -> list[State]:
    step.require_same_arguments()
    place, one = _find_both(step, "dim1")
    _, other = _find_both(step, "dim2")
    if place.dim in (one, other):
        raise Mixes("it goes across rows")
    return [step.give_rows(0, place.dim - (one < place.dim) - (other < place.dim), place.inner)]


def _as_strided(step: Step) -> list[State]:
    """Windows within each row, such as torch.stft takes them."""
    tensor, output = step.tensor("self"), step.outputs[0]
    row = math.prod(tensor.shape[1:])
    if step.place(tensor) != Place(0, 1, 1) or tensor.strides != _contiguous_strides(tensor.shape):
        raise Mixes("it reads memory across rows")
    inside = sum((size - 1) * stride for size, stride in zip(output.shape[1:], output.strides[1:], strict=True))
    if step.value("storage_offset") or not output.shape or output.strides[0] != row or inside >= row:
        raise Mixes("it reads memory across rows")
    return [step.give_rows(0, 0, 1)]


def _contiguous_strides(shape: Shape) -> Shape:
    return tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))


def _repeat(step: Step) -> list[State]:
    tensor = step.tensor("self")
    place = step.place(tensor)
    return [step.give_rows(0, place.dim - len(tensor.shape) + len(step.outputs[0].shape), place.inner)]


def _cat(step: Step) -> list[State]:
    tensors = [one for one in find_tensors(step.value("tensors")) if one.shape != (0,)]
    dim = (step.value("dim") or 0) % len(step.outputs[0].shape)
    place = _find_common_place(step, tensors)
    if dim == place.dim and not all(_holds_rows(step, tensor) for tensor in tensors):
        raise Mixes("it joins rows with something else")
    return [step.give_rows(0, place.dim, place.inner)]


def _stack(step: Step) -> list[State]:
    dim = (step.value("dim") or 0) % len(step.outputs[0].shape)
    place = _find_common_place(step, step.operation.tensors)
    return [step.give_rows(0, place.dim + (dim <= place.dim), place.inner)]


def _find_common_place(step: Step, tensors: Sequence[Tensor]) -> Place:
    """Return where the rows of all tensors are, whose dims stand for the same. Raises Mixes if they are not in one."""
    _require_no_places(step, tensors)
    places = {(place.dim, place.inner) for tensor in tensors if _holds_rows(step, tensor)
              for place in [step.place(tensor)]}  # fmt: skip
    if len(places) != 1:
        raise Mixes("rows of one tensor meet other rows of another")
    return next(step.place(tensor) for tensor in tensors if _holds_rows(step, tensor))


def _reduce(step: Step) -> list[State]:
    """One number of all along some dims."""
    step.require_same_arguments()
    tensor = step.tensor("self")
    place, dims = step.place(tensor), _find_dims(step, len(tensor.shape))
    if not dims or place.dim in dims:
        raise Mixes("it computes across rows")
    dim = place.dim if step.value("keepdim") else place.dim - sum(one < place.dim for one in dims)
    return [step.give_rows(output, dim, place.inner) for output in range(len(step.outputs))]


def _scan(step: Step) -> list[State]:
    """Each entry comes from the entries along some dims."""
    step.require_same_arguments()
    tensor = _main(step)
    place, dims = step.place(tensor), _find_dims(step, len(tensor.shape))
    if not dims or place.dim in dims:
        raise Mixes("it computes across rows")
    return [step.give_rows(output, place.dim, place.inner) for output in range(len(step.outputs))]


def _find_dims(step: Step, dims: int) -> list[int]:
    """Return the dims that an operator computes along; none if it says none, which means all."""
    value = next((one for name in ("dim", "dims") if (one := step.value(name)) is not None), None)
    if value is None:
        return []
    return [dim % (dims or 1) for dim in (value if isinstance(value, list | tuple) else [value])]


def _keep_before(last: Callable[[Step], int]) -> Rule:
    """Return the rule of an operator that computes along its last dims, and on those before one by one."""

    def apply(step: Step) -> list[State]:
        step.require_same_arguments()
        tensor = _main(step)
        place = step.place(tensor)
        if place.dim >= len(tensor.shape) - last(step):
            raise Mixes("it computes across rows")
        _require_aligned(step, place)
        return [_give_if_kept(step, output, tensor, place) for output in range(len(step.outputs))]

    return apply


def _require_aligned(step: Step, place: Place) -> None:
    """Raise Mixes if tensors beside the first have rows in another dim, or places of rows."""
    _require_no_places(step, step.operation.tensors)
    for tensor in step.operation.tensors:
        if _holds_rows(step, tensor) and (step.place(tensor).dim, step.place(tensor).inner) != (place.dim, place.inner):
            raise Mixes("rows of one tensor meet other rows of another")


def _give_if_kept(step: Step, output: int, tensor: Tensor, place: Place) -> State:
    shape = step.outputs[output].shape
    if len(shape) <= place.dim or shape[place.dim] != tensor.shape[place.dim]:
        raise Mixes("what it returns beside its answer has no rows")
    return step.give_rows(output, place.dim, place.inner)


def _layer_norm(step: Step) -> list[State]:
    step.require_no_rows("weight", "bias")
    return _keep_before(lambda step: len(step.value("normalized_shape")))(step)


def _convolution(step: Step) -> list[State]:
    step.require_no_rows("weight", "bias")
    return _along_first_dim(step)


def _batch_norm(step: Step) -> list[State]:
    """Each row by itself in eval mode; each channel by itself, where the channels of all rows are one dim."""
    place = step.place(step.tensor("input"))
    if place.dim == 0:
        if step.value("training"):
            raise Mixes("it computes means over rows")
        step.require_no_rows("weight", "bias", "running_mean", "running_var")
        return [_first_only(step, 0, place), *_beside(step)]
    _require_channels(step, place)
    return [_first_only(step, 1, place), *_beside(step)]


def _require_channels(step: Step, place: Place) -> None:
    """Raise Mixes unless rows are in the dim of channels, and the numbers of each channel are of its row."""
    if place.dim != 1 or (step.value("training") and step.value("running_mean") is not None):
        raise Mixes("it computes means over rows")
    for name in ("weight", "bias", "running_mean", "running_var"):
        tensor = step.value(name)
        if not isinstance(tensor, Tensor) or step.state(tensor) is Fixed.UNIFORM:
            continue
        if not _holds_rows(step, tensor) or step.place(tensor).inner != place.inner:
            raise Mixes(f"its {name} is not one for each row")


def _group_norm(step: Step) -> list[State]:
    step.require_no_rows("weight", "bias")
    place = step.place(step.tensor("input"))
    if place != Place(0, 1, 1):
        raise Mixes("it computes across rows")
    return [_first_only(step, 0, place), *_beside(step)]


def _first_only(step: Step, dim: int, place: Place) -> State:
    if place.dim != dim:
        raise Mixes("it computes across rows")
    return step.give_rows(0, dim, place.inner)


def _beside(step: Step) -> list[State]:
    """Return the states of all outputs but the first, which only a backward pass takes."""
    return [Fixed.COUNTED for _ in step.outputs[1:]]


def _along_first_dim(step: Step) -> list[State]:
    """Each entry of the first dim is computed by itself, of the entries of all arguments that have rows."""
    step.require_same_arguments()
    tensor = _main(step)
    place = step.place(tensor)
    if place.dim != 0:
        raise Mixes("it computes across rows")
    _require_aligned(step, place)
    return [_give_if_kept(step, output, tensor, place) for output in range(len(step.outputs))]


def _attention(step: Step) -> list[State]:
    step.require_same_arguments()
    tensor = step.tensor("query")
    place = step.place(tensor)
    mask = step.value("attn_mask")
    beside = [one for one in step.operation.tensors if one is not mask]
    if place.dim >= len(tensor.shape) - 2 or len({_place_or_none(step, one) for one in beside}) != 1:
        raise Mixes("rows of one tensor meet other rows of another")
    if mask is not None:
        _require_no_places(step, [mask])
        if _holds_rows(step, mask) and _from_the_right(step, mask) != _from_the_right(step, tensor):
            raise Mixes("rows of one tensor meet other rows of another")
    return [step.give_rows(0, place.dim, place.inner), *_beside(step)]


def _place_or_none(step: Step, tensor: Tensor) -> tuple[int, int] | None:
    return (step.place(tensor).dim, step.place(tensor).inner) if _holds_rows(step, tensor) else None


def _native_attention(step: Step) -> list[State]:
    """torch's fast path for attention, or for a layer of a transformer, whose rows are the first dim."""
    step.require_same_arguments()
    mask = step.value("mask")
    beside = [one for one in step.operation.tensors if one is not mask]
    rows = [one for one in beside if _holds_rows(step, one)]
    if any(step.place(one) != Place(0, 1, 1) for one in rows) or len(rows) not in (1, 3):
        raise Mixes("it computes across rows")
    if len([one for one in beside if len(one.shape) == 3]) != len(rows):
        raise Mixes("rows of one tensor meet other rows of another")
    _require_no_places(step, step.operation.tensors)
    if mask is not None and _holds_rows(step, mask) and step.place(mask) != Place(0, 1, 1):
        raise Mixes("rows of one tensor meet other rows of another")
    # The weights of the attention have the shape [0] if nobody asked for them.
    return [step.give_rows(output, 0, 1) if one.shape != (0,) else Fixed.COUNTED
            for output, one in enumerate(step.outputs)]  # fmt: skip


def _affine_grid(step: Step) -> list[State]:
    place = step.place(step.tensor("theta"))
    if place.dim != 0 or len({tuple(one.arguments["size"][1:]) for one in step.runs}) > 1:
        raise Mixes("it computes across rows")
    return [step.give_rows(0, 0, place.inner)]


def _fake_quantise_channels(step: Step) -> list[State]:
    """Each channel has a scale of its own."""
    step.require_same_arguments()
    step.require_no_rows("scale", "zero_point")
    place = step.place(step.tensor("self"))
    if place.dim == step.value("axis"):
        raise Mixes("rows have other scales")
    return [step.give_rows(output, place.dim, place.inner) for output in range(len(step.outputs))]


def _count_padded_dims(step: Step) -> int:
    """Return how many of the last dims have padding."""
    padding = step.value("pad")
    return max((place // 2 + 1 for place, width in enumerate(padding) if width), default=0)


def _recurrent(step: Step) -> list[State]:
    """A layer of an LSTM or a GRU, whose rows are the second dim of its input."""
    step.require_same_arguments()
    place = step.place(step.tensor("input"))
    states = [step.tensor(name) for name in ("hx_", "cx_")]
    if place != Place(1, 1, 1) or step.value("batch_sizes"):
        raise Mixes("it computes across rows")
    if any(step.state(one) is not Fixed.UNIFORM and _place_or_none(step, one) != (0, 1) for one in states):
        raise Mixes("its first state is not one for each row")
    step.require_no_rows("weight0", "weight1", "weight2", "weight3")
    return [step.give_rows(0, 1, 1), *(step.give_rows(output, 0, 1) for output in (1, 2)),
            *[Fixed.COUNTED for _ in step.outputs[3:]]]  # fmt: skip


def _recurrent_network(step: Step) -> list[State]:
    """All layers of a recurrent network, which a proof follows as one operator."""
    step.require_same_arguments()
    if "input" not in step.operation.arguments:
        raise Mixes("packed rows are computed together")
    tensor, states = step.tensor("input"), [*find_tensors(step.value("hx"))]
    dim = 0 if step.value("batch_first") else 1
    if len(tensor.shape) != 3 or step.place(tensor) != Place(dim, 1, 1):
        raise Mixes("it computes across rows")
    if any(step.state(one) is not Fixed.UNIFORM and _place_or_none(step, one) != (1, 1) for one in states):
        raise Mixes("its first state is not one for each row")
    if any(step.state(one) not in (Fixed.CONSTANT, Fixed.UNIFORM) for one in find_tensors(step.value("params"))):
        raise Mixes("its weights depend on the rows")
    return [step.give_rows(0, dim, 1), *(step.give_rows(output, 1, 1) for output in range(1, len(step.outputs)))]


def _matmul(left: str, right: str, *, batched: bool = False, added: str | None = None) -> Rule:
    """Return the rule of a product of matrices, or of batches of matrices, to which something may be added."""

    def apply(step: Step) -> list[State]:
        step.require_same_arguments()
        first, second = step.tensor(left), step.tensor(right)
        _require_no_places(step, step.operation.tensors)
        dim, inner = _find_rows_of_product(step, first, second, batched=batched)
        added_rows = _from_the_right(step, step.tensor(added)) if added and step.has_rows(added) else None
        if added_rows not in (None, (dim - len(step.outputs[0].shape), inner)):
            raise Mixes("rows of one tensor meet other rows of another")
        return [step.give_rows(0, dim, inner)]

    return apply


def _find_rows_of_product(step: Step, first: Tensor, second: Tensor, *, batched: bool) -> tuple[int, int]:
    """Return the dim of a product that has rows, and how many entries each has there. Raises Mixes."""
    places = [_place_or_none(step, tensor) for tensor in (first, second)]
    left, right = places
    columns = len(step.outputs[0].shape) - 1
    if batched and any(one is not None and one[0] == 0 for one in places):
        if all(one in (None, left or right) for one in places):
            found = left or right
            assert found is not None
            return found
    elif left is not None and right is None and left[0] == len(first.shape) - 2:
        return left
    elif right is not None and left is None and len(second.shape) > 1 and right[0] == len(second.shape) - 1:
        return columns, right[1]
    raise Mixes("it sums over rows, or each row meets the others")


def _linear(step: Step) -> list[State]:
    step.require_no_rows("weight", "bias")
    return _keep_before(lambda _: 1)(step)


def _embedding(step: Step) -> list[State]:
    step.require_no_rows("weight")
    place = step.place(step.tensor("indices"))
    return [step.give_rows(0, place.dim, place.inner)]


def _embedding_bag(step: Step) -> list[State]:
    """A bag for each row, of all its indices."""
    step.require_no_rows("weight")
    place = step.place(step.tensor("indices"))
    bags = step.state(step.tensor("offsets"))
    if bags != Starts(place.inner) or place.outer > 1 or step.value("include_last_offset"):
        raise Mixes("bags are not one for each row")
    weights = step.value("per_sample_weights")
    if weights is not None and (not _holds_rows(step, weights) or step.place(weights) != place):
        raise Mixes("rows of one tensor meet other rows of another")
    return [step.give_rows(0, 0, 1), *_beside(step)]


def _index(step: Step) -> list[State]:
    dim, inner = _find_indexed(step, step.tensor("self"))
    return [step.give_rows(0, dim, inner)]


def _index_put(step: Step) -> list[State]:
    """Values go to places of each row, or one value goes where a mask says."""
    target, values = step.tensor("self"), step.tensor("values")
    place = step.place(target)
    if math.prod(values.shape) == 1 and _is_mask(step.value("indices")):
        step.require_no_rows("values")
        _require_aligned(step, place)
        return [step.give_rows(0, place.dim, place.inner)]
    dim, inner = _find_indexed(step, target)
    indices = _find_indices(step)
    dims = len(target.shape) - len(indices) + max(len(one.shape) for one in indices.values())
    _require_no_places(step, [values])
    if _holds_rows(step, values) and _from_the_right(step, values) != (dim - dims, inner):
        raise Mixes("rows of one tensor meet other rows of another")
    return [step.give_rows(0, place.dim, place.inner)]


def _is_mask(indices: Sequence[Tensor | None]) -> bool:
    return len(indices) == 1 and indices[0] is not None and indices[0].is_boolean


def _find_indices(step: Step) -> dict[int, Tensor]:
    """Return the indices by dim. Raises Mixes for booleans, whose values say how many entries are taken."""
    given = {dim: one for dim, one in enumerate(step.value("indices")) if one is not None}
    if any(one.is_boolean for one in given.values()):
        raise Mixes("how many entries it takes depends on values")
    return given


def _find_indexed(step: Step, source: Tensor) -> tuple[int, int]:
    """Return the dim and the inner size of the rows in what indices take of a tensor. Raises Mixes."""
    indices = _find_indices(step)
    first = min(indices) if [*indices] == [*range(min(indices), max(indices) + 1)] else 0
    width = max(len(one.shape) for one in indices.values())
    wheres = {_find_rows_of_index(step, one, width) for one in indices.values()} - {None}
    if not _holds_rows(step, source):
        if step.state(source) not in (Fixed.CONSTANT, Fixed.UNIFORM) or len(wheres) != 1:
            raise Mixes("rows look up what depends on their number")
        _require_no_places(step, indices.values())
        [(dim, inner)] = [one for one in wheres if one is not None]
        return first + dim, inner
    place = step.place(source)
    if place.dim not in indices:
        if wheres:
            raise Mixes("each row looks up entries of all rows")
        before = sum(dim < place.dim for dim in indices)
        kept = place.dim - before
        return (kept + width if place.dim > first or first == 0 else kept), place.inner
    if step.state(indices[place.dim]) != PLACES or place != Place(place.dim, 1, 1) or len(wheres) != 1:
        raise Mixes("it looks up some of the rows")
    if sum(step.state(one) == PLACES for one in indices.values()) > 1:
        raise Mixes("the places of rows are looked up")
    [(dim, inner)] = [one for one in wheres if one is not None]
    return first + dim, inner


def _find_rows_of_index(step: Step, index: Tensor, width: int) -> tuple[int, int] | None:
    """Return the dim of the rows among those that the indices give, and the inner size; None without rows."""
    state = step.state(index)
    if state == PLACES:
        dim = next(dim for dim, size in enumerate(index.shape) if size > 1)
        return dim + width - len(index.shape), 1
    if isinstance(state, Rows):
        dim, inner = _from_the_right(step, index)
        return dim + width, inner
    if state is Fixed.COUNTED or isinstance(state, Starts):
        raise Mixes("what it looks up depends on the number of rows")
    return None


def _gather(step: Step) -> list[State]:
    """Entries move along one dim, which is not that of the rows."""
    step.require_same_arguments()
    dim = step.value("dim") % (len(step.tensor("self").shape) or 1)
    tensors = [
        tensor for tensor in step.operation.tensors if not (tensor.shape == () and not _holds_rows(step, tensor))
    ]
    place = _find_common_place(step, tensors)
    if dim == place.dim or any(step.state(one) is Fixed.CONSTANT for one in tensors):
        raise Mixes("entries move between rows")
    return [step.give_rows(0, place.dim, place.inner)]


def _index_select(step: Step) -> list[State]:
    tensor = step.tensor("self")
    dim = step.value("dim") % (len(tensor.shape) or 1)
    if _holds_rows(step, tensor):
        place = step.place(tensor)
        step.require_no_rows("index")
        if dim == place.dim:
            raise Mixes("it looks up some of the rows")
        return [step.give_rows(0, place.dim, place.inner)]
    step.require_no_rows("self")
    return [step.give_rows(0, dim, step.place(step.tensor("index")).inner)]


def _look_up_sorted(step: Step) -> list[State]:
    for name in ("sorted_sequence", "boundaries", "test_elements"):
        step.require_no_rows(name)
    tensor = step.tensor("elements" if "elements" in step.operation.arguments else "self")
    place = step.place(tensor)
    return [step.give_rows(0, place.dim, place.inner)]


def _distances(step: Step) -> list[State]:
    first, second = step.tensor("x1"), step.tensor("x2")
    _require_no_places(step, [first, second])
    left, right = (_place_or_none(step, one) for one in (first, second))
    if left is not None and left == right and left[0] < len(first.shape) - 2:
        return [step.give_rows(0, *left)]
    if left is not None and right is None and left[0] < len(first.shape) - 1:
        return [step.give_rows(0, *left)]
    raise Mixes("each row meets the others")


def _main(step: Step) -> Tensor:
    """Return the first tensor that an operator takes."""
    return step.operation.tensors[0]


def _holds_rows(step: Step, tensor: Tensor) -> bool:
    return isinstance(step.state(tensor), Rows)


def _require_no_places(step: Step, tensors: Iterable[Tensor]) -> None:
    for tensor in tensors:
        if step.state(tensor) is Fixed.COUNTED or isinstance(step.state(tensor), Starts):
            raise Mixes("the place of a row, or the number of rows, becomes a value")


def _from_the_right(step: Step, tensor: Tensor) -> tuple[int, int]:
    place = step.place(tensor)
    return place.dim - len(tensor.shape), place.inner


def _find_both(step: Step, name: str) -> tuple[Place, int]:
    """Return where the rows of `self` are, and the dim that an argument names."""
    tensor = step.tensor("self")
    return step.place(tensor), (step.value(name) or 0) % len(tensor.shape)


def _name_all(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


# Pointwise operators that torch does not tag as such.
_POINTWISE = set(
    "alias clone copy _to_copy detach lift_fresh where masked_fill fill zero _conj resolve_conj _neg_view real imag "
    "complex polar rsub __and__ __or__ floor_divide hardswish log_sigmoid_forward _prelu_kernel rrelu_with_noise "
    "special_expit fake_quantize_per_tensor_affine_cachemask "
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams".split()
)
_RULES: dict[str, Rule] = {
    **_name_all(_keep_stride, "view _unsafe_view reshape _reshape_alias unsqueeze squeeze"),
    "view_as_real": _scale_stride(4),
    "view_as_complex": _scale_stride(1),
    **_name_all(_permute, "transpose t permute"),
    "expand": _expand,
    "repeat": _repeat,
    "slice": _slice,
    **_name_all(_select, "select unbind"),
    **_name_all(_split, "split unsafe_split split_with_sizes unsafe_split_with_sizes chunk unsafe_chunk"),
    "unfold": _unfold,
    "diagonal": _diagonal,
    "as_strided": _as_strided,
    "cat": _cat,
    "stack": _stack,
    **_name_all(
        _reduce,
        "sum mean amax amin var std var_mean std_mean norm prod any all argmax argmin max min median nanmedian mode "
        "logsumexp count_nonzero nansum linalg_vector_norm kthvalue aminmax",
    ),
    **_name_all(
        _scan,
        "cumsum cumprod cummax cummin logcumsumexp sort topk _softmax _log_softmax _safe_softmax flip roll glu "
        "_fft_r2c _fft_c2c _fft_c2r",
    ),
    **_name_all(
        _keep_before(lambda _: 1),
        "avg_pool1d max_pool1d reflection_pad1d replication_pad1d upsample_nearest1d "
        "upsample_linear1d adaptive_avg_pool1d _upsample_nearest_exact1d",
    ),
    **_name_all(
        _keep_before(lambda _: 2),
        "avg_pool2d max_pool2d max_pool2d_with_indices adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d "
        "reflection_pad2d replication_pad2d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d tril triu "
        "_upsample_nearest_exact2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa inverse cholesky_solve",
    ),
    **_name_all(
        _keep_before(lambda _: 3),
        "avg_pool3d max_pool3d max_pool3d_with_indices adaptive_avg_pool3d _adaptive_avg_pool3d adaptive_max_pool3d "
        "reflection_pad3d replication_pad3d upsample_nearest3d upsample_trilinear3d pixel_shuffle pixel_unshuffle "
        "channel_shuffle native_channel_shuffle _upsample_nearest_exact3d",
    ),
    "constant_pad_nd": _keep_before(_count_padded_dims),
    **_name_all(_layer_norm, "native_layer_norm _fused_rms_norm"),
    **_name_all(_convolution, "convolution _convolution mkldnn_convolution"),
    **_name_all(_batch_norm, "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training"),
    "native_group_norm": _group_norm,
    **_name_all(_along_first_dim, "im2col col2im grid_sampler_2d grid_sampler_3d"),
    "affine_grid_generator": _affine_grid,
    "fake_quantize_per_channel_affine_cachemask": _fake_quantise_channels,
    **_name_all(
        _attention,
        "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention "
        "_scaled_dot_product_efficient_attention _scaled_dot_product_fused_attention_overrideable",
    ),
    **_name_all(_native_attention, "_native_multi_head_attention _transformer_encoder_layer_fwd"),
    "mkldnn_rnn_layer": _recurrent,
    **_name_all(_recurrent_network, "lstm gru rnn_tanh rnn_relu"),
    **_name_all(_matmul("self", "mat2"), "mm"),
    **_name_all(_matmul("mat1", "mat2", added="self"), "addmm _addmm_activation"),
    "bmm": _matmul("self", "mat2", batched=True),
    "baddbmm": _matmul("batch1", "batch2", batched=True, added="self"),
    "mv": _matmul("self", "vec"),
    "addmv": _matmul("mat", "vec", added="self"),
    "linear": _linear,
    "embedding": _embedding,
    **_name_all(_embedding_bag, "_embedding_bag _embedding_bag_forward_only"),
    "index": _index,
    "index_put": _index_put,
    **_name_all(_gather, "gather scatter scatter_add scatter_reduce"),
    "index_select": _index_select,
    **_name_all(_look_up_sorted, "searchsorted bucketize isin"),
    **_name_all(_distances, "_cdist_forward _euclidean_dist"),
}
