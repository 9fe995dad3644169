"""The model: made from its entrypoint, and set to eval mode or to the mode that was requested.

An entrypoint is one of these:

- a subclass of nn.Module, which is called with `init`;
- an nn.Module, which may be a ScriptModule, or a method bound to one, which then stands for `forward`;
- a function. If its signature accepts `init` (by default, no arguments), it is called as a factory, and the nn.Module
  or function that it returns is the model. If it needs other arguments, or returns something else, the function itself
  is traced.
"""

import copy
import inspect
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType, ModuleType
from typing import Any, Self

import torch
from torch.nn.parameter import UninitializedParameter

from tracehouse.eager.call import Call
from tracehouse.eager.copies import copy_model, find_uncopyable
from tracehouse.eager.error_translation import translate_errors
from tracehouse.eager.shared_state import SharedState
from tracehouse.eager.source import Source, seed_all
from tracehouse.eager.stubbed_packages import refuse_stub
from tracehouse.errors import EntrypointNotFound, EntrypointUnusable, InitFailed, ModelNotCopyable, ModelRaised
from tracehouse.introspection import user_lines
from tracehouse.spec.trace_spec import Init, Training

_NAMES_MAX = 50


class Function(torch.nn.Module):
    """A plain function as a module, so that everything that is traced is a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.__dict__["forward"] = function  # setattr would register a module as a child


class LoadedModel:
    """A module, and copies of it for callers that may change theirs.

    `alias` is the name of the method that stands for `forward`; `make` makes the module again if it cannot be copied.
    """

    def __init__(
        self, module: torch.nn.Module, alias: str | None = None, make: Callable[[], torch.nn.Module] | None = None
    ) -> None:
        self.module = module
        self.shared = SharedState()
        self._alias = alias
        self._make = make
        self._device = "cpu"
        self._dtype: torch.dtype | None = None
        self._training: Training = "as-is"
        self._change_copy: Callable[[torch.nn.Module], torch.nn.Module] | None = None

    def set_mode(self, training: Training) -> None:
        """Set the mode of every submodule; `as-is` leaves each as the source left it. Raises InitFailed."""
        self._training = training
        with translate_errors(InitFailed, "setting the model's mode raised"):
            self._apply_mode(self.module)

    def cast(self, dtype: torch.dtype | None) -> None:
        """Cast the floating-point parameters and buffers, also in later copies; None leaves them. Raises InitFailed."""
        self._dtype = dtype
        with translate_errors(InitFailed, f"casting the model to {dtype} raised", dtype=str(dtype)):
            self._apply_precision(self.module)

    def move(self, device: str) -> None:
        """Move the model to the device where it is traced; later copies are there too. Raises InitFailed."""
        self._device = device
        with translate_errors(InitFailed, f"moving the model to {device} raised"):
            self._apply_device(self.module)

    def with_changed_copies(self, change: Callable[[torch.nn.Module], torch.nn.Module]) -> Self:
        """Return this model, but with copies that `change` has changed."""
        other = copy.copy(self)
        other._change_copy = change
        return other

    @property
    def is_compiled(self) -> bool:
        """Whether the model is a ScriptModule, so that there is nothing to trace or to script."""
        return isinstance(self.module, torch.jit.ScriptModule)

    def method_name(self, requested: str) -> str:
        """Return the Python name of a method that a request names."""
        return self._alias if self._alias is not None and requested == "forward" else requested

    def initialise(self, calls: Iterable[Call], seed: int) -> None:
        """Run the calls if the model has lazy modules, because they take their shapes from a first call.

        Raises ModelRaised.
        """
        if any(isinstance(parameter, UninitializedParameter) for parameter in self.module.parameters()):
            seed_all(seed)
            for call in calls:
                with torch.no_grad(), translate_errors(ModelRaised, f"{call.method} raised", method=call.method):
                    call.clone().run(self.module)

    def copy_module(self) -> torch.nn.Module:
        """Return a copy that shares only the parameters, which are large; a call that writes to them is noticed.

        The state in the source's globals and classes is restored too, so do not call an older copy afterwards. If
        there is no way to make the model again and it cannot be copied, it is returned itself. Raises ModelNotCopyable
        if making it again fails, or if the copy was to be changed and there is none.
        """
        self.shared.restore()
        try:
            copied = copy_model(self.module)
        except Exception as error:  # noqa: BLE001 - submitted code: a lock, a generator or its own __deepcopy__ refuses
            copied = self._make_again(error)
        if self._change_copy is None:
            return copied
        if copied is self.module:
            raise ModelNotCopyable("the model cannot be copied, and submodules are scripted only in a copy")
        return self._change_copy(copied)

    def _make_again(self, refused: Exception) -> torch.nn.Module:
        if self._make is None:
            return self.module  # the source made this instance: there is no other
        try:
            with translate_errors(InitFailed, "making the model again raised"):
                module = self._make()
                module = self._apply_device(self._apply_precision(module))
                module.load_state_dict(self.module.state_dict())
                return self._apply_mode(module)
        except InitFailed as error:
            why = f"{type(refused).__name__}: {user_lines.error_text(refused)}"
            raise ModelNotCopyable(
                f"the model cannot be copied ({why}), and {error.detail}",
                **(error.facts | {"attributes": find_uncopyable(self.module)}),
            ) from error

    def _apply_mode(self, module: torch.nn.Module) -> torch.nn.Module:
        if self._training == "as-is":
            return module
        return module.train() if self._training else module.eval()

    def _apply_precision(self, module: torch.nn.Module) -> torch.nn.Module:
        return module if self._dtype is None else module.to(self._dtype)

    def _apply_device(self, module: torch.nn.Module) -> torch.nn.Module:
        return module if self._device == "cpu" else module.to(self._device)


def name_of_method(method: MethodType) -> str:
    """Return the name under which a module has one of its methods: a decorator may have named the function otherwise.

    Raises EntrypointUnusable if the module has it under no name.
    """
    owner = method.__self__
    for name in (method.__name__, *vars(owner), *dir(type(owner))):
        found = inspect.getattr_static(owner, name, None)
        if found is method.__func__ or (isinstance(found, MethodType) and found == method):
            return name
    raise EntrypointUnusable(
        f"the method {method.__name__!r} is bound to a module that does not have it",
        remedy="define the method in the module's class",
    )


def load(source: Source, entrypoint: str, init: Init, seed: int, training: Training = False) -> LoadedModel:
    """Import the source and make the model. Raises a TraceError with the user's line.

    `seed` decides the random numbers that the source draws while the model is made.
    """
    model = _find_model(source, entrypoint, init, seed)
    model.set_mode(training)
    return model


def _find_model(source: Source, entrypoint: str, init: Init, seed: int) -> LoadedModel:
    module_name, _, path = entrypoint.partition(":")
    found = _resolve(source, source.import_module(module_name, seed), path, entrypoint)
    with translate_errors(InitFailed, f"making {entrypoint!r} raised"):
        refuse_stub(found)
    match found:
        case type() if issubclass(found, torch.nn.Module):
            _check_accepts(found, init, entrypoint)
            return _make_model(found, init, seed, entrypoint)
        case type():
            raise _unusable_entrypoint(entrypoint, f"{path!r} is a class, but not one of nn.Module")
        case torch.nn.Module():
            return _wrap_instance(found, None, init, entrypoint)
        case MethodType(__self__=torch.nn.Module() as owner):
            return _wrap_instance(owner, name_of_method(found), init, entrypoint)
        case torch._C.ScriptMethod():
            raise _unusable_entrypoint(
                entrypoint,
                f"{path!r} is a method of a ScriptModule",
                remedy="let the entrypoint be the ScriptModule, and name the method under `methods`",
            )
        case torch.jit.ScriptFunction():  # without a Python signature, it can't be told from a factory
            _check_no_init(init, entrypoint)
            return LoadedModel(Function(found))
    if not callable(found):
        raise _unusable_entrypoint(entrypoint, f"{path!r} is of type {type(found).__name__}")
    if inspect.isfunction(found) and _is_unbound(found):
        raise _unusable_entrypoint(
            entrypoint,
            f"{path!r} is a method of a class",
            remedy="let the entrypoint be the class, and name the method under `methods`",
        )
    if _accepts(found, init):
        return _make_model(found, init, seed, entrypoint)
    if init.args or init.kwargs:
        raise InitFailed(f"{path!r} does not take the arguments in `init`", parameters=_parameters(found))
    return LoadedModel(Function(found))


def _resolve(source: Source, module: ModuleType, path: str, entrypoint: str) -> Any:
    found: Any = module
    for name in path.split("."):
        with translate_errors(InitFailed, f"reading {entrypoint!r} raised"):
            try:
                found = getattr(found, name)
            except AttributeError as error:
                names, modules = _names(found), source.modules_in(module.__name__) if found is module else []
                listed = [*names, *(f"the module {inner}" for inner in modules)]
                raise EntrypointNotFound(
                    f"there is no {name!r} in {entrypoint!r}; there is {', '.join(listed) or 'nothing'}",
                    entrypoint=entrypoint,
                    names=names,
                    modules=modules,
                ) from error
    return found


def _names(owner: Any) -> list[str]:
    """Return the callables that the user may have meant: those defined in `owner`, else all that it holds."""
    here = getattr(owner, "__name__", None)
    names = [name for name, value in vars(owner).items() if not name.startswith("_") and callable(value)]
    defined = [name for name in names if getattr(getattr(owner, name, None), "__module__", None) == here]
    return (defined or names)[:_NAMES_MAX]


def _make_model(factory: Callable[..., Any], init: Init, seed: int, entrypoint: str) -> LoadedModel:
    """Make the model by calling the factory, which is called again if the model cannot be copied."""

    def make() -> Any:
        seed_all(seed)
        with translate_errors(InitFailed, f"making {entrypoint!r} raised"):
            return factory(*copy.deepcopy(init.args), **copy.deepcopy(init.kwargs))

    result = make()
    if isinstance(result, torch.nn.Module):
        return LoadedModel(result, make=make)
    if isinstance(result, MethodType) and isinstance(result.__self__, torch.nn.Module):
        return LoadedModel(result.__self__, name_of_method(result))
    if callable(result) and not isinstance(result, type):
        return LoadedModel(Function(result))
    if _parameters(factory) and not (init.args or init.kwargs or isinstance(factory, type)):
        return LoadedModel(Function(factory))
    raise _unusable_entrypoint(
        entrypoint, f"{entrypoint!r} was called as a factory and returned a {type(result).__name__}"
    )


def _wrap_instance(module: torch.nn.Module, method: str | None, init: Init, entrypoint: str) -> LoadedModel:
    _check_no_init(init, entrypoint)
    return LoadedModel(module, method)


def _check_no_init(init: Init, entrypoint: str) -> None:
    if init.args or init.kwargs:
        raise InitFailed(f"{entrypoint!r} is already a model, and takes no `init`", entrypoint=entrypoint)


def _check_accepts(factory: Callable[..., Any], init: Init, entrypoint: str) -> None:
    if not _accepts(factory, init):
        raise InitFailed(
            f"{entrypoint!r} does not take the arguments in `init`: {_mismatch(factory, init)}",
            parameters=_parameters(factory),
            **user_lines.line_facts(user_lines.line_of_function(getattr(factory, "__init__", None))),
        )


def _accepts(function: Callable[..., Any], init: Init) -> bool:
    return _mismatch(function, init) is None


def _mismatch(function: Callable[..., Any], init: Init) -> str | None:
    try:
        inspect.signature(function).bind(*init.args, **init.kwargs)
    except TypeError as error:
        return str(error)
    except ValueError:  # it has no signature, as torch.relu: only a call can show what it takes
        return None if init.args or init.kwargs else "it has no signature"
    return None


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return [str(parameter) for parameter in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return []


def _is_unbound(function: FunctionType) -> bool:
    """Whether the function was defined in a class and needs an instance."""
    *owner, name = function.__qualname__.split(".")
    holder: Any = inspect.getmodule(function)
    for part in owner:
        holder = getattr(holder, part, None)
    return isinstance(holder, type) and inspect.isfunction(inspect.getattr_static(holder, name, None))


def _unusable_entrypoint(entrypoint: str, detail: str, **facts: Any) -> EntrypointUnusable:
    return EntrypointUnusable(detail, entrypoint=entrypoint, **facts)
