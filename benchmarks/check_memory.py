"""How much memory a check takes: the highest resident memory of its process, as a multiple of the model and one call.

The model counts with the bytes of its parameters and buffers, a call with what resident memory gains while the eager
model answers the example. What the process holds before the model is loaded is left out: it has checked a linear layer
by then, so that the pages of torch that every check uses are there already. "said" is what the check says beforehand
that it needs: three times as much as model and call, and `BESIDE_BYTES` in tracehouse/check/memory_plan.py for Python's
own objects. "trace" is the highest while torch records and saves the trace, before the check begins.

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
    print(f"{'MiB of':<10} {'model':>8} {'call':>8} {'trace':>8} {'check':>8} {'times':>6} {'said':>8}")
    for name in given.only.split(","):
        measured = in_child(lambda name=name: measure(LATENCY_MODELS[name]))
        names = ("model", "call", "trace", "check", "said")
        model, call, trace, check, said = (measured[one] / MIB for one in names)
        times = check / (model + call)
        print(
            f"{name:<10} {model:>8.1f} {call:>8.1f} {trace:>8.1f} {check:>8.1f} {times:>6.2f} {said:>8.1f}", flush=True
        )
        for step, peak in measured["steps"] if given.layers else ():
            print(f"    {step:<20} {peak / MIB:>9.1f}")


def warm() -> None:
    """Import what the service's children find imported."""
    from workers.programs import tracer_warmup  # noqa: F401

    runpy.run_path(str(MODELS / "preload.py"))


def measure(model: LatencyModel) -> dict[str, Any]:
    """Return in bytes what the model has, what a call gains, the highest of each step, and what the check said."""
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
    result = check(loaded, spec, lambda layer: ended(f"layer {layer.name}"), ended)
    ended("rest")
    place = [name for name, _ in steps].index("trace")
    memory = result.check.memory
    return {
        "model": model_bytes,
        "call": max(0, steps[1][1] - at_rest),
        "trace": steps[place][1],
        "check": max(peak for _, peak in steps[place + 1 :]),
        "said": memory.needed_bytes if memory is not None else 0,
        "steps": steps,
    }


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
