"""Weights: a submitted state dict is read, without running any code that it contains, and loaded into the model."""

import re
from collections.abc import Mapping
from typing import Any, BinaryIO

import safetensors
import safetensors.torch
import torch
from torch.nn.parameter import is_lazy

from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error, translate_errors
from tracehouse.errors import WeightsMismatch, WeightsUnreadable
from tracehouse.frozen import Frozen
from tracehouse.introspection import user_lines

_NAMES_MAX = 50
# The keys under which training scripts usually save a state dict together with other things.
_WRAPPERS = ("state_dict", "model_state_dict", "model")

# torch.load's message for an object that weights_only refuses.
_PICKLED = re.compile(r"GLOBAL (\S+) was not an allowed global")

StateDict = dict[str, torch.Tensor]


class Fit(Frozen):
    """The names of weights that only the model has (`missing`), and of those that only the state dict has."""

    missing: list[str] = []
    unexpected: list[str] = []


def read(file: BinaryIO, name: str) -> StateDict:
    """Return the state dict of a `.safetensors` file, or of one that torch.load reads with `weights_only`.

    Raises WeightsUnreadable, and LimitExceeded if memory runs out.
    """
    loaded = _load_file(file, name)
    state = _find_state_dict(loaded)
    if state is None:
        raise WeightsUnreadable(
            f"{name!r} holds no state dict, which maps names to tensors",
            file=name,
            found=_names(loaded) if isinstance(loaded, Mapping) else type(loaded).__name__,
        )
    return state


def fit(module: torch.nn.Module, state: StateDict, *, strict: bool) -> Fit:
    """Load the state dict into the module, and return the names that did not fit.

    Raises WeightsMismatch if a shape differs, and, with `strict`, if a name is missing or unexpected.
    """
    own = {name: tensor for name, tensor in module.state_dict().items() if isinstance(tensor, torch.Tensor)}
    other_shapes = [
        {"name": name, "expected": list(own[name].shape), "actual": list(given.shape)}
        for name, given in state.items()
        if name in own and not is_lazy(own[name]) and own[name].shape != given.shape
    ]
    if other_shapes:
        first = other_shapes[0]
        raise WeightsMismatch(
            f"{first['name']!r} has the shape {first['actual']}, and the model's has {first['expected']}; "
            f"{len(other_shapes)} of the weights differ in shape",
            mismatched=other_shapes[:_NAMES_MAX],
        )
    with translate_errors(WeightsMismatch, "loading the weights raised"):
        result = module.load_state_dict(state, strict=False)
    fitted = Fit(missing=list(result.missing_keys), unexpected=list(result.unexpected_keys))
    if strict and (fitted.missing or fitted.unexpected):
        raise WeightsMismatch(
            f"{len(fitted.missing)} of the weights are missing, and {len(fitted.unexpected)} are not in the model",
            missing=fitted.missing[:_NAMES_MAX],
            unexpected=fitted.unexpected[:_NAMES_MAX],
            remedy="send this model's own weights, or set weights.strict to false",
        )
    return fitted


def _load_file(file: BinaryIO, name: str) -> Any:
    try:
        if name.lower().endswith(".safetensors"):
            return safetensors.torch.load(file.read())
        return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        if is_out_of_memory(error):
            raise out_of_memory_error(error) from error
        raise WeightsUnreadable(
            f"{name!r} cannot be read: {_cause_of(error)}",
            file=name,
            remedy="save only the weights: torch.save(model.state_dict(), file)",
        ) from error


def _cause_of(error: Exception) -> str:
    """Return the cause in one line, without torch's advice to switch its protection off."""
    text = user_lines.error_text(error)
    if (pickled := _PICKLED.search(text)) is not None:
        return f"it holds a pickled {pickled[1]}, and may hold only tensors"
    if "TorchScript archive" in text:
        return "it is a TorchScript archive, not a state dict"
    cause = text.partition("WeightsUnpickler error:")[2] or text
    return cause.strip().partition("\n")[0] or type(error).__name__


def _find_state_dict(loaded: Any) -> StateDict | None:
    if not isinstance(loaded, Mapping):
        return None
    if all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in loaded.items()):
        return dict(loaded)
    wrapped = [state for key in _WRAPPERS if (state := _find_state_dict(loaded.get(key))) is not None]
    return wrapped[0] if len(wrapped) == 1 else None


def _names(mapping: Mapping[Any, Any]) -> list[str]:
    return [str(name) for name in mapping][:_NAMES_MAX]
