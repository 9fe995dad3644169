"""Marks of parameters: their contents, which a call may write to where torch does not see it.

All copies of a model share its parameters. torch counts what its operators write to them; a write through `.data` or
through memory that NumPy shares is not counted, and no trace has it.
"""

import zlib
from collections.abc import Mapping
from typing import NamedTuple

import torch

from tracehouse.eager.state_marks import is_plain
from tracehouse.torch_values.tensors import to_bytes


class ParameterMark(NamedTuple):
    """How often torch saw a parameter written to, and a checksum of its bytes."""

    version: int
    checksum: int


def mark_parameters(module: torch.nn.Module) -> dict[str, ParameterMark]:
    """Return the marks of the parameters by name; of those alone whose bytes can be read."""
    return {
        name: ParameterMark(parameter._version, _checksum(parameter))
        for name, parameter in module.named_parameters()
        if is_plain(parameter)
    }


def find_unseen_writes(before: Mapping[str, ParameterMark], after: Mapping[str, ParameterMark]) -> list[str]:
    """Return the parameters that were written to, and not by an operator of torch."""
    return [
        name
        for name, mark in before.items()
        if name in after and after[name].version == mark.version and after[name].checksum != mark.checksum
    ]


def _checksum(parameter: torch.Tensor) -> int:
    return zlib.crc32(to_bytes(parameter))
