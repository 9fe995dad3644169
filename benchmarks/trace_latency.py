"""How long a trace takes, from POST to its end, beside torch.jit.trace with its check in a plain process; and where
the time of one request goes, step by step and process by process.

Both sides run in turn within one run of this program, and the figures are ratios, because machines are noisy.
The plain process has its packages imported already, as the warm service has (PRELOAD). Each request sends the model's
weights, as users do.
A warm service is to take no longer than 1.5 times plain torch and 1 s for the same, a trace that is compared on its
example (`probes: off`): the column "at most". "checked" is what it takes with the whole check, and "aim" the aim for
that on two quiet cores. With `--beside`, the `tracehouse` command of another version does the same.
The steps are those of docs/performance.md. They are shares by the clock, of one request in a service that is warm.

    make bench
    .venv/bin/python benchmarks/trace_latency.py --steps
"""

import argparse
import io
import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.latency_models import LATENCY_MODELS, OWN, WEIGHTS, LatencyModel
from benchmarks.service_process import MODELS, service
from benchmarks.trace_requests import Done, requests

ROUNDS = 3
SHARE_SHOWN = 0.001  # of a request's time: steps with less are not printed

PLAIN = """\
import importlib, json, runpy, sys, time, warnings
warnings.simplefilter("ignore")
sys.path[:0] = sys.argv[1:]
runpy.run_path(sys.argv[1] + "/preload.py")
import torch
torch.set_num_threads(2)

def tensor(given):
    if "data" in given:
        return torch.tensor(given["data"])
    torch.manual_seed(given["random"]["seed"])
    if given["datatype"] == "FP32":
        return torch.randn(given["shape"])
    return torch.randint(given["random"]["low"], given["random"]["high"], given["shape"])

def trace_once(module, factory, args, kwargs):
    model = getattr(importlib.import_module(module), factory)().eval()
    args, kwargs = [tensor(one) for one in args], {name: tensor(one) for name, one in kwargs.items()}
    began = time.perf_counter()
    with torch.no_grad():  # as the service traces, and as torch's check always does
        torch.jit.trace(model, tuple(args) if args else None, example_kwarg_inputs=kwargs or None)
    return time.perf_counter() - began

print("ready", flush=True)
for line in sys.stdin:
    print(trace_once(*json.loads(line)), flush=True)
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", action="store_true", help="print only where the time of one request goes")
    options.add_argument("--only", default=",".join(LATENCY_MODELS), help="these models, separated by commas")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--beside", type=Path, help="the tracehouse command of another version, in its environment")
    given = options.parse_args()
    models = [LATENCY_MODELS[name] for name in given.only.split(",")]
    if not given.steps:
        measure_latency(models, given.rounds, given.beside)
    measure_steps(models)


def measure_latency(models: Sequence[LatencyModel], rounds: int, beside: Path | None) -> None:
    with service() as address, service(beside) if beside else nullcontext() as other:
        plain = start_plain()
        clients = [httpx.Client(base_url=one, timeout=300) for one in (address, other) if one is not None]
        try:
            report(clients, plain, models, rounds)
        finally:
            plain.terminate()


def report(
    clients: Sequence[httpx.Client], plain: "subprocess.Popen[str]", models: Sequence[LatencyModel], rounds: int
) -> None:
    print(f"median of {rounds} rounds, in turn")
    print(
        f"{'model':<10} {'plain torch':>12} {'service':>10} {'ratio':>7} {'at most':>10} {'checked':>10} {'aim':>9}"
        f" {'beside':>10}"
    )
    for model in models:
        weights = model.weights()
        torch_s: list[float] = []
        service_s: list[float] = []
        checked_s: list[list[float]] = [[] for _ in clients]
        for round_number in range(rounds + 1):
            torch_s.append(measure_plain(plain, model))
            service_s.append(measure_request(clients[0], model, weights, round_number, "off"))
            for client, seconds in zip(clients, checked_s, strict=True):
                seconds.append(measure_request(client, model, weights, round_number, "auto"))
        # The first round finds caches cold on both sides.
        theirs, ours, *checked = (statistics.median(seconds[1:]) for seconds in (torch_s, service_s, *checked_s))
        most = 1.5 * theirs + 1
        aim = "" if model.most_s is None else f"{model.most_s * 1000:.0f} ms"
        print(
            f"{model.name:<10} {theirs * 1000:>9.0f} ms {ours * 1000:>7.0f} ms {ours / theirs:>7.2f}"
            f" {most * 1000:>7.0f} ms {checked[0] * 1000:>7.0f} ms {aim:>9}"
            + "".join(f" {other * 1000:>7.0f} ms" for other in checked[1:]),
            flush=True,
        )


def measure_request(client: httpx.Client, model: LatencyModel, weights: bytes, seed: int, probes: str) -> float:
    """Return the seconds from submission to verdict."""
    submission = json.dumps(model.submission(seed, probes, has_weights=True))
    parts = {"request": (None, submission, "application/json"), "files": (WEIGHTS, io.BytesIO(weights))}
    began = time.perf_counter()
    answer = client.post("/trace", files=parts, headers={"prefer": "wait=240"}).raise_for_status().json()
    seconds = time.perf_counter() - began
    if answer["verdict"] != "verified":
        sys.exit(f"{model.name}: {answer['state']}, {answer['verdict']}, {answer['problem']}")
    return seconds


class LastEnd(logging.Handler):
    """Keeps what the worker logged last when a trace ended."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.ended: Mapping[str, Any] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "trace ended":
            self.ended = record.__dict__


def measure_steps(models: Sequence[LatencyModel]) -> None:
    """Print where the time of one request goes: the second of each model, because the first finds caches cold."""
    last_end, log = LastEnd(), logging.getLogger("workers.worker")
    log.addHandler(last_end)
    log.setLevel(logging.INFO)
    with requests(MODELS / "preload.py") as worker:
        for model in models:
            weights = model.weights()
            for seed in range(2):
                done = worker.do(model.submission(seed, has_weights=True), {WEIGHTS: weights})
                if done.artifact is None:
                    sys.exit(f"{model.name}: {done.failure}")
            print_steps(model.name, done, last_end.ended)


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


def measure_plain(plain: "subprocess.Popen[str]", model: LatencyModel) -> float:
    assert plain.stdin is not None
    assert plain.stdout is not None
    args, kwargs = model.inputs.get("example_inputs", []), model.inputs.get("example_kwarg_inputs", {})
    plain.stdin.write(json.dumps([*model.entrypoint.split(":"), args, kwargs]) + "\n")
    plain.stdin.flush()
    return float(plain.stdout.readline())


def start_plain() -> "subprocess.Popen[str]":
    plain = subprocess.Popen(
        [sys.executable, "-c", PLAIN, str(MODELS), str(OWN)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert plain.stdout is not None
    plain.stdout.readline()
    return plain


if __name__ == "__main__":
    main()
