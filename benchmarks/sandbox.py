"""What the jail and the zygote cost: from a request to the first line of submitted code, and memory for each job.

Cold is what it would take without a zygote: a process started, torch imported and warmed, and then the same.
All figures of a tier are taken in turn within one run, because machines are noisy; the bounds are the aims for an idle
machine with two cores.

    make bench
"""

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from service.protocol.tracer import Trace
from service.sandbox import choose_tier
from service.sandbox.child import Child
from service.sandbox.limits import Limits
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote
from tracehouse.byte_units import MIB
from tracehouse.differential.named_budgets import MOST_S
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import TraceSpec

HERE = Path(__file__).parent
LIMITS = Limits(address_space_mib=8192, cpu_s=600)
WARM_ROUNDS = 50
COLD_ROUNDS = 3
JOBS = 5
WARM_MOST_MS, WARM_MOST_SHARE, JOB_MOST_MIB = 40, 0.02, 20

SOURCE = """\
import time

print(time.monotonic(), flush=True)
import torch


def linear():
    return torch.nn.Linear(16, 16)
"""
SPEC = {
    "model": "linear",
    "source": {"files": {"linear.py": SOURCE}, "entrypoint": "linear:linear"},
    "example_inputs": [{"datatype": "FP32", "shape": [1, 16], "random": {}}],
}
TRACE = Trace(
    spec=TraceSpec.model_validate(SPEC),
    conversion=Conversion(),
    files={},
    device="cpu",
    threads=2,
    source_max_bytes=len(SOURCE),
    budget_most_s=MOST_S,
).model_dump(mode="json")


def main() -> None:
    print(f"{'tier':<24} {'warm':>8} {'cold':>9} {'share':>7} {'memory of a job':>16}")
    for tier in [*choose_tier.tiers_that_hold(), Tier.NONE]:
        cold_s = statistics.median(to_user_code_cold(tier) for _ in range(COLD_ROUNDS))
        with zygote(tier) as warm_zygote:
            warm_s = statistics.median([*warm(warm_zygote)][1:])
            job_bytes = statistics.median(memory_of_job(warm_zygote) for _ in range(JOBS))
        print(
            f"{tier.value:<24} {warm_s * 1000:>5.1f} ms {cold_s * 1000:>6.0f} ms {warm_s / cold_s:>7.2%}"
            f" {job_bytes / MIB:>12.1f} MiB"
        )
    print(f"{'aim: under':<24} {WARM_MOST_MS:>5} ms {'':>9} {WARM_MOST_SHARE:>7.0%} {JOB_MOST_MIB:>12} MiB")


def zygote(tier: Tier) -> Zygote:
    modules = ["workers.programs.tracer_warmup", "workers.programs.tracer", "programs.holds"]
    return Zygote(modules, path=[HERE], tier=tier, forks_max=sys.maxsize)


def warm(warm_zygote: Zygote) -> Iterator[float]:
    for _ in range(WARM_ROUNDS):
        began = time.monotonic()
        yield to_user_code(warm_zygote, began)


def to_user_code_cold(tier: Tier) -> float:
    began = time.monotonic()
    with zygote(tier) as cold_zygote:
        return to_user_code(cold_zygote, began)


def to_user_code(forking: Zygote, began: float) -> float:
    """All processes of a machine share this clock."""
    with forking.fork("workers.programs.tracer", LIMITS) as child:
        child.channel.send(TRACE)
        while not child.log.text().strip():
            child.channel.receive_header()
        return float(child.log.text().split()[0]) - began


def memory_of_job(forking: Zygote) -> float:
    """What it holds beside the pages that it shares with the zygote, once it has traced."""
    with forking.fork("programs.holds", LIMITS) as child:
        child.channel.send(TRACE)
        child.channel.receive()
        return private_bytes(child)


def private_bytes(child: Child) -> float:
    lines = Path(f"/proc/{child.pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


if __name__ == "__main__":
    main()
