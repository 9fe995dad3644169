"""Numbers of values: two that have the same number are the same value, for all inputs.

A value is numbered by the operator that made it and the numbers of its operands; what the model holds by what it is.
A write into a tensor begins another epoch of its memory, for all that show it. What is made of constants alone is
computed, so that a table kept from earlier equals the same one made anew.
"""

import hashlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tracehouse.check.prove import shape_rules
from tracehouse.check.prove.size_operators import Sized, recorded
from tracehouse.check.prove.stopping import stop_if_late
from tracehouse.check.prove.symbols import SYMBOLIC, Symbols, expression, is_fake, real
from tracehouse.introspection import user_lines

_HASHED_MAX = 2**16  # elements of a constant that is computed, and known by its values
_SAMPLE = 64  # elements by which a larger one is told from others before all are compared

# They give on what they are given.
_ALIASES = {"detach", "alias", "lift", "lift_fresh", "detach_", "lift_fresh_copy"}
# Told by the shape that they give, however it was asked for: that memory is copied on the way makes no other values.
_SHAPED = {"view": "view", "_unsafe_view": "view", "reshape": "view", "_reshape_alias": "view", "expand": "expand"}
_CONVOLUTIONS = {"convolution", "_convolution", "convolution_overrideable"}
_CONVOLUTION_OPERANDS = 9  # of _convolution, those beyond choose a kernel
# A number beside a tensor is the same as a tensor of no dims, as far as both lead to the same datatype.
_PROMOTING = set(
    "add sub rsub mul div true_divide floor_divide remainder fmod pow eq ne lt le gt ge maximum minimum "
    "bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor __and__ __or__ __xor__ "
    "add_ sub_ mul_ div_ atan2".split()
)
_FILLING = {"fill", "fill_", "masked_fill", "masked_fill_"}
_FACTORIES = {"arange", "full", "zeros", "ones", "scalar_tensor", "linspace", "eye"}
_VALUE_READS = {"_local_scalar_dense", "equal", "is_nonzero"}
# What their result tells: a trace says it where Python leaves it to its default.
_TOLD_BY_RESULT = {"dtype", "layout", "device", "pin_memory", "implicit", "non_blocking"}
_RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
_NORMS = {"native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit"}
_WHOLE = 2**62  # an end of a slice from here on means the end

Key = tuple[Any, ...]
# What is not a value of a tensor's.
_PASSED_ON = {
    "device",
    "sym_size",
    "sym_stride",
    "sym_numel",
    "sym_storage_offset",
    "sym_is_contiguous",
    "is_contiguous",
}


class Unprovable(BaseException):
    """Not an Exception, so that no model takes it for its own."""

    def __init__(self, why: str, line: user_lines.Line | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


@dataclass(frozen=True)
class Read:
    """A value of a tensor's that Python asked for."""

    line: user_lines.Line | None
    value: Any


class Held:
    """The tensors that a model and its artifact hold: by their values, or by themselves where they are large and no
    other has the same values."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Key] = {}
        self._large: dict[Key, list[tuple[torch.Tensor, Key]]] = {}
        self._kept: list[torch.Tensor] = []

    def key(self, tensor: torch.Tensor) -> Key:
        version = 0 if tensor.is_inference() else tensor._version
        where = (tensor.data_ptr(), version, tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
        key = self._known.get(where)
        if key is None:
            with real():
                key = self._known[where] = self._of_values(tensor)
            self._kept.append(tensor)  # so that no other gets its address
        return key

    def _of_values(self, tensor: torch.Tensor) -> Key:
        kind = (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.device)
        if tensor.numel() <= _HASHED_MAX:
            return ("held", kind, _digest(tensor))
        sample = ("held", kind, _digest(_beginning(tensor)))
        alike = self._large.setdefault(sample, [])
        for other, key in alike:
            if torch.equal(other, tensor):  # what holds NaN equals nothing
                return key
        key = (*sample, len(alike))
        alike.append((tensor, key))
        return key


class Numbers:
    """Of the values of both runs."""

    def __init__(self, held: Held, symbols: Symbols, samples: Sequence[Mapping[str, int]]) -> None:
        """`samples` are sizes by which expressions are told apart."""
        # Expressions that were taken for one, having equal values on all samples.
        self.alike: list[tuple[sympy.Basic, sympy.Basic]] = []
        self._samples = [
            {symbol: sympy.Integer(sample[name]) for symbol, name in symbols.names.items()} for sample in samples
        ]
        self._held = held
        self._numbers: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._expressions: dict[sympy.Basic, Key] = {}
        self._by_sample: dict[tuple[Any, ...], sympy.Basic] = {}

    def of(self, *key: Any) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return number

    def key(self, number: int) -> Key:
        return self._keys[number]

    def count(self) -> int:
        return len(self._keys)

    def of_held(self, tensor: torch.Tensor) -> int:
        if tensor.layout is not torch.strided or tensor.is_quantized:
            return self.of("held", "as it is", id(tensor))
        return self.of(*self._held.key(tensor))

    def of_scalar(self, value: Any) -> Key:
        """As it stands among operands."""
        if isinstance(value, SYMBOLIC):
            return self._of_expression(expression(value))
        if isinstance(value, bool):
            return ("bool", value)
        if isinstance(value, int):
            return ("number", value)
        if isinstance(value, float):
            if value == int(value) if math.isfinite(value) and abs(value) < 2**53 else False:
                return ("number", int(value)) if value or math.copysign(1, value) > 0 else ("float", "-0.0")
            return ("float", repr(value))
        return ("other", str(value))

    def _of_expression(self, expr: sympy.Basic) -> Key:
        known = self._expressions.get(expr)
        if known is None:
            known = self._expressions[expr] = self._told_apart(expr)
        return known

    def _told_apart(self, expr: sympy.Basic) -> Key:
        if expr.is_Integer:
            return ("number", int(expr))
        try:
            values = tuple(expr.xreplace(sample) for sample in self._samples)
        except (ArithmeticError, ValueError, TypeError):
            return ("expression", expr)
        if len(self._samples) < 2:
            return ("expression", expr)
        kept = self._by_sample.setdefault(values, expr)
        if kept is not expr and kept != expr:
            self.alike.append((kept, expr))
        return ("expression", kept)


def _digest(tensor: torch.Tensor) -> bytes:
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return hashlib.blake2b(plain.reshape(-1).view(torch.uint8).numpy().tobytes(), digest_size=16).digest()


def _beginning(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach()
    while flat.dim() > 1:
        flat = flat[0]
    return flat[:_SAMPLE]


@dataclass
class _Memory:
    """Of one run: which number each tensor had when it was made, and what was written since."""

    numbers: dict[int, tuple[int, int]] = field(default_factory=dict)  # with its storage, which `x.data = y` changes
    constants: dict[int, torch.Tensor] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    held: dict[int, torch.Tensor] = field(default_factory=dict)  # by storage
    # By whose address the others are known: they must not go.
    kept: list[torch.Tensor] = field(default_factory=list)


class Recorder(TorchDispatchMode):
    """Numbers what one run computes."""

    def __init__(
        self,
        numbers: Numbers,
        symbols: Symbols,
        *,
        line: Callable[[], user_lines.Line | None],
        replayed: Callable[[user_lines.Line | None, Any], Any],
        after: "Recorder | None" = None,
    ) -> None:
        """`line` is where the run is; `replayed` gives the value for a read there, or raises Unprovable; it is told the
        value where it is known, else None."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[str] = []
        self.made: dict[tuple[Key, tuple[int, ...]], list[Any]] = {}
        self.reshapes = False  # a tensor in place: its fake one is not what it was
        self.at: Any = None  # what is run now, as `line` understands it
        self._numbers = numbers
        self._symbols = symbols
        self._within = ExitStack()
        self._memory = _Memory()
        self._made_before = None if after is None else after.made
        self._line = line
        self._replayed = replayed
        self.stopped: Unprovable | None = None
        self.places: dict[int, Any] = {}  # by number: `at` when it was made first

    def __enter__(self) -> "Recorder":
        super().__enter__()  # type: ignore[no-untyped-call]
        self._within.enter_context(recorded(self.sized))
        return self

    def __exit__(self, *error: Any) -> None:
        self._within.close()
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def sized(self, found: Sized) -> torch.Tensor:
        """Numbered as the operator that it is; made without it."""
        if self.stopped is not None:
            raise self.stopped
        self.operators.append(found.name)
        number = self._numbers.of(found.name, *map(self._operand, found.operands))
        with _disable_current_modes(), self._symbols.mode:
            made = torch.empty(found.shape, dtype=found.dtype, device=found.device)
        self._place(self._give(made, self._numbers.of("result", number, 0, str(made.dtype), str(made.device))))
        return made

    def name_input(self, tensor: torch.Tensor, path: str) -> None:
        self._give(tensor, self._numbers.of("input", path))

    def number(self, tensor: torch.Tensor) -> int:
        """As the tensor is now."""
        base = self._base(tensor)
        epoch = self._memory.epochs.get(_storage(tensor)) if self._memory.epochs and is_fake(tensor) else None
        return base if epoch is None else self._numbers.of("written", base, epoch)

    def storage(self, tensor: torch.Tensor) -> int:
        return _storage(self._faked(tensor))

    def end(self) -> None:
        """From now on there is no line where the run is."""
        self._line = lambda: None

    def first_since(self, count: int) -> Any:
        """Where the run made the first value that is not among the numbers up to there."""
        return next((at for number, at in self.places.items() if number >= count), None)

    def writes_what_is_held(self) -> bool:
        """Whether a parameter, a buffer or another tensor of the model's was written."""
        return any(storage in self._memory.held for storage in self._memory.epochs)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.rpartition("::")[2]
        if name in _PASSED_ON:
            return func(*args, **kwargs)
        stop_if_late()
        if self.stopped is not None:
            raise self.stopped
        if name in _VALUE_READS:
            return self._read(name, args)
        args = [self._with_fakes(value) for value in args]
        kwargs = {key: self._with_fakes(value) for key, value in kwargs.items()}
        operands = _operands(func, args, kwargs)
        if name in _ALIASES and isinstance(args[0], torch.Tensor):
            return self._aliased(args[0], func(*args, **kwargs))
        if name == "slice" and self._is_whole(operands):
            return self._aliased(args[0], func(*args, **kwargs))
        self._refuse(name, func, operands)
        self.operators.append(name)
        key = self._key_of(name, operands)
        written = [tensor for argument, value in operands if _is_written(argument) for tensor in _tensors(value)]
        if torch.Tag.inplace_view in func.tags or name in ("resize_", "set_"):
            self.reshapes = True
        result = self._made(func, args, kwargs, key, written)
        if name == "clone":
            return self._give_on(args[0], result)
        number = self._numbers.of(*key) if name not in _SHAPED else self._of_shaped(_SHAPED[name], key, result)
        for place, tensor in enumerate(written):
            storage = _storage(tensor)
            self._memory.constants.pop(id(tensor), None)
            self._memory.epochs[storage] = self._numbers.of("write", self._memory.epochs.get(storage), number, place)
            self._place(self._memory.epochs[storage])
        self._number_results(func, args, kwargs, number, result, written)
        return result

    def _made(self, func: Any, args: Any, kwargs: Any, key: Key, written: Sequence[torch.Tensor]) -> Any:
        """What the other run made of the very same tensors, once for each time that it did: it has no values."""
        if written:
            return shape_rules.made(func, args, kwargs)
        of = (key, tuple(map(id, _tensors([*args, *kwargs.values()]))))
        if self._made_before is not None and (left := self._made_before.get(of)):
            return left.pop(0)
        result = shape_rules.made(func, args, kwargs)
        self.made.setdefault(of, []).append(result)
        return result

    # Operands.

    def _key_of(self, name: str, operands: Sequence[tuple[Any, Any]]) -> Key:
        if name in _CONVOLUTIONS:
            operands = operands[:_CONVOLUTION_OPERANDS]
            name = "convolution"
        values = [
            value for argument, value in operands if not (argument.kwarg_only and argument.name in _TOLD_BY_RESULT)
        ]
        if name in _PROMOTING and len(values) >= 2:
            return (name, *self._promoted(values))
        if name == "as_strided":  # which reads memory, where copies of the same values differ
            layout = *values[0].stride(), values[0].storage_offset()
            return (name, *map(self._operand, [*values, layout]))
        if name in _FILLING:
            return (name, self._operand(values[0]), *map(self._number_in, values[1:]))
        return (name, *map(self._operand, values))

    def _promoted(self, values: Sequence[Any]) -> Key:
        first, second, *others = values
        keys = self._number_in(first), self._number_in(second), *map(self._operand, others)
        if not (_is_number(keys[0]) or _is_number(keys[1])):
            return keys
        result = torch.result_type(_plain(first), _plain(second))
        return (*(_rounded(key, result) for key in keys), str(result))

    def _number_in(self, value: Any) -> Any:
        """A tensor of no dims whose value is known is that number."""
        if isinstance(value, torch.Tensor) and value.dim() == 0:
            constant = self._constant(value)
            if constant is not None and constant.device.type == "cpu":
                with real():
                    return self._numbers.of_scalar(constant.item())
        return self._operand(value)

    def _operand(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.number(value)
        if isinstance(value, list | tuple):
            return ("list", *(self._operand(item) for item in value))
        if value is None:
            return None
        return self._numbers.of_scalar(value)

    def _of_shaped(self, name: str, key: Key, result: torch.Tensor) -> int:
        return self._numbers.of(name, key[1], self._operand(list(result.shape)))

    def _is_whole(self, operands: Sequence[tuple[Any, Any]]) -> bool:
        """A slice of everything: Python leaves it out, and a trace does not."""
        (_, tensor), (_, dim), (_, start), (_, end), (_, step) = operands
        if start not in (0, None) or step != 1 or isinstance(start, SYMBOLIC) or isinstance(step, SYMBOLIC):
            return False
        if end is None or (isinstance(end, int) and end >= _WHOLE):
            return True
        size = tensor.shape[dim]
        if isinstance(end, int) and isinstance(size, int):
            return end >= size
        return self._numbers.of_scalar(end) == self._numbers.of_scalar(size)

    # Tensors.

    def _base(self, tensor: torch.Tensor) -> int:
        if not is_fake(tensor):
            return self._numbers.of_held(tensor)
        known = self._memory.numbers.get(id(tensor))
        if known is None:
            # Where it comes from is not known: no operator that was seen made it.
            return self._give(tensor, self._numbers.of("unknown", id(self), id(tensor)))
        number, storage = known
        if storage != _storage(tensor):
            self._stop("the model puts other data into a tensor, by `.data`")
        return number

    def _give(self, tensor: torch.Tensor, number: int, constant: torch.Tensor | None = None) -> int:
        self._memory.numbers[id(tensor)] = number, _storage(tensor)
        self._memory.kept.append(tensor)
        if constant is not None:
            self._memory.constants[id(tensor)] = constant
        return number

    def _with_fakes(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._faked(value)
        if isinstance(value, list | tuple):
            return [self._with_fakes(item) for item in value]
        return value

    def _faked(self, tensor: torch.Tensor) -> torch.Tensor:
        """Of what the model holds, always the same one, so that a write into it is seen by all."""
        if is_fake(tensor):
            return tensor
        fake = self._symbols.fake_of(tensor)
        if id(fake) not in self._memory.numbers:
            self._give(fake, self._numbers.of_held(tensor), tensor)
            self._memory.held[_storage(fake)] = tensor
        return fake

    def _constant(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Its values, where they are known."""
        if not is_fake(tensor):
            return tensor
        if _storage(tensor) in self._memory.epochs:
            return None
        self._base(tensor)
        return self._memory.constants.get(id(tensor))

    def _aliased(self, tensor: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        self._give(result, self._base(tensor), self._constant(tensor))
        return result

    def _give_on(self, tensor: torch.Tensor, copied: torch.Tensor) -> torch.Tensor:
        """The same values in other memory, and as they are now."""
        self._give(copied, self.number(tensor), self._constant(tensor))
        return copied

    def _number_results(
        self, func: Any, args: Any, kwargs: Any, number: int, result: Any, written: Sequence[torch.Tensor]
    ) -> None:
        values = result if isinstance(result, list | tuple) else [result]
        returned = func._schema.returns
        for place, value in enumerate(values):
            if not isinstance(value, torch.Tensor):
                continue
            if any(value is tensor for tensor in written):
                continue
            if written and place < len(returned) and _is_written(returned[place]):
                self._give(value, self._base(written[min(place, len(written) - 1)]))
                continue
            own = self._numbers.of("result", number, place, str(value.dtype), str(value.device))
            constant = self._folded(func, args, kwargs) if not written and value is result else None
            self._place(self._give(value, own if constant is None else self._numbers.of_held(constant), constant))

    def _folded(self, func: Any, args: Any, kwargs: Any) -> torch.Tensor | None:
        """What an operator makes of constants, where they are not large."""
        tensors = list(_tensors([*args, *kwargs.values()]))
        if not tensors and func._schema.name.rpartition("::")[2] not in _FACTORIES:
            return None
        if any(tensor.dim() and not _is_small(tensor) for tensor in tensors):
            return None
        constants = [self._constant(tensor) for tensor in tensors]
        if any(constant is None for constant in constants) or _has_symbols([*args, *kwargs.values()]):
            return None
        try:
            with real():
                made = func(*map(self._real, args), **{key: self._real(value) for key, value in kwargs.items()})
                if not isinstance(made, torch.Tensor) or not _is_small(made):
                    return None
                return made.clone(memory_format=torch.preserve_format)
        except Exception:  # noqa: BLE001 - an operator refuses these values: then it is numbered like any other
            return None

    def _real(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._constant(value)
        if isinstance(value, list | tuple):
            return [self._real(item) for item in value]
        return value

    # What has no number.

    def _read(self, name: str, args: Sequence[Any]) -> Any:
        try:
            return self._replayed(self._line(), self._known(name, args))
        except Unprovable as unprovable:
            self.stopped = unprovable
            raise

    def _known(self, name: str, args: Sequence[Any]) -> Any:
        """What is read of constants alone."""
        constants = [self._constant(tensor) for tensor in _tensors(args)]
        if any(constant is None for constant in constants):
            return None
        with real():
            return torch.equal(*constants) if name == "equal" else constants[0].item()  # type: ignore[arg-type,union-attr]

    def _refuse(self, name: str, func: Any, operands: Sequence[tuple[Any, Any]]) -> None:
        named = {argument.name: value for argument, value in operands}
        if torch.Tag.nondeterministic_seeded in func.tags and _draws(name, named):
            self._stop(f"{name} draws random numbers")
        if name in _NORMS and named.get("training") and named.get("running_mean") is not None:
            self._stop(f"{name} writes its running statistics")

    def _stop(self, why: str) -> None:
        self.stopped = Unprovable(why, self._line())
        raise self.stopped

    def _place(self, number: int) -> None:
        self.places.setdefault(number, self.at)


def of_frame() -> user_lines.Line | None:
    """Where the model's own code is."""
    return user_lines.of_frame(sys._getframe(1))


def _draws(name: str, named: Mapping[str, Any]) -> bool:
    if named.get("train", named.get("training")) is False:
        return False
    probability = named.get("dropout_p", named.get("dropout"))
    return not (("attention" in name or name in _RECURRENT) and not probability)


def _operands(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Every argument of the schema with its value, defaults included."""
    found = []
    for place, argument in enumerate(func._schema.arguments):
        if not argument.kwarg_only and place < len(args):
            found.append((argument, args[place]))
        elif argument.name in kwargs:
            found.append((argument, kwargs[argument.name]))
        else:
            found.append((argument, argument.default_value if argument.has_default_value() else None))
    return found


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _has_symbols(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_has_symbols(item) for item in value)
    return isinstance(value, SYMBOLIC)


def _is_small(tensor: torch.Tensor) -> bool:
    number = tensor.numel()
    return type(number) is int and number <= _HASHED_MAX


def _is_number(key: Any) -> bool:
    return isinstance(key, tuple) and key[0] in ("number", "float", "bool", "expression")


def _rounded(key: Any, datatype: torch.dtype) -> Any:
    """A number beside floats has no more digits than they: a trace has some as Python's, and eager as a tensor."""
    if datatype is not torch.float32 or not isinstance(key, tuple) or key[0] != "float":
        return key
    return ("float", repr(torch.tensor(float(key[1]), dtype=torch.float32).item()))


def _plain(value: Any) -> Any:
    """For torch.result_type, which looks at a number's kind alone."""
    if isinstance(value, torch.SymInt):
        return 1
    return 1.0 if isinstance(value, torch.SymFloat) else True if isinstance(value, torch.SymBool) else value


def _storage(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage()._cdata
    return address
