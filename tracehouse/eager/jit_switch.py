"""The JIT, turned off in this process: what PYTORCH_JIT=0 does where torch is not loaded yet."""

import torch.jit._state


def turn_off() -> None:
    """From now on torch.jit.script and its decorators give back what they are given, and torch.jit.trace does too."""
    torch.jit._state.disable()
