"""Call memory: what the tensors of calls take at one time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class CallMemory:
    """What the tensors of a recorded call took at one time, in bytes, without its inputs and weights.

    None if it could not be measured, because the caller's own profiler runs.
    """

    def __init__(self) -> None:
        self.most_bytes: int | None = None


@contextmanager
def record_memory() -> Iterator[CallMemory]:
    """Record the memory of the artifact's call in the body. It is known after the body."""
    memory = CallMemory()
    # The profiler that prints nothing, unlike its successor.
    profiler: Any = torch.autograd
    if profiler._profiler_enabled():
        yield memory
        return
    experimental = torch._C._profiler._ExperimentalConfig()
    config = profiler.ProfilerConfig(profiler.ProfilerState.CPU, False, True, False, False, False, experimental)
    profiler._enable_profiler_legacy(config)
    try:
        yield memory
    finally:
        memory.most_bytes = _most_bytes(profiler._disable_profiler_legacy())


def _most_bytes(recorded: Any) -> int:
    changes = (
        event.cpu_memory_usage() + event.cuda_memory_usage()
        for thread in recorded
        for event in thread
        if event.kind() == "memory_alloc"
    )
    now = most = 0
    for change in changes:
        now += change
        most = max(most, now)
    return most
