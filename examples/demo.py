"""Traces and serves three models that nobody here wrote, and leaves the service serving.

Each model is built here from its package with random weights; its source and weights are submitted, and what the
service answers is compared with what the model itself computes here. `make demo` runs this.
"""

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson

from service.cli.contract_table import size_lines

HERE = Path(__file__).parent
MODELS = HERE / "models"
ROOT = HERE.parent
GRAPH_LINES = 3
WIDTH = 120


@dataclass(frozen=True)
class Demo:
    """A model, and the example inputs that it is traced on: positional ones in a list, keyword ones in a dict."""

    name: str
    origin: str
    entrypoint: str
    inputs: Callable[[], Any]


def main() -> None:
    client = httpx.Client(base_url=serving_address(), timeout=httpx.Timeout(10, read=600))
    sys.path.insert(0, str(MODELS))
    for demo in demos():
        show(client, demo)
    print(f"\nThe service is still serving. API documentation: {client.base_url.join('/docs')}")
    print(f"Stop it with: kill {pid_file().read_text()}")


def demos() -> list[Demo]:
    import torch

    def image() -> list[Any]:
        return [torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))]

    def sentences() -> dict[str, Any]:
        ids = torch.randint(0, 1000, (2, 16), generator=torch.Generator().manual_seed(0))
        mask = torch.ones(2, 16, dtype=torch.int64)
        mask[1, 10:] = 0  # the second sentence is shorter
        return {"input_ids": ids, "attention_mask": mask}

    return [
        Demo("resnet18", "timm", "resnet18:resnet18", image),
        Demo("bert", "transformers", "bert:bert", sentences),
        Demo("vit", "timm", "vit:vit_tiny_patch16_224", image),
    ]


def show(client: httpx.Client, demo: Demo) -> None:
    print(f"\n=== {demo.name}, from {demo.origin}")
    model, inputs = build(demo), demo.inputs()
    began = time.monotonic()
    request = trace(client, demo, model, inputs)
    seconds = time.monotonic() - began
    if request["state"] != "succeeded":
        sys.exit(f"{demo.name} {request['state']}: {orjson.dumps(request['problem']).decode()}")
    digest = request["artifacts"][0]["digest"]
    graph = client.get(f"/artifacts/{digest}/printouts/inlined_graph").raise_for_status().text.splitlines()
    operators = [cut(line) for line in graph if "= aten::" in line]
    print(*operators[:GRAPH_LINES], f"  … {len(operators) - GRAPH_LINES - 1} more operators …", operators[-1], sep="\n")
    artifact = client.get(f"/artifacts/{digest}").raise_for_status().json()
    print(
        f"verdict: {request['verdict']}, by {len(artifact['check']['comparisons'])} comparisons with the eager model; "
        f"model {demo.name}:{request['model']['version']}, after {seconds:.1f} s"
    )
    print(*size_lines(artifact["contract"]), sep="\n")
    for finding in request["findings"]:
        if finding["effect"] != "harmless":
            where = f"{finding['file']}:{finding['line']}: " if finding["file"] else ""
            print(cut(f"finding: {where}{finding['kind']}: {finding['detail']}"))
    print(f"report: {client.base_url.join(artifact['links']['report'])}")
    infer(client, demo, model, inputs)


def cut(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def build(demo: Demo) -> Any:
    """The model as its package makes it, with weights that are the same on every run."""
    import torch

    module, _, name = demo.entrypoint.partition(":")
    torch.manual_seed(0)
    return getattr(__import__(module), name)().eval()


def trace(client: httpx.Client, demo: Demo, model: Any, inputs: Any) -> Any:
    """Submit source, weights and example inputs; the trace request as it ended."""
    from safetensors.torch import save

    source = (demo.entrypoint.partition(":")[0] + ".py", "torchvision_operators.py")
    kwargs, args = (inputs, []) if isinstance(inputs, dict) else ({}, inputs)
    named = {f"arg{index}": tensor for index, tensor in enumerate(args)} | kwargs
    spec = {
        "model": demo.name,
        "source": {"files": {name: (MODELS / name).read_text() for name in source}, "entrypoint": demo.entrypoint},
        "weights": {"file": "weights.safetensors"},
        "example_inputs": [{"file": "inputs.safetensors", "key": f"arg{index}"} for index in range(len(args))],
        "example_kwarg_inputs": {name: {"file": "inputs.safetensors", "key": name} for name in kwargs},
    }
    weights = io.BytesIO(save({name: tensor.contiguous() for name, tensor in model.state_dict().items()}))
    files: list[tuple[str, Any]] = [
        ("request", ("request.json", orjson.dumps(spec), "application/json")),
        ("files", ("weights.safetensors", weights)),
        ("files", ("inputs.safetensors", save(named))),
    ]
    answer = client.post("/trace", files=files, headers={"prefer": "wait=60"})
    if answer.is_error:
        sys.exit(answer.text)
    request = answer.json()
    while request["state"] in ("queued", "running"):
        time.sleep(0.2)
        request = client.get(request["links"]["self"]).raise_for_status().json()
    return request


def infer(client: httpx.Client, demo: Demo, model: Any, inputs: Any) -> None:
    """Ask the service and the model itself, and say by how much they differ."""
    import torch

    if isinstance(inputs, dict):
        body = {"kwargs": {name: tensor.tolist() for name, tensor in inputs.items()}}
    else:
        body = {"args": [tensor.tolist() for tensor in inputs]}
    began = time.monotonic()
    answer = client.post(
        f"/infer/{demo.name}", content=orjson.dumps(body), headers={"content-type": "application/json"}
    )
    milliseconds = (time.monotonic() - began) * 1000
    if answer.is_error:
        sys.exit(answer.text)
    with torch.no_grad():
        eager = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
    eager = eager if isinstance(eager, tuple) else (eager,)
    outputs = answer.json()["outputs"]
    largest = 0.0
    for output, expected in zip(outputs, eager, strict=True):
        actual = torch.tensor(output["data"], dtype=expected.dtype).reshape(output["shape"])
        largest = max(largest, (actual - expected).abs().max().item())
        values = ", ".join(f"{value:.4f}" for value in output["data"][:3])
        print(f"reply: {output['name']} {output['datatype']} {output['shape']}: [{values}, …]")
    print(f"largest difference from eager: {largest:.1e}, answered in {milliseconds:.0f} ms")


def serving_address() -> str:
    """The address of the demo's service, which is started if it does not run yet."""
    address_file = state_dir() / "address"
    if address_file.exists() and answers(address := address_file.read_text()):
        print(f"the service already runs at {address}")
        return address
    address = start()
    address_file.write_text(address)
    return address


def start() -> str:
    state_dir().mkdir(parents=True, exist_ok=True)
    port = os.environ.get("PORT", "8000")
    log = (state_dir() / "service.log").open("ab")
    service = subprocess.Popen(
        [Path(sys.executable).with_name("tracehouse"), "serve", "--port", port, "--state", state_dir()],
        env=os.environ | {"PRELOAD": str(MODELS / "preload.py")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
        text=True,
    )
    assert service.stdout is not None
    ready = service.stdout.readline()
    if "ready at " not in ready:
        sys.exit(f"the service did not start; {log.name} says why. Is port {port} taken? Try: make demo PORT=8001")
    print(ready.strip())
    pid_file().write_text(str(service.pid))
    return ready.split("ready at ")[1].split()[0]


def answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/livez").is_success
    except httpx.HTTPError:
        return False


def state_dir() -> Path:
    return Path(os.environ.get("DEMO_STATE", ROOT / "state" / "demo"))


def pid_file() -> Path:
    return state_dir() / "pid"


if __name__ == "__main__":
    main()
