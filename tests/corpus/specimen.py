"""Specimens: the small models of the corpus, and the truth about each, by calling model and trace on all its inputs.

What is traced of a file in `wrong/` answers some of its `others()` otherwise than the model does; what is traced of one
in `right/` answers all of them as the model. Every file has

- `Net`, a module without arguments;
- `example()` and `others()`: what it is traced on, and further inputs that it is made for, as `(args, kwargs)`;
- in `wrong/`: `KIND`, and `# fault` behind the lines at fault; `disturb()` where something around it must change;
- in `right/`: `OPEN`, by input the dims of which a user expects other sizes to be answered; `WITHOUT_FAST_PATHS` where
  only a trace without torch's fast paths is right. The model itself has them.
"""

import copy
import importlib.util
import inspect
import json
import math
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import UninitializedParameter

from tracehouse.torch_values.tensors import datatype_of

CORPUS = Path(__file__).parent
# What the check does not judge well yet: `found`, but in no right line, or `closed` at a size at which it is right.
NOT_GOOD: dict[str, str] = json.loads((CORPUS / "figures.json").read_text())["not good"]
TOLERANCE = 1e-4
SEED = 0

Call = tuple[tuple[Any, ...], dict[str, Any]]
_WRONG_IN_A_ROW = {"state", "random", "ambient"}
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
# What a call gave: its outputs and its inputs afterwards, or the error that it raised.
Given = tuple[Any, Any] | Exception


def specimens(side: str) -> list["Specimen"]:
    """Of `wrong` or `right`, by their names."""
    return [Specimen(path) for path in sorted((CORPUS / side).glob("*.py"))]


@dataclass(frozen=True)
class Specimen:
    """One file. Whatever it keeps in its module or its classes is new in each `fresh`."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def module(self) -> ModuleType:
        return self._imported()

    @property
    def kind(self) -> str:
        kind: str = self.module.KIND
        return kind

    @property
    def is_wrong_in_a_row(self) -> bool:
        """Whether the model is wrong, and no single call shows it: only a rejection keeps it from being asked."""
        return self.path.parent.name == "wrong" and self.kind in _WRONG_IN_A_ROW

    @property
    def open_dims(self) -> set[tuple[str, int]]:
        return {(name, dim) for name, dims in self.module.OPEN.items() for dim in dims}

    @property
    def faults(self) -> set[int]:
        """The lines, from 1, that a finding may name."""
        return {number for number, line in enumerate(self.text.splitlines(), 1) if line.endswith("# fault")}

    @property
    def example(self) -> Call:
        seed_all(SEED)
        call: Call = self.module.example()
        return call

    @property
    def others(self) -> list[Call]:
        seed_all(SEED + 1)
        calls: list[Call] = self.module.others()
        return calls

    def fresh(self) -> torch.nn.Module:
        """The model as it is before any call, in eval mode."""
        module = self._imported()
        seed_all(SEED)
        made: torch.nn.Module = module.Net()
        made.eval()
        if any(isinstance(parameter, UninitializedParameter) for parameter in made.parameters()):
            called(made, self.example)
        return made

    def traced(self, **check: Any) -> Any:
        """What torch.jit.trace makes of it; without `check`, unchecked."""
        args, kwargs = self.example
        inputs = {"example_kwarg_inputs": kwargs} if kwargs else {"example_inputs": args}
        options = check or {"check_trace": False}
        returned = called(self.fresh(), self.example)
        torch.backends.mha.set_fastpath_enabled(not getattr(self.module, "WITHOUT_FAST_PATHS", False))
        try:
            return self._traced(returned, inputs, options)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)

    def _traced(self, returned: Given, inputs: dict[str, Any], options: dict[str, Any]) -> Any:
        if isinstance(returned, Exception) or not list(constants(returned[0])):
            return torch.jit.trace(self.fresh(), **inputs, strict=False, **options)
        return TracedTensors(torch.jit.trace(OfTensors(self.fresh(), returned[0]), **inputs, **options), returned[0])

    def bound(self, call: Call) -> dict[str, Any]:
        """The arguments of a call under the names of forward's parameters."""
        args, kwargs = call
        arguments = inspect.signature(self.module.Net.forward).bind(None, *args, **kwargs).arguments
        return {name: value for name, value in arguments.items() if name != "self"}

    def leaves(self, call: Call) -> dict[str, torch.Tensor]:
        """The tensors of a call, by their names in the contract."""
        return dict(_named("", self.bound(call)))

    def submission(self, **members: Any) -> dict[str, Any]:
        """The body of `POST /trace`; its members may be changed."""
        args, kwargs = self.example
        return {
            "model": self.name.replace("_", "-"),
            "source": {"files": {f"{self.name}.py": self.text}, "entrypoint": f"{self.name}:Net"},
            "example_inputs": [_as_json(value, told=True) for value in args],
            "example_kwarg_inputs": {name: _as_json(value, told=True) for name, value in kwargs.items()},
            "options": {"seed": SEED, "strict": False},
        } | members

    def disturb(self, net: torch.nn.Module) -> None:
        """Change what stands around the model."""
        change = type(net).forward.__globals__.get("disturb")
        if change is not None:
            change()

    def _imported(self) -> ModuleType:
        found = importlib.util.spec_from_file_location(f"corpus_{self.path.parent.name}_{self.name}", self.path)
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        sys.modules[module.__name__] = module  # where torch looks for the text of what it scripts
        found.loader.exec_module(module)
        return module


class OfTensors(torch.nn.Module):
    """A model of whose outputs a trace can keep the tensors alone: those at the places of the example's."""

    def __init__(self, net: torch.nn.Module, example: Any) -> None:
        super().__init__()
        self.net = net
        self._example = example

    def forward(self, *args: Any) -> tuple[torch.Tensor, ...]:
        return tuple(_pick(self._example, self.net(*args)))


class TracedTensors:
    """A trace of the tensors, and the constants that the model returns beside them on the example."""

    def __init__(self, trace: Any, example: Any) -> None:
        self._trace = trace
        self._example = example

    def __call__(self, *args: Any) -> Any:
        return _fill(self._example, iter(self._trace(*args)))


def seed_all(seed: int) -> None:
    torch.default_generator.manual_seed(seed)  # torch.manual_seed writes the whole stack down, for devices unused here
    random.seed(seed)
    np.random.seed(seed)


def called(net: Any, call: Call, seed: int = SEED) -> Given:
    """On inputs of its own, without gradients, as a served model is called."""
    args, kwargs = copy.deepcopy(call)
    seed_all(seed)
    try:
        with torch.no_grad():
            outputs = net(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - whatever a model or a trace raises is what it gave
        return error
    return copy.deepcopy(outputs), (args, kwargs)


def same(eager: Given, other: Given) -> bool:
    """Whether both gave the same, in structure, dtype, shape and value."""
    if isinstance(eager, Exception) or isinstance(other, Exception):
        return isinstance(eager, Exception) and isinstance(other, Exception)
    return all(_same(*pair) for pair in zip(eager, other, strict=True))


def wrong_on(specimen: Specimen, traced: Any = None) -> list[Call]:
    """Those of the example and the others that the trace answers otherwise than a fresh model that answers."""
    wrong = []
    for call in [specimen.example, *specimen.others]:
        eager = called(specimen.fresh(), call)
        given = called(specimen.traced() if traced is None else traced, call)
        if not isinstance(eager, Exception) and not same(eager, given):
            wrong.append(call)
    return wrong


def goes_wrong_in_a_row(specimen: Specimen) -> bool:
    """Whether one model and one trace part when they are called again and again."""
    eager, traced = specimen.fresh(), specimen.traced()
    calls = [specimen.example, *specimen.others] * 3
    return any(not same(called(eager, call), called(traced, call)) for call in calls)


def draws_otherwise(specimen: Specimen) -> bool:
    """Whether model and trace part under some seed, from which both draw."""
    traced = specimen.traced()
    calls = [specimen.example, *specimen.others]
    drawn = ((called(specimen.fresh(), call, seed), called(traced, call, seed)) for call in calls for seed in range(5))
    return any(not same(eager, given) for eager, given in drawn)


def goes_wrong_elsewhere(specimen: Specimen) -> bool:
    """Whether model and trace part once what stands around them has changed."""
    eager, traced = specimen.fresh(), specimen.traced()
    specimen.disturb(eager)
    return not same(called(eager, specimen.example), called(traced, specimen.example))


def question(call: Call) -> dict[str, Any]:
    """The body of `POST /infer` that asks this."""
    args, kwargs = call
    return {"args": [_as_json(value) for value in args], "kwargs": {k: _as_json(value) for k, value in kwargs.items()}}


def leaves(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in it, left to right."""
    match value:
        case torch.Tensor():
            yield value
        case dict():
            for item in value.values():
                yield from leaves(item)
        case list() | tuple():
            for item in value:
                yield from leaves(item)


def constants(value: Any) -> Iterator[Any]:
    """What is no tensor in it, left to right."""
    match value:
        case torch.Tensor():
            return
        case dict():
            for item in value.values():
                yield from constants(item)
        case list() | tuple():
            for item in value:
                yield from constants(item)
        case _:
            yield value


def _pick(example: Any, value: Any) -> Iterator[torch.Tensor]:
    match example:
        case torch.Tensor():
            yield value
        case dict():
            for key, item in example.items():
                yield from _pick(item, value[key])
        case list() | tuple():
            for item, other in zip(example, value, strict=True):
                yield from _pick(item, other)


def _fill(example: Any, tensors: Iterator[torch.Tensor]) -> Any:
    match example:
        case torch.Tensor():
            return next(tensors)
        case dict():
            return {key: _fill(item, tensors) for key, item in example.items()}
        case list() | tuple():
            return type(example)([_fill(item, tensors) for item in example])
    return example


def _named(path: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    match value:
        case torch.Tensor():
            yield path, value
        case dict():
            for key, item in value.items():
                yield from _named(f"{path}.{key}" if path else key, item)
        case list() | tuple():
            for place, item in enumerate(value):
                yield from _named(f"{path}.{place}", item)


def _as_json(value: Any, *, told: bool = False) -> Any:
    """A tuple is told from a list where an example is given, and looks like one where a model is asked."""
    match value:
        case torch.Tensor():
            return _tensor_as_json(value)
        case dict():
            return {key: _as_json(item, told=told) for key, item in value.items()}
        case tuple() if told:
            return {"tuple": [_as_json(item, told=told) for item in value]}
        case list() | tuple():
            return [_as_json(item, told=told) for item in value]
    return value


def _tensor_as_json(tensor: torch.Tensor) -> dict[str, Any]:
    data = [value if math.isfinite(value) else _NOT_FINITE[str(value)] for value in tensor.reshape(-1).tolist()]
    datatype = datatype_of(tensor)
    assert datatype is not None
    return {"datatype": datatype.value, "shape": list(tensor.shape), "data": data}


def _same(first: Any, second: Any) -> bool:
    match first, second:
        case torch.Tensor(), torch.Tensor():
            return _same_tensor(first, second)
        case dict(), dict():
            return first.keys() == second.keys() and all(_same(first[key], second[key]) for key in first)
        case (list() | tuple(), list() | tuple()):
            return len(first) == len(second) and all(map(_same, first, second))
    return bool(first == second)


def _same_tensor(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if not (first.is_floating_point() or first.is_complex()):
        return torch.equal(first, second)
    scale = first.abs().nan_to_num(0, 0, 0).max().item() if first.numel() else 0.0
    return torch.allclose(first, second, rtol=TOLERANCE, atol=TOLERANCE * max(scale, 1e-12), equal_nan=True)


@contextmanager
def as_in_the_service() -> Iterator[None]:
    """Compute with one thread, and warn of nothing."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(threads)
