"""A checkpoint: a file of weights, and the state dicts in it. It is read without running any code in it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import torch

from tracehouse.eager import safetensors_file
from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error
from tracehouse.errors import WeightsUnreadable
from tracehouse.introspection import user_lines

_NAMES_MAX = 50
_STATES_MAX = 50
# A state dict is searched for so many dicts deep.
_DEPTH_MAX = 3

# torch.load's message for an object that weights_only refuses.
_PICKLED = re.compile(r"GLOBAL (\S+) was not an allowed global")

StateDict = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """The state dicts of a file by their keys, and the names at the top of the file."""

    file: str
    states: dict[str, StateDict]
    names: list[str]


def read(file: BinaryIO, name: str) -> Checkpoint:
    """Read a `.safetensors` file, or one that torch.load reads with `weights_only`. Raises WeightsUnreadable."""
    loaded = _load_file(file, name)
    names = [str(one) for one in loaded][:_NAMES_MAX] if isinstance(loaded, Mapping) else []
    states: dict[str, StateDict] = {}
    for key, state in _find_states(loaded, "", _DEPTH_MAX):
        if key in states:
            raise _cannot_choose(name, f"two state dicts under {key!r}")
        states[key] = state
        if len(states) > _STATES_MAX:
            raise _cannot_choose(name, f"over {_STATES_MAX} state dicts")
    if not states:
        raise WeightsUnreadable(
            f"{name!r} holds no state dict, which maps names to tensors",
            file=name,
            found=names if isinstance(loaded, Mapping) else type(loaded).__name__,
        )
    return Checkpoint(name, states, names)


def _cannot_choose(file: str, held: str) -> WeightsUnreadable:
    detail = f"{file!r} holds {held}, and no key can say which of them is meant"
    return WeightsUnreadable(detail, file=file, remedy="save the state dict of the model alone")


def _find_states(loaded: Any, key: str, depth: int) -> Iterator[tuple[str, StateDict]]:
    if not isinstance(loaded, Mapping):
        return
    if all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in loaded.items()):
        if loaded or not key:
            yield key, dict(loaded)
        return
    for name, value in loaded.items():
        if isinstance(name, str) and depth > 0:
            yield from _find_states(value, f"{key}.{name}" if key else name, depth - 1)


def _load_file(file: BinaryIO, name: str) -> Any:
    try:
        if name.lower().endswith(".safetensors"):
            return safetensors_file.load(file)
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
