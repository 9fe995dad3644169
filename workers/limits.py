"""Limits: what one attempt at a trace request may use. Its children share the wall clock; the rest is for each one."""

from collections.abc import Mapping
from typing import Self

from service.sandbox.channel import BODY_MAX_BYTES
from service.sandbox.limits import Limits
from tracehouse.byte_units import MIB
from tracehouse.frozen import Frozen
from tracehouse.spec.trace_spec import BudgetName, DeviceName


class TraceLimits(Frozen):
    """The limits of one attempt. `walls` are the wall clocks of all budgets; without them, each budget has `wall_s`."""

    wall_s: float
    budget: BudgetName = "normal"  # of the attempt's check
    walls: Mapping[BudgetName, float] = {}
    cpu_s: int
    memory_mib: int
    threads: int
    log_max_bytes: int
    source_max_bytes: int
    child_threads_max: int
    child_open_files_max: int
    result_max_bytes: int = BODY_MAX_BYTES
    export_s: float = 60.0  # the part of the wall clock for torch.export, if the request asks for it

    @property
    def threads_per_process(self) -> int:
        """How many threads each process of a verification has: the eager model and the artifact run together."""
        return max(1, self.threads // 2)

    @property
    def larger_budgets(self) -> Mapping[BudgetName, float]:
        """The budgets that have more time, with their wall clocks."""
        return {name: wall_s for name, wall_s in self.walls.items() if wall_s > self.wall_s}

    def of_budget(self, budget: BudgetName) -> Self:
        """Return the limits of an attempt whose check has this budget."""
        return self.model_copy(update={"budget": budget, "wall_s": self.walls.get(budget, self.wall_s)})

    def for_child(self, device: DeviceName) -> Limits:
        """Return the limits of each child that computes on this device."""
        limits = Limits(
            address_space_mib=self.memory_mib,
            cpu_s=self.cpu_s,
            file_size_mib=max(1, self.result_max_bytes // MIB),
            open_files=self.child_open_files_max,
            threads=self.child_threads_max,
        )
        return limits.on(device)
