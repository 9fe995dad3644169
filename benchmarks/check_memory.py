"""How much memory a check takes: the highest resident memory of its process, as a multiple of the model and one call.

The model counts with the bytes of its parameters and buffers, a call with what resident memory gains while the eager
model answers the example. What the process holds before the model is loaded is left out: it has checked a linear layer
by then, so that the pages of torch that every check uses are there already. A check may take three times as much as
model and call, and so many MiB beside it as `BESIDE_BYTES` in tracehouse/check/memory_plan.py says, for Python's own
objects: records of calls, graphs, and what is proven.

    .venv/bin/python benchmarks/check_memory.py
    .venv/bin/python benchmarks/check_memory.py --only bert_base --layers
"""

import argparse
import gc
import json
import os
import runpy
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.latency_models import LATENCY_MODELS, LatencyModel
from benchmarks.service_process import MODELS
from tracehouse.byte_units import MIB
from tracehouse.check.check import CheckResult
from tracehouse.check.model_check import ModelCheck
from tracehouse.check.pipeline import RequestedSizes
from tracehouse.eager.submission import LoadedSubmission, SubmissionLoader
from tracehouse.findings.trace_check import Layer
from tracehouse.spec.trace_spec import TraceSpec

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default=",".join(LATENCY_MODELS), help="these models, separated by commas")
    options.add_argument("--layers", action="store_true", help="print the highest of each step too")
    given = options.parse_args()
    warm()
    print(f"{'model':<10} {'model':>9} {'call':>9} {'check':>9} {'times':>6}   in MiB, beside the process itself")
    for name in given.only.split(","):
        measured = in_child(lambda name=name: measure(LATENCY_MODELS[name]))
        model, call, check = (measured[one] / MIB for one in ("model", "call", "check"))
        print(f"{name:<10} {model:>9.1f} {call:>9.1f} {check:>9.1f} {check / (model + call):>6.2f}", flush=True)
        for step, peak in measured["steps"] if given.layers else ():
            print(f"    {step:<20} {peak / MIB:>9.1f}")


def warm() -> None:
    """Import what the service's children find imported."""
    from workers.programs import tracer_warmup  # noqa: F401

    runpy.run_path(str(MODELS / "preload.py"))


def measure(model: LatencyModel) -> dict[str, Any]:
    """Return in bytes what the model has, what a call gains and the check's highest, with that of each step."""
    check_once(LATENCY_MODELS["linear"], lambda _: None)
    gc.collect()
    before = resident("VmRSS")
    spec = TraceSpec.model_validate(model.submission(0))
    loaded = load(spec)
    held = [*loaded.model.module.parameters(), *loaded.model.module.buffers()]
    model_bytes = sum(tensor.nbytes for tensor in {id(one): one for one in held}.values())
    steps: list[tuple[str, int]] = []

    def ended(step: str) -> None:
        steps.append((step, resident("VmHWM") - before))
        CLEAR.write_text("5")  # the highest counts from here on

    ended("load")
    at_rest = resident("VmRSS") - before
    with torch.no_grad():
        next(iter(loaded.calls.values())).clone().run(loaded.model.module)
    ended("one call")
    check(loaded, spec, lambda layer: ended(f"layer {layer.name}"), ended)
    ended("rest")
    highest = max(peak for _, peak in steps[1:])
    return {"model": model_bytes, "call": max(0, steps[1][1] - at_rest), "check": highest, "steps": steps}


def check_once(model: LatencyModel, report: Callable[[Layer], object]) -> None:
    spec = TraceSpec.model_validate(model.submission(0))
    check(load(spec), spec, report, lambda _: None)


def load(spec: TraceSpec) -> LoadedSubmission:
    return SubmissionLoader(spec, spec.conversion, "cpu", {}, source_max_bytes=MIB).load()


def check(
    loaded: LoadedSubmission, spec: TraceSpec, report: Callable[[Layer], object], ended: Callable[[str], object]
) -> CheckResult:
    requested = {method: RequestedSizes(call.dynamic, spec.sizes) for method, call in spec.calls.items()}
    checked = ModelCheck(loaded, spec.conversion, spec.options, spec.check, requested)
    _ = checked.outputs
    ended("first calls")
    candidate = checked.trace().without_archive()  # it is sent by then
    ended("trace")
    return checked.run(candidate, report)


def resident(field: str) -> int:
    """Return the bytes of resident memory (VmRSS), or the most there was (VmHWM)."""
    line = next(one for one in STATUS.read_text().splitlines() if one.startswith(field))
    return int(line.split()[1]) * 1024


def in_child(work: Callable[[], Any]) -> Any:
    """Return what `work` returns in a fork of this process, so that nothing of it stays here."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        os.write(sending, json.dumps(work()).encode())
        os._exit(0)
    os.close(sending)
    with open(receiving, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return json.loads(said)


if __name__ == "__main__":
    main()
