"""Safetensors files, read with one copy of their tensors: safetensors itself gets all bytes, and copies each tensor.

A file that is odd in any way is left to safetensors, which alone decides what can be read.
"""

import math
import os
from contextlib import suppress
from typing import BinaryIO

import safetensors.torch
import torch

from tracehouse.tensors.foreign_tensor_file import TensorPlace, read_places
from tracehouse.torch_values.tensors import DTYPES, bytes_of

_LENGTH_BYTES = 8
_HEADER_MAX_BYTES = 1 << 25  # a choice: that of a large model has a few million


class _OddFile(Exception):
    """The file is not as writers of safetensors write it."""


def load(file: BinaryIO) -> dict[str, torch.Tensor]:
    """Return the file's tensors by their names, as `safetensors.torch.load` does. Raises whatever that raises."""
    with suppress(Exception):  # safetensors tells what is wrong with it
        return {place.name: _read_tensor(file, place) for place in _read_places(file)}
    file.seek(0)
    return safetensors.torch.load(file.read())


def _read_places(file: BinaryIO) -> list[TensorPlace]:
    """Return the tensors in the order of their bytes, which begin where the file stands then.

    Raises _OddFile and MalformedTensors.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if length > min(size, _HEADER_MAX_BYTES):
        raise _OddFile
    text = file.read(length)
    if not text.startswith(b"{"):  # a reader of JSON skips blanks
        raise _OddFile
    places = read_places(text)
    end = places[-1].end if places else 0
    if _LENGTH_BYTES + length + end != size:
        raise _OddFile
    if any(math.prod(one.shape) * one.datatype.item_bytes != one.end - one.start for one in places):
        raise _OddFile
    return places


def _read_tensor(file: BinaryIO, place: TensorPlace) -> torch.Tensor:
    """Read the tensor that the file stands at."""
    tensor = torch.empty(place.shape, dtype=DTYPES[place.datatype], device="cpu")
    if file.readinto(bytes_of(tensor)) != tensor.nbytes:  # type: ignore[attr-defined]
        raise _OddFile
    return tensor
