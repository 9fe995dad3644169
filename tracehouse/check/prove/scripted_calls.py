"""Scripted calls: in a run of the model on symbols, what the model has scripted is run on symbols, too.

torch's own interpreter of scripts takes every size as a number, which would leave each symbol one size.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.jit._recursive import wrap_cpp_module

from tracehouse.check.prove.interpreter import CompiledProgram
from tracehouse.check.prove.recorder import Recorder
from tracehouse.check.prove.scalar_tensors import Unsupported
from tracehouse.check.prove.symbols import SYMBOLIC

_KINDS = (torch._C.ScriptFunction, torch._C.ScriptMethod)
# What passes between Python and a script without a conversion that the interpreter would have to repeat.
_TYPES = re.compile(r"(Tensor|bool|int|float|str|NoneType|Optional|List|Tuple|[\[\], ()])+")
_LIST = re.compile(r"(?:Optional\[)?List\[(.*[^\]])\]+")
_PLAIN = (bool, int, float, str, type(None), *SYMBOLIC)


class ScriptNotFollowed(BaseException):
    """A script cannot be run on symbols. No Exception, so that no `except Exception` of the model catches it."""


class ScriptedCalls:
    """The scripts that the runs of one target call. One that cannot be run on symbols is left to torch."""

    def __init__(self) -> None:
        # By id of a graph, which is kept with it: torch has one Python object for a graph as long as that lives.
        self._programs: dict[int, tuple[Any, CompiledProgram | None]] = {}

    @contextmanager
    def follow(self, recorder: Recorder) -> Iterator[None]:
        """In the body, calls of scripts are run by the interpreter. They may raise ScriptNotFollowed.

        If they do, the body is to be run again: then the script is left to torch.
        """
        originals = [kind.__call__ for kind in _KINDS]
        for kind, original in zip(_KINDS, originals, strict=True):
            kind.__call__ = self._replace(original, recorder)  # type: ignore[method-assign]
        try:
            yield
        finally:
            for kind, original in zip(_KINDS, originals, strict=True):
                kind.__call__ = original  # type: ignore[method-assign]

    def _replace(self, original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
        def call(compiled: Any, /, *args: Any, **kwargs: Any) -> Any:
            graph = compiled.graph
            program = self._program(compiled, graph)
            if program is None:
                recorder.widths.tell_all()
                return original(compiled, *args, **kwargs)
            position = recorder.position
            try:
                owner = [wrap_cpp_module(compiled.owner)] if isinstance(compiled, torch._C.ScriptMethod) else []
                return program.run([*owner, *_bind(compiled.schema.arguments[len(owner) :], args, kwargs)], recorder)
            except Unsupported as error:
                self._programs[id(graph)] = graph, None
                raise ScriptNotFollowed from error
            finally:
                recorder.position = position

        return call

    def _program(self, compiled: Any, graph: Any) -> CompiledProgram | None:
        """Return the program of a compiled function or method; None where it is left to torch."""
        if id(graph) not in self._programs:
            self._programs[id(graph)] = graph, _read(compiled)
        return self._programs[id(graph)][1]


def _read(compiled: Any) -> CompiledProgram | None:
    schema = compiled.schema
    arguments = schema.arguments[1:] if isinstance(compiled, torch._C.ScriptMethod) else schema.arguments
    if not all(_TYPES.fullmatch(one.type.annotation_str) for one in (*arguments, *schema.returns)):
        return None
    try:
        return CompiledProgram(compiled)
    except Unsupported:
        return None


def _bind(parameters: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the arguments in the order of the parameters. Raises Unsupported if they do not fit."""
    if len(args) > len(parameters) or {*kwargs} - {one.name for one in parameters[len(args) :]}:
        raise Unsupported("a script that does not take its arguments")
    given = [*zip(parameters, args, strict=False)]
    for parameter in parameters[len(args) :]:
        if parameter.name not in kwargs and not parameter.has_default_value():
            raise Unsupported("a script that lacks an argument")
        given.append((parameter, kwargs.get(parameter.name, parameter.default_value)))
    return [_convert(value, parameter.type.annotation_str) for parameter, value in given]


def _convert(value: Any, kind: str) -> Any:
    """Return the value as a script gets it: lists are copied, and integers are floats where floats are expected.

    Raises Unsupported if torch would convert it in another way.
    """
    if isinstance(value, list | tuple):
        items = _LIST.fullmatch(kind)
        if items is None and type(value) is not tuple:
            raise Unsupported("a script that takes a list as something else")
        converted = [_convert(one, items.group(1) if items else "") for one in value]
        return converted if items else tuple(converted)
    is_tensor = isinstance(value, torch.Tensor)
    if not is_tensor and not isinstance(value, _PLAIN):
        raise Unsupported(f"a script that takes a {type(value).__name__}")
    if kind and value is not None and is_tensor != ("Tensor" in kind):
        raise Unsupported("a script that takes a number as a tensor")
    is_integer = isinstance(value, int | torch.SymInt) and not isinstance(value, bool)
    return torch.sym_float(value) if kind in ("float", "Optional[float]") and is_integer else value
