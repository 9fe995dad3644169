"""The recorder: it gives each value that one run computes its value number (see `value_numbers`).

It is a dispatch mode of torch (TorchDispatchMode), so it sees every operator that the run calls.
"""

import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from typing import Any, NoReturn

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tracehouse.check.instrumentation.random_operators import DrawRecorder, draws_random_numbers
from tracehouse.check.prove import constant_folding, data_sizes, deviations, scalar_tensors, shape_rules
from tracehouse.check.prove.disguise import number_of
from tracehouse.check.prove.integer_widths import IntegerWidths
from tracehouse.check.prove.known_layouts import KnownLayouts
from tracehouse.check.prove.known_truths import KnownTruths
from tracehouse.check.prove.operand_keys import OperandKeys, Operands, bind_operands, is_written, tensors_in
from tracehouse.check.prove.scalar_tensors import ScalarTensor
from tracehouse.check.prove.size_operators import DataRangeCall, SizeOperatorCall, UnpackCall, record_size_operators
from tracehouse.check.prove.stopping import stop_if_late
from tracehouse.check.prove.symbols import SYMBOLIC, Symbols, compute_for_real
from tracehouse.check.prove.tensor_memory import TensorMemory, storage_of
from tracehouse.check.prove.trail import Trail, UnkeptTrail
from tracehouse.check.prove.unprovable import FindLine, RunStop, Unprovable
from tracehouse.check.prove.value_numbers import Key, ValueNumbers
from tracehouse.introspection import user_lines

# Their result has the value and the storage of their operand.
_ALIASES = {"detach", "alias", "lift", "lift_fresh", "detach_", "lift_fresh_copy"}
_VALUE_READS = {"_local_scalar_dense", "equal", "is_nonzero"}
_NORMS = {"native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit"}
# They return a property of a tensor, which does not depend on its values.
_PROPERTIES = {
    "device",
    "sym_size",
    "sym_stride",
    "sym_numel",
    "sym_storage_offset",
    "sym_is_contiguous",
    "is_contiguous",
}
# Gets the line of a value read, the value where it is known, else None, and its datatype. It returns the value that the
# run goes on with, or raises Unprovable.
ReplayRead = Callable[[user_lines.Line | None, Any, torch.dtype], Any]


class Recorder(TorchDispatchMode):
    """The dispatch mode under which one run, of the model or of its artifact, is executed on symbols."""

    def __init__(
        self,
        numbers: ValueNumbers,
        symbols: Symbols,
        layouts: KnownLayouts,
        *,
        find_line: FindLine,
        replay_read: ReplayRead,
        earlier: "Recorder | None" = None,
        assumed: Collection[int] = (),
        keeps_trail: bool = False,
    ) -> None:
        """`layouts` are those of the runs on the same symbols; `find_line` returns the line at which the run is.

        The run may reuse the results of `earlier`, a run on the same input tensors. `assumed` are the numbers of values
        that it may take as true. Only with `keeps_trail` has its trail what it made.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[str] = []
        self.results: dict[tuple[Key, tuple[int, ...], str], list[Any]] = {}
        self.changes_shapes_in_place = False  # then a tensor without values is no longer what it was made as
        self.position: Any = None  # what the run executes now, as `find_line` understands it
        self.first_positions: dict[int, Any] = {}  # by value number: the position at which it was made first
        self.trail = Trail() if keeps_trail else UnkeptTrail()
        self._numbers = numbers
        self._symbols = symbols
        self._layouts = layouts
        self._run_stop = RunStop(find_line)
        self._memory = TensorMemory(numbers, symbols, self._run_stop)
        self.widths = IntegerWidths(self._memory.knows)
        self._keys = OperandKeys(numbers, self._memory)
        self._truths = KnownTruths(self._memory.number, numbers.is_finite_held, assumed)
        self._open_contexts = ExitStack()
        self._earlier_results = {} if earlier is None else earlier.results
        self._replay_read = replay_read
        # What an operator draws follows from the state of the generator, and that from all draws before.
        self._last_draw: int | None = None
        self._draws = DrawRecorder()

    def __enter__(self) -> "Recorder":
        with compute_for_real():
            self._draws.advance()
        super().__enter__()  # type: ignore[no-untyped-call]
        self._open_contexts.enter_context(record_size_operators(self.record_size_operator))
        return self

    def __exit__(self, *error: Any) -> None:
        self._open_contexts.close()
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def record_size_operator(self, call: SizeOperatorCall | DataRangeCall | UnpackCall) -> Any:
        """Number the operator's results, and return tensors of their shapes without running the operator."""
        self._run_stop.check()
        if isinstance(call, DataRangeCall):
            self.widths.tell(call.end)
            return call.run(call.start + self._make_size(["steps", call.start, call.end], data_sizes.LARGEST))
        if isinstance(call, UnpackCall):
            with _disable_current_modes(), self._symbols.mode:
                unpacked = data_sizes.unpack(self._make_size, call.operands)
            return self._number_call("_pad_packed_sequence", call.operands, unpacked)
        with _disable_current_modes(), self._symbols.mode:
            result = torch.empty(call.shape, dtype=call.dtype, device=call.device)
        return self._number_call(call.name, call.operands, (result,))[0]

    def _number_call(self, name: str, operands: Sequence[Any], results: Sequence[torch.Tensor]) -> Sequence[Any]:
        """Number the results of a call that is not run, and return them."""
        self.operators.append(name)
        self.widths.tell(operands)
        first, *others = operands
        self.trail.note_call(getattr(torch.ops.aten, name).default, (first,), {"others": others}, results)
        number = self._numbers.number(name, *map(self._keys.operand_key, operands))
        for place, result in enumerate(results):
            own = self._result_number(number, place, result)
            self._note_position(self._memory.assign(result, own))
        return results

    def name_input(self, tensor: torch.Tensor, path: str) -> None:
        """Give an input tensor the number of the input at this path, the same in both runs."""
        self.widths.note_input(tensor)
        self._memory.assign(tensor, self._numbers.number("input", path))

    def number(self, tensor: torch.Tensor) -> int:
        """Return the number of the tensor's present value."""
        return self._memory.number(tensor)

    def storage(self, tensor: torch.Tensor) -> int:
        """Return what identifies the tensor's storage in this run."""
        return storage_of(self._memory.fake(tensor))

    @property
    def assumed(self) -> set[int]:
        """The numbers of the values that the run took as true: all of it holds only where they are."""
        return self._truths.assumed

    @property
    def stop_reason(self) -> Unprovable | None:
        """The reason for which the run was stopped; None where it was not."""
        return self._run_stop.cause

    def stop(self, reason: str) -> NoReturn:
        """Stop the run where it is. Raises Unprovable always, with this reason and the present line."""
        self._run_stop.stop(reason)

    def seed(self) -> None:
        """Let the generators have the state with which the run began, as a caller who seeds them again does."""
        self._last_draw = None

    def end(self) -> None:
        """End the run: it is at no line from now on."""
        self._run_stop.find_line = lambda: None

    def first_position_since(self, count: int) -> Any:
        """Return where the run made the first value whose number is at least `count`; None where it made none."""
        return next((position for number, position in self.first_positions.items() if number >= count), None)

    def held_addresses(self) -> dict[int, int]:
        """Return the address of the memory of each held tensor, by the storage of the one without values."""
        return self._memory.held_addresses()

    def writes_held_tensors(self) -> bool:
        """Whether the run wrote into a parameter, a buffer or another tensor that the model holds."""
        return self._memory.is_held_tensor_written()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with self.widths.inside():
            return self._record(func, args, kwargs or {})

    def _record(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = func._schema.name.rpartition("::")[2]
        if name in _PROPERTIES:
            return func(*args, **kwargs)
        stop_if_late()
        self._run_stop.check()
        if name in _VALUE_READS:
            self.widths.follow(func, bind_operands(func, args, kwargs), None)
            value = self._read(name, args)
            self.trail.note_call(func, self._memory.fakes(args), kwargs, value)
            return value
        args = [self._memory.fakes(value) for value in args]
        kwargs = {key: self._memory.fakes(value) for key, value in kwargs.items()}
        operands = bind_operands(func, args, kwargs)
        is_alias = name in _ALIASES and isinstance(args[0], torch.Tensor)
        if is_alias or (name == "slice" and self._keys.is_whole_slice(operands)):
            alias = self._memory.assign_alias(func(*args, **kwargs), args[0])
            self.trail.note_call(func, args, kwargs, alias)
            self.widths.follow(func, operands, alias)
            return alias
        self._refuse(name, operands)
        self.operators.append(name)
        key = self._keys.call_key(name, self._truths.without_zero_mask(name, operands))
        draws = draws_random_numbers(func, args, kwargs)
        if draws:
            self._follow_generator()
            self.trail.draws = True
            key = (*key, "drawn after", self._last_draw)
        written = [tensor for argument, value in operands if is_written(argument) for tensor in tensors_in(value)]
        if torch.Tag.inplace_view in func.tags or name in ("resize_", "set_"):
            self.changes_shapes_in_place = True
        scalar = None if written or draws else self._compute_scalar(name, operands)
        result = self._run(func, args, kwargs, key, written)
        self.widths.follow(func, operands, result)
        self.trail.note_operator(name, args, result)
        self.trail.note_call(func, args, kwargs, result)
        if scalar is not None and isinstance(result, torch.Tensor) and scalar.dtype is result.dtype:
            return self._assign_scalar(result, scalar)
        if name == "clone":
            return self._memory.assign_copy(result, args[0])
        number = self._keys.call_number(name, key, result)
        if draws:
            self._last_draw = number
        for place, tensor in enumerate(written):
            self._note_position(self._memory.write(tensor, number, place))
        calls = deviations.split_call(func, operands)
        self._number_results(func, args, kwargs, number, result, written, calls)
        if name == "_pack_padded_sequence":
            _, batch_sizes = result
            self._numbers.data_size(self._size_number(data_sizes.packed_rows(batch_sizes)), lambda: args[1].shape[0])
        if name == "cat" and not _has_no_elements(result):
            self._keys.note_parts(result, key, args[0])
        return result

    def _run(self, func: Any, args: Any, kwargs: Any, key: Key, written: Sequence[torch.Tensor]) -> Any:
        """Run the operator on tensors without values, or reuse its result from the earlier run.

        A result is reused once for each time that the earlier run called the operator on these very tensors.
        """
        if written:
            return self._run_anew(func, args, kwargs)
        # The key leaves the datatype to the result, which isn't there yet.
        call = (key, tuple(map(id, tensors_in([*args, *kwargs.values()]))), str(kwargs.get("dtype")))
        results, earlier = self.results.setdefault(call, []), self._earlier_results.get(call, ())
        is_unused = len(results) < len(earlier)
        results.append(earlier[len(results)] if is_unused else self._run_anew(func, args, kwargs))
        return results[-1]

    def _run_anew(self, func: Any, args: Any, kwargs: Any) -> Any:
        if data_sizes.has_rule(func):
            with _disable_current_modes(), self._symbols.mode:
                outputs = data_sizes.run_operator(func, args, self._make_size)
            if outputs is not None:
                return outputs
        return self._layouts.run(func, args, kwargs, shape_rules.run_operator)

    def _compute_scalar(self, name: str, operands: Operands) -> ScalarTensor | None:
        """Return the number that an operator gives if all its tensors are numbers computed from sizes; else None.

        The run of the artifact computes with such numbers too, and not with tensors.
        """
        values = [value for _, value in operands]
        tensors = [*tensors_in(values)]
        try:
            if name == "scalar_tensor" and isinstance(values[0], SYMBOLIC):
                dtype = next(value for argument, value in operands if argument.name == "dtype")
                return scalar_tensors.from_symbol(values[0], dtype or torch.get_default_dtype())
            if name == "select" and (rows := self._find_packed_rows(values[0], values[2])) is not None:
                return scalar_tensors.from_symbol(rows, values[0].dtype)
            scalars = {id(one): self._numbers.scalar(self._memory.number(one)) for one in tensors if one.dim() == 0}
            if len(scalars) < len({*map(id, tensors)}) or None in scalars.values() or not scalars:
                return None
            given = [scalars[id(value)] if isinstance(value, torch.Tensor) else value for value in values]
            computed: ScalarTensor = scalar_tensors.compute(f"aten::{name}", given)
        except (scalar_tensors.Unsupported, TypeError):  # TypeError: `max` of one number, for example
            return None
        return computed

    def _find_packed_rows(self, tensor: torch.Tensor, place: Any) -> Any:
        """Return the first number of a packed sequence's batch sizes; None for what else a tensor has at a place."""
        if tensor.dim() != 1 or type(place) is not int or place != 0:
            return None
        return self._numbers.known_data_size(self._size_number(data_sizes.packed_rows(tensor)))

    def _assign_scalar(self, result: torch.Tensor, scalar: ScalarTensor) -> torch.Tensor:
        """Give the result the number that a tensor made of this number has, and return it."""
        number = self._numbers.number("scalar_tensor", self._keys.operand_key(scalar.value))
        own = self._result_number(number, 0, result)
        self._numbers.note_scalar(own, scalar)
        self._note_position(self._memory.assign(result, own))
        return result

    def _make_size(self, decided_by: Sequence[Any], largest: Any) -> Any:
        """Return the size that follows from these operands: the same one for equal operands, also in the other run."""
        return self._numbers.data_size(self._size_number(decided_by), lambda: self._symbols.make_data_size(largest))

    def _size_number(self, decided_by: Sequence[Any]) -> int:
        return self._numbers.number("data size", *map(self._keys.operand_key, decided_by))

    def _number_results(
        self,
        func: Any,
        args: Any,
        kwargs: Any,
        number: int,
        result: Any,
        written: Sequence[torch.Tensor],
        calls: Sequence[tuple[str, Operands]],
    ) -> None:
        """Give each result its number. `calls` would give the results one by one, if there are such."""
        values = result if isinstance(result, list | tuple) else [result]
        returns = func._schema.returns
        for place, value in enumerate(values):
            if not isinstance(value, torch.Tensor):
                continue
            if any(value is tensor for tensor in written):
                continue
            if written and place < len(returns) and is_written(returns[place]):
                operand = written[min(place, len(written) - 1)]
                self._memory.assign(value, self._memory.number_before_writes(operand))
                continue
            own = self._result_number(number, place, value)
            if calls:
                own = self._result_number(self._numbers.number(*self._keys.call_key(*calls[place])), 0, value)
            self._numbers.note_way(own, func)
            if _has_no_elements(value):  # whatever made it, it has no values
                own = self._numbers.number("empty", self._keys.operand_key([*value.shape]), str(value.dtype))
            constant = None
            if not written and value is result and not draws_random_numbers(func, args, kwargs):
                constant = constant_folding.fold(func, args, kwargs, self._memory.constant)
            own = own if constant is None else self._numbers.held_number(constant)
            self._note_position(self._memory.assign(value, own, constant))
        if not written:
            self._truths.note(func._schema.name.rpartition("::")[2], [*args, *kwargs.values()], result)

    def _result_number(self, number: int, place: int, result: torch.Tensor) -> int:
        """Return the number of the result at this place of the call with this number."""
        return self._numbers.number("result", number, place, str(result.dtype), str(result.device))

    def _read(self, name: str, args: Sequence[Any]) -> Any:
        try:
            datatype = args[0].dtype if name == "_local_scalar_dense" else torch.bool
            value = self._replay_read(self._run_stop.find_line(), self._constant_read(name, args), datatype)
        except Unprovable as unprovable:
            self._run_stop.cause = unprovable
            raise
        if value is True and name != "equal":
            self._truths.assume(args[0])
        return value

    def _constant_read(self, name: str, args: Sequence[Any]) -> Any:
        """Return the value that is read, where it is read from constants alone or is known to be true; else None.

        A number that is computed from sizes is what it is now, under the condition that it is that.
        """
        scalar = self._numbers.scalar(self._memory.number(args[0]))
        if scalar is not None and name == "_local_scalar_dense":
            if isinstance(scalar.value, torch.SymInt) and scalar.dtype is torch.int64:
                return scalar.value  # who needs a number of Python's asks for it
            return number_of(scalar.value) if isinstance(scalar.value, SYMBOLIC) else scalar.value
        if name == "equal":
            is_true = self._truths.are_equal(*args)
        else:
            is_true = args[0].dtype is torch.bool and self._truths.is_true(args[0])
        if is_true:
            return True
        constants = [self._memory.constant(tensor) for tensor in tensors_in(args)]
        if any(constant is None for constant in constants):
            return None
        with compute_for_real():
            return torch.equal(*constants) if name == "equal" else constants[0].item()  # type: ignore[arg-type,union-attr]

    def _follow_generator(self) -> None:
        """Stop if the model set the state of a generator; else change it, as the draw on real tensors would."""
        with compute_for_real():
            is_set = self._draws.note_setting()
            self._draws.advance()
        if is_set:
            self._run_stop.stop("the model sets the state of a generator of random numbers")

    def _refuse(self, name: str, operands: Operands) -> None:
        """Stop at an operator whose result does not follow from its operands."""
        if name not in _NORMS:
            return
        by_name = {argument.name: value for argument, value in operands}
        if by_name.get("training") and by_name.get("running_mean") is not None:
            self._run_stop.stop(f"{name} writes its running statistics")

    def _note_position(self, number: int) -> None:
        self.first_positions.setdefault(number, self.position)


def _has_no_elements(tensor: torch.Tensor) -> bool:
    return any(type(size) is int and size == 0 for size in tensor.shape)


def find_line_of_caller() -> user_lines.Line | None:
    """Return the line of the model's own code that is running now."""
    return user_lines.line_of_frame(sys._getframe(1))
