"""Row flow: where the rows of a call's inputs go, operator by operator, and whether they meet.

Sampled calls show only what the drawn values show. The operators show what any values could do: an operator that may
mix rows, such as a cumulative sum along them, counts as one that does.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from tracehouse.check.batch import row_rules
from tracehouse.check.batch.operator_stream import Operation, Stream, Tensor
from tracehouse.check.batch.row_states import Fixed, Mixed, Place, Rows, Starts, State, find_growing_dims, locate
from tracehouse.check.batch.row_step import Mixes, Step, explain

_NEW = {"zeros", "ones", "full", "empty", "scalar_tensor", "new_zeros", "new_ones", "new_full", "new_empty",
        "zeros_like", "ones_like", "full_like", "empty_like"}  # fmt: skip
_SAME_ENTRIES = {"view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze", "expand", "slice",
                 "alias", "clone", "_to_copy", "detach", "lift_fresh", "transpose", "t", "permute", "select",
                 "repeat", "unbind", "split", "split_with_sizes", "unsafe_split",
                 "unsafe_split_with_sizes"}  # fmt: skip
# What these return depends on what they take, and nothing is computed with it: they raise, or they do not.
_VALIDATIONS = {"_assert_async", "_functional_assert_async"}


def find_mixing(
    streams: Sequence[Stream], rows: Sequence[int], inputs: Mapping[str, int], outputs: Mapping[str, int], *,
    checks_ids: bool,
) -> str | None:  # fmt: skip
    """Return how rows may depend on one another, or on how many there are; None if no operator lets them.

    `streams` are those of the same call with so many `rows`. `inputs` and `outputs` have the dims of their rows.
    With `checks_ids`, the extremes of a tensor are read only to check ids, as torch.nn.functional.one_hot does.
    """
    try:
        _RowFlow(streams, rows, inputs, checks_ids=checks_ids).follow(outputs)
    except Mixes as why:
        return str(why)
    return None


class _RowFlow:
    def __init__(
        self, streams: Sequence[Stream], rows: Sequence[int], inputs: Mapping[str, int], *, checks_ids: bool
    ) -> None:
        self._streams = streams
        self._rows = rows
        self._checks_ids = checks_ids
        self._first = streams[0]
        self._states: dict[int, State] = {}
        self._latest: dict[int, tuple[Tensor, ...]] = {}  # each tensor in all streams, as it was last seen
        self._extremes: set[int] = set()
        for path, given in self._first.given.items():
            place = Place(inputs[path], 1, 1)
            self._states[given.number] = Rows(place.stride(given.shape))
            self._latest[given.number] = tuple(one.given[path] for one in streams)

    def follow(self, outputs: Mapping[str, int]) -> None:
        """Follow all operators. Raises Mixes if an output may mix rows, or if that is not known."""
        for operations in zip_longest(*(one.operations for one in self._streams)):
            first = operations[0]
            if any(one is None or not _is_same_operator(one, first) for one in operations):
                raise Mixes("other operators run for other numbers of rows")
            self._take(operations)
        for path, dim in outputs.items():
            self._require_rows(path, self._first.outputs[path], dim)

    def _require_rows(self, path: str, output: Tensor, dim: int) -> None:
        state = self._states.get(output.number, Mixed(f"nothing is known of {path!r}"))
        if isinstance(state, Mixed):
            raise Mixes(state.reason)
        if isinstance(state, Rows) and locate(state.stride, output.shape, self._rows[0]) != Place(dim, 1, 1):
            raise Mixes(f"the rows of {path!r} are not in dim {dim}")
        if state is Fixed.COUNTED or isinstance(state, Starts):
            raise Mixes(f"{path!r} has the places of rows, or how many there are")

    def _take(self, operations: Sequence[Operation]) -> None:
        first = operations[0]
        for tensors in zip(*(one.tensors for one in operations), strict=True):
            self._see(tensors)
        step = Step(operations, self._rows, self._states)
        if first.scalar is not None or first.name in ("_local_scalar_dense", "equal", "is_nonzero", "item"):
            self._check_read(operations)
            return
        if first.name in _VALIDATIONS:
            return
        states = _find_outputs(step)
        before = {tensor.number: self._states[tensor.number] for tensor in first.tensors}
        for tensors, state in zip(zip(*(one.outputs for one in operations), strict=True), states, strict=True):
            self._states[tensors[0].number] = state
            self._latest[tensors[0].number] = tensors
            if first.name == "aminmax":
                self._extremes.add(tensors[0].number)
        for name in first.writes:
            self._write(step, name, before)

    def _see(self, tensors: tuple[Tensor, ...]) -> None:
        number = tensors[0].number
        if len({one.number for one in tensors}) > 1:
            raise Mixes("other operators run for other numbers of rows")
        if number not in self._states:
            digests = {stream.found.get(number) for stream in self._streams}
            self._states[number] = Fixed.CONSTANT if len(digests) == 1 else Fixed.COUNTED
        self._latest[number] = tensors

    def _check_read(self, operations: Sequence[Operation]) -> None:
        """Raise Mixes unless the number that is read is a constant or a multiple of the number of rows."""
        tensors = operations[0].tensors
        states = [self._states[one.number] for one in tensors]
        if self._checks_ids and all(one.number in self._extremes for one in tensors):
            return
        if any(isinstance(state, Rows | Mixed) for state in states):
            raise Mixes("a number is read out of the rows")
        if Fixed.COUNTED in states:
            per_row = {one.scalar / count for one, count in zip(operations, self._rows, strict=True)
                       if isinstance(one.scalar, int)}  # fmt: skip
            if len(per_row) != 1:
                raise Mixes("a number depends on how many rows there are")

    def _write(self, step: Step, name: str, before: Mapping[int, State]) -> None:
        """Take note of what an operator wrote into an argument, and so into all views of the same memory."""
        written = step.value(name)
        if not isinstance(written, Tensor) or step.operation.name in ("transpose", "t", "squeeze", "unsqueeze"):
            return
        state = self._states[written.number]
        if isinstance(state, Rows) and before[written.number] == state:
            return
        views = [number for number, tensors in self._latest.items()
                 if number != written.number and tensors[0].memory == written.memory]  # fmt: skip
        if not views:
            return
        pitch = self._find_pitch(written.number)
        for number in views:
            self._states[number] = self._overwrite(number, state, pitch)

    def _find_pitch(self, number: int) -> int | None:
        """Return how far the entries of two rows are apart in memory; None if the tensor does not grow with rows.

        Raises Mixes if several dims grow.
        """
        tensor, state = self._latest[number][0], self._states[number]
        place = locate(state.stride, tensor.shape, self._rows[0]) if isinstance(state, Rows) else None
        grows = find_growing_dims([one.shape for one in self._latest[number]], self._rows)
        if grows is None or len(grows) > 1 or (place is not None and place.outer > 1):
            raise Mixes("rows are written into parts of a tensor")
        return tensor.strides[grows[0]] * (tensor.shape[grows[0]] // self._rows[0]) if grows else None

    def _overwrite(self, number: int, state: State, pitch: int | None) -> State:
        """Return the state of a tensor of whose memory a part has been overwritten with what has this state."""
        old, tensor = self._states[number], self._latest[number][0]
        if isinstance(old, Mixed) or isinstance(state, Mixed):
            return old if isinstance(old, Mixed) else state
        if Fixed.COUNTED in (old, state) or isinstance(old, Starts) or isinstance(state, Starts):
            return Fixed.COUNTED if not isinstance(old, Rows) else Mixed("places of rows are written into rows")
        try:
            other = self._find_pitch(number)
        except Mixes as why:
            return Mixed(str(why))
        if other != pitch:
            return Mixed("rows are written into parts of a tensor")
        if other is None:
            return Fixed.CONSTANT if not isinstance(state, Rows) else Mixed("rows are written into parts of a tensor")
        [dim] = find_growing_dims([one.shape for one in self._latest[number]], self._rows) or [0]
        return Rows(Place(dim, tensor.shape[dim] // self._rows[0], 1).stride(tensor.shape))


def _is_same_operator(one: Operation, other: Operation) -> bool:
    return (
        one.operator == other.operator
        and len(one.tensors) == len(other.tensors)
        and len(one.outputs) == len(other.outputs)
    )


def _find_outputs(step: Step) -> list[State]:
    """Return the state of each output of a step."""
    states = [step.state(tensor) for tensor in step.operation.tensors]
    mixed = next((state for state in states if isinstance(state, Mixed)), None)
    if mixed is not None:
        return [mixed for _ in step.outputs]
    try:
        if step.operation.name not in _NEW and any(isinstance(state, Rows) for state in states):
            return row_rules.find_rule(step)(step)
        fixed: list[State] = [_find_fixed(step, states, output) for output in range(len(step.outputs))]
        return (_spread_uniform(step) if Fixed.COUNTED in fixed and Fixed.UNIFORM in states else None) or fixed
    except Mixes as why:
        return [explain(step, why) for _ in step.outputs]


def _spread_uniform(step: Step) -> list[State] | None:
    """Return the states of the outputs if tensors of one value count as rows along the dim that grows; None if not."""
    states: dict[int, State] = {}
    for tensors in zip(*(one.tensors for one in step.runs), strict=True):
        grows = find_growing_dims([one.shape for one in tensors], step.rows)
        state, shape = step.state(tensors[0]), tensors[0].shape
        if state is Fixed.UNIFORM and grows is not None and len(grows) == 1:
            state = Rows(Place(grows[0], shape[grows[0]] // step.rows[0], 1).stride(shape))
        states[tensors[0].number] = state
    try:
        spread = Step(step.runs, step.rows, states)
        return row_rules.find_rule(spread)(spread)
    except Mixes:
        return None


def _find_fixed(step: Step, states: Sequence[State], output: int) -> State:
    """Return the state of an output of a step that takes nothing of any row."""
    name, shape = step.operation.name, step.outputs[output].shape
    grows = find_growing_dims([one.outputs[output].shape for one in step.runs], step.rows)
    if name in _SAME_ENTRIES and states == [Fixed.UNIFORM]:
        return Fixed.UNIFORM
    if name == "arange":
        return _find_range(step, grows)
    if grows is None or not _has_same_values(step):
        return Fixed.COUNTED
    if name in _NEW:
        return Fixed.UNIFORM
    if not all(state in (Fixed.CONSTANT, Fixed.UNIFORM) for state in states):
        keeps = name in _SAME_ENTRIES and len(states) == 1 and isinstance(states[0], Starts)
        return states[0] if keeps and math.prod(shape) == step.rows[0] in shape else Fixed.COUNTED
    if not grows:
        return Fixed.CONSTANT
    if not (name in ("expand", "repeat") or row_rules.is_pointwise(step.operation)) or len(grows) > 1:
        return Fixed.COUNTED
    # What does not grow is the same for each row along the dim that does.
    return Rows(Place(grows[0], shape[grows[0]] // step.rows[0], 1).stride(shape))


def _find_range(step: Step, grows: Sequence[int] | None) -> State:
    if not grows:
        return Fixed.CONSTANT if grows is not None and _has_same_values(step) else Fixed.COUNTED
    counts = [(one.arguments.get("start", 0), one.arguments.get("step", 1), one.arguments["end"]) for one in step.runs]
    pace = counts[0][1]
    return Starts(pace) if counts == [(0, pace, pace * rows) for rows in step.rows] else Fixed.COUNTED


def _has_same_values(step: Step) -> bool:
    """Whether the arguments that decide values, not sizes, are the same for all numbers of rows."""
    name = step.operation.name
    if name in _NEW:
        return len({repr(one.arguments.get("fill_value", one.arguments.get("s"))) for one in step.runs}) == 1
    if name in ("view", "_unsafe_view", "reshape", "_reshape_alias", "expand", "repeat"):
        return True
    try:
        step.require_same_arguments()
    except Mixes:
        return False
    return True
