"""A live module, method or function as a submission.

The modules that define it go as they are. The object itself goes as a pickle, which a small generated module opens in
the service's jail, and its weights as a safetensors file. If the way to build it is known, only the weights go.
"""

import keyword
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any

import torch

from tracehouse.client.errors import NotSendable
from tracehouse.client.sources.compiled import send_compiled
from tracehouse.client.sources.entrypoint import Entrypoint
from tracehouse.client.sources.included_files import read_included
from tracehouse.client.sources.live_sources import LiveSources
from tracehouse.client.sources.packing import pack_files, texts_of
from tracehouse.client.sources.pickling import pickle_object
from tracehouse.client.sources.weights_file import FILE, WeightsFile, write_state
from tracehouse.client.submission import Submission
from tracehouse.spec.model_name import name_of_object

_UNPICKLABLE_MAX = 5
_VALUE_MAX_CHARACTERS = 60
_OF_TORCH = set(vars(torch.nn.Module()))
_WRAPPERS = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)


def send_live(model: Any, include: Sequence[str | Path] = (), imports: Sequence[str] = ()) -> Submission:
    """Return the submission of a live model, with further files that its code opens and modules to import first.

    Raises NotSendable.
    """
    _check_kind(model)
    model, notes = _unwrap(model)
    if isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        if include or imports:
            raise NotSendable(
                f"the model is compiled already ({type(model).__name__}), and goes as it is, with no files and no "
                "imports beside it: leave out include and imports, or hand in the Python model that it was made of"
            )
        return send_compiled(model)
    owner = _owner(model)
    weights = None if owner is None else write_state(owner)
    sources = LiveSources(imports)
    try:
        sources.pickle_model(model, {} if weights is None else weights.placeholders)
    except NotSendable:
        raise
    except Exception as error:
        raise _unpicklable(model, weights, error) from error
    name = _name_of(model)
    included = read_included(include)
    files = sources.files(name) | included.files
    source, uploads = pack_files(files, hidden=[f"{sources.opener}.py"])
    return Submission(
        name=name_of_object(name),
        source={**source, "entrypoint": f"{sources.opener}:{name}"},
        uploads={**uploads, **({} if weights is None else {FILE: weights.data})},
        weights=None if weights is None else weights.request,
        training="as-is",
        notes=[*notes, *sources.notes, *([] if weights is None else weights.notes), *included.notes],
        packages=sources.project.packages,
        texts=texts_of(files),
    )


def send_state(
    model: Any,
    made_by: str | Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    include: Sequence[str | Path] = (),
    imports: Sequence[str] = (),
) -> Submission:
    """Return the submission of a live module that the service builds by an entrypoint, to give it these weights.

    It is built here too, to say what the weights alone do not bring along. Raises NotSendable.
    """
    entrypoint = Entrypoint(made_by, args, kwargs, imports)
    if not isinstance(model, torch.nn.Module):
        raise NotSendable(f"made_by is how a module is built, and the model is {_describe(model)}: leave made_by out")
    weights = write_state(model)
    if left := weights.request.get("allow_missing"):
        raise NotSendable(f"{left[0]} cannot stand in a file of weights: leave out made_by, to send the object itself")
    included = read_included(include)
    files = entrypoint.files() | included.files
    source, uploads = pack_files(files)
    modes = {part.training for part in model.modules()}
    return Submission(
        name=name_of_object(type(model).__name__),
        source={**source, "entrypoint": entrypoint.entrypoint, "init": entrypoint.init},
        uploads={**uploads, FILE: weights.data},
        weights=weights.request,
        training=modes.pop() if len(modes) == 1 else "as-is",
        notes=[*_differences(model, entrypoint.build()), *entrypoint.notes, *weights.notes, *included.notes],
        packages=entrypoint.packages,
        texts=texts_of(files),
    )


def _check_kind(model: Any) -> None:
    if isinstance(model, type):
        raise NotSendable(
            f"the model is the class {model.__name__}: hand in an object of it, such as {model.__name__}(…).eval()"
        )
    if isinstance(model, torch._C.ScriptMethod):
        raise NotSendable("the model is a method of a ScriptModule: hand in the ScriptModule itself")
    if not callable(model):
        raise NotSendable(
            f"the model is {_describe(model)}: hand in a module, a method or a function, or name a source as a text "
            'such as "net.py:Net"'
        )


def _unwrap(model: Any) -> tuple[Any, list[str]]:
    """Return the module that a wrapper holds, and what was said of it."""
    notes: list[str] = []
    while True:
        if isinstance(model, _WRAPPERS):
            inner = model.module
        elif isinstance(model, torch.nn.Module) and "_orig_mod" in model._modules:  # torch.compile
            inner = model._orig_mod
        else:
            return model, notes
        notes.append(f"{type(model).__name__} was replaced by the {type(inner).__name__} that it holds")
        model = inner


def _owner(model: Any) -> torch.nn.Module | None:
    """Return the module whose state the model has; None for a function."""
    owner = model.__self__ if isinstance(model, MethodType) else model
    return owner if isinstance(owner, torch.nn.Module) else None


def _name_of(model: Any) -> str:
    owner = _owner(model)
    if owner is not None:
        return type(owner).__name__ if _is_entrypoint(type(owner).__name__) else "Model"
    function = model.func if isinstance(model, partial) else model
    name = getattr(function, "__name__", type(function).__name__)
    return name if _is_entrypoint(name) else "function"


def _is_entrypoint(name: str) -> bool:
    """Whether the generated module can give the model under this name, and a trace request can name it."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and name != "load_value"


def _unpicklable(model: Any, weights: WeightsFile | None, error: Exception) -> NotSendable:
    """Return the error for an object that cannot be pickled, with the attributes at fault."""
    found = [*_unpicklable_attributes(model, weights)][:_UNPICKLABLE_MAX]
    if not found:
        return NotSendable(f"the model cannot be pickled: {error}. Give the way to build it: made_by=Net, args=(…)")
    named = "; ".join(f"{name} is {_describe(value)} ({why})" for name, value, why in found)
    first = found[0][0]
    return NotSendable(
        f"this of the model cannot be pickled, and so not be sent: {named}. Set it to None while the model is traced "
        f"(model.{first} = None), leave it out of the pickle by a __getstate__ of its class, or give the way to build "
        "the model: made_by=Net, args=(…)"
    )


def _unpicklable_attributes(model: Any, weights: WeightsFile | None) -> Iterator[tuple[str, Any, str]]:
    owner = _owner(model)
    for name, part in [] if owner is None else owner.named_modules():
        for attribute, value in vars(part).items():
            if attribute in ("_modules", "_parameters"):
                continue
            try:
                pickle_object(value, LiveSources(), {} if weights is None else weights.placeholders)
            except Exception as error:  # noqa: BLE001 - an object of any kind, with code of its own
                yield f"{name}.{attribute}".removeprefix("."), value, str(error)


def _differences(model: torch.nn.Module, built: Any) -> Iterator[str]:
    """Yield what a module that was built anew has otherwise, beside its weights."""
    if not isinstance(built, torch.nn.Module):
        raise NotSendable(f"made_by builds {_describe(built)}, and not a module")
    parts = dict(built.named_modules())
    for name, part in model.named_modules():
        other = parts.get(name)
        if other is None or type(other) is not type(part):
            yield f"{name or 'the model'} is a {type(part).__name__}, and not what made_by builds: that one is sent"
            continue
        for attribute in sorted({*vars(part), *vars(other)} - _OF_TORCH):
            here, there = vars(part).get(attribute), vars(other).get(attribute)
            if not _is_same(here, there):
                yield (
                    f"{name}.{attribute}".removeprefix(".") + f" is {_shorten(here)} here, and {_shorten(there)} as "
                    "made_by builds it: that one is sent"
                )
        for buffer in sorted(part._non_persistent_buffers_set):
            if not _is_same(part._buffers.get(buffer), other._buffers.get(buffer)):
                yield f"{name}.{buffer}".removeprefix(".") + " has other values than made_by gives it: those are sent"


def _is_same(here: Any, there: Any) -> bool:
    """Whether two values are the same, as far as a comparison tells; others count as the same if they are of a type."""
    if type(here) is not type(there):
        return False
    if isinstance(here, torch.Tensor):
        return here.shape == there.shape and bool(torch.equal(here.cpu(), there.cpu()))
    if isinstance(here, bool | int | float | str | bytes | tuple | list | dict | set | frozenset):
        return repr(here) == repr(there)
    return True


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_MAX_CHARACTERS else _describe(value)


def _describe(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
