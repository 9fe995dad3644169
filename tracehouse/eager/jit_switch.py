"""Turning the JIT off after torch has been imported, as PYTORCH_JIT=0 does before."""

import torch.jit._state


def turn_off() -> None:
    """Make torch.jit.script, its decorators and torch.jit.trace return what they are given, from now on."""
    torch.jit._state.disable()
