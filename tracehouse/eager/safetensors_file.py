"""Safetensors files, read with one copy of their tensors: safetensors itself gets all bytes, and copies each tensor.

A file that is odd in any way is left to safetensors, which alone decides what can be read.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import safetensors.torch
import torch

_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
_ENTRY = {"dtype", "shape", "data_offsets"}
_ABOUT = "__metadata__"
_LENGTH_BYTES = 8
_HEADER_MAX_BYTES = 1 << 25  # a choice: that of a large model has a few million


class _OddFile(Exception):
    """The file is not as writers of safetensors write it."""


@dataclass(frozen=True)
class _Entry:
    """One tensor of the file, whose bytes follow those of the entry before."""

    name: str
    dtype: torch.dtype
    shape: Sequence[int]

    @property
    def byte_size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def load(file: BinaryIO) -> dict[str, torch.Tensor]:
    """Return the file's tensors by their names, as `safetensors.torch.load` does. Raises whatever that raises."""
    with suppress(Exception):  # safetensors tells what is wrong with it
        return {entry.name: _read_tensor(file, entry) for entry in _read_entries(file)}
    file.seek(0)
    return safetensors.torch.load(file.read())


def _read_entries(file: BinaryIO) -> list[_Entry]:
    """Return the tensors in the order of their bytes, which begin where the file stands then. Raises _OddFile."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if length > min(size, _HEADER_MAX_BYTES):
        raise _OddFile
    text = file.read(length)
    if not text.startswith(b"{"):  # json skips blanks
        raise _OddFile
    header = json.loads(text.decode(), object_pairs_hook=_refuse_duplicates)
    if not all(isinstance(text, str) for text in header.pop(_ABOUT, {}).values()):
        raise _OddFile
    entries, end = [], 0
    for name, described in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        entry = _parse_entry(name, described, end)
        entries.append(entry)
        end += entry.byte_size
    if _LENGTH_BYTES + length + end != size:
        raise _OddFile
    return entries


def _parse_entry(name: str, described: Mapping[str, Any], start: int) -> _Entry:
    """Raises _OddFile, and other errors, unless the entry's bytes begin at `start`, and are as many as it needs."""
    shape, offsets = described["shape"], described["data_offsets"]
    name.encode()  # a lone half of a pair is no text
    if described.keys() != _ENTRY or not all(type(one) is int and one >= 0 for one in (*shape, *offsets)):
        raise _OddFile
    entry = _Entry(name, _DTYPES[described["dtype"]], shape)
    if offsets != [start, start + entry.byte_size]:
        raise _OddFile
    return entry


def _refuse_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) != len(pairs):
        raise _OddFile
    return named


def _read_tensor(file: BinaryIO, entry: _Entry) -> torch.Tensor:
    """Read the tensor that the file stands at."""
    if not entry.byte_size:
        return torch.empty(entry.shape, dtype=entry.dtype)  # there is no buffer of no bytes
    data = np.empty(entry.byte_size, np.uint8)  # without a pass that fills it with zeros
    if file.readinto(data) != entry.byte_size:  # type: ignore[attr-defined]
        raise _OddFile
    return torch.frombuffer(data, dtype=entry.dtype).reshape(entry.shape)
