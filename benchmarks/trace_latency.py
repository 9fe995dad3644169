"""How long a trace takes, from POST to its end, beside torch.jit.trace with its check in a plain process; and where
the time of one request goes, step by step and process by process.

Both sides run in turn within one run of this program, and the figures are ratios, because machines are noisy.
The plain process has its packages imported already, as the warm service has (PRELOAD).
A warm service is to take no longer than 1.5 times plain torch and 1 s for the same, a trace that is compared on its
example (`probes: off`): the column "at most". The last column is what it takes with the whole check.
The steps are those of docs/performance.md. They are shares by the clock, of one request in a service that is warm.

    make bench
    .venv/bin/python benchmarks/trace_latency.py --steps
"""

import argparse
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.service_process import MODELS, service
from benchmarks.trace_requests import Done, requests

ROUNDS = 7
SHARE_SHOWN = 0.001  # of a request's time: steps with less are not printed

LINEAR = "import torch\n\n\ndef linear():\n    return torch.nn.Linear(16, 16)\n"
PLAIN = """\
import runpy, sys, time
sys.path.insert(0, sys.argv[1])
runpy.run_path(sys.argv[1] + "/preload.py")
import torch
from resnet18 import resnet18
torch.set_num_threads(2)
makers = {"linear": lambda: torch.nn.Linear(16, 16), "resnet18": resnet18}
shapes = {"linear": (1, 16), "resnet18": (1, 3, 224, 224)}
torch.jit.trace(makers["resnet18"]().eval(), torch.zeros(shapes["resnet18"]))  # the first trace of a process pays extra
print("ready", flush=True)
for line in sys.stdin:
    name = line.strip()
    model, example = makers[name]().eval(), torch.randn(shapes[name])
    began = time.perf_counter()
    torch.jit.trace(model, example)
    print(time.perf_counter() - began, flush=True)
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", action="store_true", help="print only where the time of one request goes")
    if not options.parse_args().steps:
        measure_latency()
    measure_steps()


def measure_latency() -> None:
    with service() as address:
        plain = start_plain()
        try:
            report(httpx.Client(base_url=address, timeout=120), plain)
        finally:
            plain.terminate()


def sources() -> dict[str, tuple[dict[str, str], str, list[int]]]:
    """Return the files, the entrypoint and the example's shape by model."""
    return {
        "linear": ({"linear.py": LINEAR}, "linear:linear", [1, 16]),
        "resnet18": (
            {name: (MODELS / name).read_text() for name in ("resnet18.py", "torchvision_operators.py")},
            "resnet18:resnet18",
            [1, 3, 224, 224],
        ),
    }


def report(client: httpx.Client, plain: "subprocess.Popen[str]") -> None:
    print(f"median of {ROUNDS} rounds, in turn")
    print(f"{'model':<10} {'plain torch':>12} {'service':>10} {'ratio':>7} {'at most':>10} {'checked':>10}")
    for name, (files, entrypoint, shape) in sources().items():
        torch_s, service_s, checked_s = [], [], []
        for round_number in range(ROUNDS + 1):
            torch_s.append(measure_plain(plain, name))
            for probes, seconds in (("off", service_s), ("auto", checked_s)):
                began = time.perf_counter()
                submit(client, name, files, entrypoint, shape, round_number, probes)
                seconds.append(time.perf_counter() - began)
        # The first round finds caches cold on both sides.
        ours, theirs, checked = (statistics.median(seconds[1:]) for seconds in (service_s, torch_s, checked_s))
        most = 1.5 * theirs + 1
        print(
            f"{name:<10} {theirs * 1000:>9.0f} ms {ours * 1000:>7.0f} ms {ours / theirs:>7.2f} {most * 1000:>7.0f} ms"
            f" {checked * 1000:>7.0f} ms"
        )


def submit(
    client: httpx.Client, name: str, files: dict[str, str], entrypoint: str, shape: list[int], seed: int, probes: str
) -> None:
    spec = make_spec(name, files, entrypoint, shape, seed, probes)
    answer = client.post("/trace", json=spec, headers={"prefer": "wait=60"}).raise_for_status().json()
    if answer["verdict"] != "verified":
        sys.exit(f"{name}: {answer['state']}, {answer['verdict']}, {answer['problem']}")


def make_spec(
    name: str, files: dict[str, str], entrypoint: str, shape: list[int], seed: int, probes: str
) -> dict[str, Any]:
    return {
        "model": name,
        "source": {"files": files, "entrypoint": entrypoint},
        "example_inputs": [{"datatype": "FP32", "shape": shape, "random": {"seed": 0}}],
        "options": {"seed": seed},
        "check": {"probes": probes},
    }


class LastEnd(logging.Handler):
    """Keeps what the worker logged last when a trace ended."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.ended: Mapping[str, Any] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "trace ended":
            self.ended = record.__dict__


def measure_steps() -> None:
    """Print where the time of one request goes: the second of each model, because the first finds caches cold."""
    last_end, log = LastEnd(), logging.getLogger("workers.worker")
    log.addHandler(last_end)
    log.setLevel(logging.INFO)
    with requests(MODELS / "preload.py") as worker:
        for name, (files, entrypoint, shape) in sources().items():
            for seed in range(2):
                done = worker.do(make_spec(name, files, entrypoint, shape, seed, "auto"))
                if done.artifact is None:
                    sys.exit(f"{name}: {done.failure}")
            print_steps(name, done, last_end.ended)


def print_steps(name: str, done: Done, ended: Mapping[str, Any]) -> None:
    assert done.artifact is not None
    layers = {f"layer {layer.name}": layer.seconds for layer in done.artifact.check.layers}
    own, reported = dict(ended["steps"]), ended["tracer_steps"]
    waited_s = own.pop("tracer")
    in_tracer = {step: seconds for step, seconds in reported.items() if step != "layers"} | layers
    in_tracer["start, and waits"] = waited_s - sum(reported.values())
    outside_s = done.seconds - sum(layers.values())
    print(f"\n{name}: {done.seconds:.2f} s by the clock, {outside_s:.2f} s of it outside the layers")
    for title, steps in (("while the tracer runs", in_tracer), ("after it", own)):
        print(f"  {title}")
        for step, seconds in steps.items():
            if seconds >= SHARE_SHOWN * done.seconds:
                print(f"    {step:<40} {seconds * 1000:>7.0f} ms {100 * seconds / done.seconds:>5.1f} %")
    used = ", ".join(f"{program} {seconds:.2f} s" for program, seconds in ended["processes_cpu_s"].items())
    print(f"  processor time: {used}")


def measure_plain(plain: "subprocess.Popen[str]", name: str) -> float:
    assert plain.stdin is not None
    assert plain.stdout is not None
    plain.stdin.write(name + "\n")
    plain.stdin.flush()
    return float(plain.stdout.readline())


def start_plain() -> "subprocess.Popen[str]":
    plain = subprocess.Popen(
        [sys.executable, "-c", PLAIN, str(MODELS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert plain.stdout is not None
    plain.stdout.readline()
    return plain


if __name__ == "__main__":
    main()
