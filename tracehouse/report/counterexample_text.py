"""Counterexamples as plain text, for terminals and for the messages of failed tests."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracehouse.errors import MalformedTensors
from tracehouse.tensors.npz import list_entries

Arrays = Mapping[str, NDArray[Any]]
# A larger file of arrays is not read for a line of text.
READ_MAX_BYTES = 1 << 20
_ELEMENTS_MAX = 12
_INPUT = "input."


def counterexample_line(number: int, method: str, inputs: Arrays, difference: str) -> str:
    """Return the call and what differs, with the inputs' values as far as they are few."""
    given = ", ".join(f"{name} = {shorten_array(array)}" for name, array in inputs.items())
    return f"{number}. {method}({given}): {difference}"


def shorten_array(array: NDArray[Any]) -> str:
    """Return the array's values on one line, those in the middle of many as `...`."""
    text = np.array2string(array, threshold=_ELEMENTS_MAX, edgeitems=2, separator=", ")
    return " ".join(text.split())


def read_inputs(npz: bytes) -> dict[str, NDArray[Any]]:
    """Return the inputs in a counterexample's file of arrays. Raises MalformedTensors for what is no such file."""
    files = {entry.name: entry.unpack() for entry in list_entries(memoryview(npz)) if entry.name.startswith(_INPUT)}
    return {name.removeprefix(_INPUT): _read_array(name, file) for name, file in files.items()}


def _read_array(name: str, file: memoryview) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(file), allow_pickle=False)
    except (ValueError, MemoryError) as error:
        raise MalformedTensors(f"the array {name!r} cannot be read: {error}") from error
    return array
