"""Planted faults: how many the comparison finds in archives, and how many untouched archives it takes for wrong.

Each small model is traced in float32 and in bfloat16. In the archive, a constant is moved so far that the output moves
by three times the noise, the largest error of the eager model against its own answer in float64; an operator
gets another operand of the same shape; or a bias is dropped. Eager and the loaded archive are then called on the
example and on a few other inputs, and compared as a verification compares them. An untouched archive is compared as it
was traced, frozen, and optimised for inference.

    python benchmarks/planted_faults.py [--seed 0]
"""

import argparse
import copy
import io
import json
import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from tracehouse.check.calls import call_model
from tracehouse.check.float64_model import Float64Model
from tracehouse.differential.comparison import ComparisonResult
from tracehouse.eager.call import Call, bind
from tracehouse.torch_values import low_precision
from tracehouse.torch_values.compare import compare, compare_three_runs

KEPT = Path(__file__).parents[1] / "tests/corpus/figures.json"
NOISES = 3.0  # how many times the noise a moved constant moves the output
CALLS = 4  # the example, and fresh inputs: the least that a verification compares is three
CONSTANTS = 3  # moved constants of each model
TOLERANCE = 1e-5
DTYPES = (torch.float32, torch.bfloat16)
LIMIT_S = 60.0
# A constant moves by a step between these, of its tensor's standard deviation. Halved so often, in logarithms, the
# interval is narrower than 1 %.
_STEPS, _HALVINGS = (1e-8, 1.0), 11


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(4)), nn.Linear(64, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) - 0.5 * x[..., :32]


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second, self.head = nn.Conv2d(16, 16, 3, padding=1), nn.Linear(16, 32)
        self.norm.running_mean.normal_(0, 0.2)  # type: ignore[union-attr]
        self.norm.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.first(x)).relu()
        return self.head((y - self.second(y)).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.heads = nn.LayerNorm(64), nn.Linear(64, 192)
        self.out = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.heads(self.norm(x)).chunk(3, -1)
        return x - self.out((q @ k.transpose(-1, -2) / 8.0).softmax(-1) @ v)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.cells, self.head = kind(32, 48, batch_first=True), nn.Linear(48, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.cells(x)[0]
        return self.head(y - y.mean(1, keepdim=True))


class NormedMlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(64, 128), nn.LayerNorm(128), nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - self.down(nn.functional.gelu(self.norm(self.up(x))))


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.value, self.out = nn.Linear(64, 96), nn.Linear(64, 96), nn.Linear(96, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.gate(x).sigmoid() - self.value(x))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(32, 32, 3, padding=1), nn.Conv1d(32, 32, 3, padding=1)
        self.norm = nn.GroupNorm(4, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - self.second(self.norm(self.first(x)).tanh())


class Embeds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project, self.encoder = (
            nn.Linear(16, 32),
            nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0),
        )
        self.head = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.project(x)) - x.mean(1, keepdim=True).repeat(1, 1, 2))


class Classifies(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(48, 80), nn.Linear(80, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.hidden(x)
        return self.head(y - y.tanh()).log_softmax(-1)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear stack": (Stack, (16, 64)),
    "convolutions with batch norm": (Convolutions, (8, 3, 12, 12)),
    "attention": (Attention, (4, 12, 64)),
    "lstm": (lambda: Recurrent(nn.LSTM), (4, 10, 32)),
    "gru": (lambda: Recurrent(nn.GRU), (4, 10, 32)),
    "mlp with layer norm": (NormedMlp, (16, 64)),
    "gated": (Gated, (16, 64)),
    "residual convolutions": (Residual, (4, 32, 20)),
    "transformer layer": (Embeds, (4, 12, 16)),
    "classifier": (Classifies, (16, 48)),
}


@dataclass(frozen=True)
class Subject:
    """A model in one dtype, its trace as the bytes of an archive, and the calls that are compared."""

    name: str
    module: nn.Module
    archive: bytes
    calls: list[Call]

    @property
    def precise(self) -> Float64Model:
        return Float64Model(self.module)


def make_subject(name: str, dtype: torch.dtype, seed: int) -> Subject:
    """Return the model of that name with random weights."""
    torch.manual_seed(seed)
    make, shape = MODELS[name]
    module = make().eval().to(dtype)
    inputs = [torch.randn(shape).to(dtype) for _ in range(CALLS)]
    with torch.no_grad():
        traced = torch.jit.trace(copy.deepcopy(module), (inputs[0],), check_trace=False)
    calls = [bind(module, "forward", "forward", (one,), {}) for one in inputs]
    return Subject(name, module, _saved(traced), calls)


def plant(subject: Subject, seed: int) -> Iterator[tuple[str, torch.jit.ScriptModule]]:
    """Yield archives with one fault each, and what the fault is."""
    generator = torch.Generator().manual_seed(seed)
    weights = [name for name, one in _load(subject.archive).named_parameters() if one.dim() > 1]
    chosen = torch.randperm(len(weights), generator=generator)[:CONSTANTS].tolist()
    for index in chosen:
        yield "moved constant", _move(subject, weights[index], generator)
    yield "wrong operand", _swap_operand(subject)
    yield "dropped bias", _drop_bias(subject, generator)


def judge(subject: Subject, archive: torch.jit.ScriptModule, *, fixed: bool = False) -> ComparisonResult:
    """Return the first comparison of the calls that does not agree, or the last one."""
    result = ComparisonResult(0.0, None)
    for call in subject.calls:
        eager = call_model(subject.module, call, 0).outputs
        with torch.no_grad():
            answer = archive(*call.tensors.values())
        if fixed:
            result = compare(eager, answer, TOLERANCE)
        else:
            result = compare_three_runs(eager, answer, _asking(subject, call), TOLERANCE)
        if not result.agrees:
            break
    return result


def forms_of(subject: Subject) -> Iterator[tuple[str, torch.jit.ScriptModule]]:
    """Yield the untouched archive in the forms that are served."""
    yield "as traced", _load(subject.archive)
    yield "frozen", torch.jit.freeze(_load(subject.archive))
    yield "optimised for inference", torch.jit.optimize_for_inference(_load(subject.archive))


def noise_of(subject: Subject) -> float:
    """Return the largest error of the eager model's answer to the example, against float64."""
    call = subject.calls[0]
    exact = subject.precise.outputs(call, 0, within_s=LIMIT_S)
    return float((call_model(subject.module, call, 0).outputs.double() - exact).abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description="How many planted faults the comparison finds.")
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    warnings.simplefilter("ignore")
    low_precision.leave_broken_tiles_out()
    planted, found, found_fixed, alarms, untouched = Counter(), Counter(), Counter(), 0, 0  # type: ignore[var-annotated]
    for dtype in DTYPES:
        for place, name in enumerate(MODELS):
            subject = make_subject(name, dtype, seed + place)
            for fault, archive in plant(subject, seed + place):
                key = fault, str(dtype)
                planted[key] += 1
                found_fixed[key] += not judge(subject, archive, fixed=True).agrees
                is_found = not judge(subject, archive).agrees
                found[key] += is_found
                if not is_found:
                    print(f"missed: {fault} in {name}, {dtype}")
            for form, archive in forms_of(subject):
                untouched += 1
                if not (result := judge(subject, archive)).agrees:
                    alarms += 1
                    print(f"false alarm: {name}, {form}, {dtype}: {result.difference}")
    for key in planted:
        print(f"{key[0]:16} {key[1]:16} {found[key]:3} of {planted[key]:3} found; fixed tolerance {found_fixed[key]:3}")
    now = {"planted": sum(planted.values()), "found": sum(found.values()), "false_alarms": alarms}
    print(f"{now['found']} of {now['planted']} faults found (fixed tolerance: {sum(found_fixed.values())}); ", end="")
    print(f"{alarms} false alarms on {untouched} untouched archives")
    if worse := is_worse(now, json.loads(KEPT.read_text())["planted faults"]):
        sys.exit(worse)


def is_worse(now: Mapping[str, int], kept: Mapping[str, int]) -> str | None:
    """Return how these figures are worse than those that are kept, if they are."""
    if now["found"] * kept["planted"] < kept["found"] * now["planted"]:
        return f"{now['found']} of {now['planted']} found; it was {kept['found']} of {kept['planted']}"
    if now["false_alarms"] > kept["false_alarms"]:
        return f"{now['false_alarms']} false alarms; it was {kept['false_alarms']}"
    return None


def _asking(subject: Subject, call: Call) -> Callable[[], Any]:
    return lambda: subject.precise.outputs(call, 0, within_s=LIMIT_S)


def _move(subject: Subject, name: str, generator: torch.Generator) -> torch.jit.ScriptModule:
    """Return the archive with this weight moved until the output has moved by so many times the noise."""
    target = NOISES * noise_of(subject)
    call = subject.calls[0]
    exact = subject.precise.outputs(call, 0, within_s=LIMIT_S)
    weight = subject.module.get_parameter(name).detach()
    direction = torch.randn(weight.shape, generator=generator).to(weight.dtype) * weight.std()
    moved = copy.deepcopy(subject.module)
    # The least step that moves the output far enough. In bfloat16 a small step moves few of the numbers, so the output
    # may leap over what it is to be.
    small, step = _STEPS
    for _ in range(_HALVINGS):
        between = math.sqrt(small * step)
        moved.get_parameter(name).data = weight + between * direction
        change = float((Float64Model(moved).outputs(call, 0, within_s=LIMIT_S) - exact).abs().max())
        if change < target:
            small = between
        else:
            step = between
    archive = _load(subject.archive)
    dict(archive.named_parameters())[name].data.copy_(weight + step * direction)
    return archive


def _swap_operand(subject: Subject) -> torch.jit.ScriptModule:
    """Return the archive whose first subtraction has its operands exchanged."""
    archive = _load(subject.archive)
    node = archive.graph.findNode("aten::sub")
    first, second = [*node.inputs()][:2]
    node.replaceInput(0, second)
    node.replaceInput(1, first)
    return _load(_saved(archive))


def _drop_bias(subject: Subject, generator: torch.Generator) -> torch.jit.ScriptModule:
    archive = _load(subject.archive)
    biases = [one for name, one in archive.named_parameters() if "bias" in name and one.abs().max() > 0]
    biases[int(torch.randint(len(biases), (1,), generator=generator))].data.zero_()
    return archive


def _saved(module: torch.jit.ScriptModule) -> bytes:
    file = io.BytesIO()
    torch.jit.save(module, file)
    return file.getvalue()


def _load(archive: bytes) -> torch.jit.ScriptModule:
    module: torch.jit.ScriptModule = torch.jit.load(io.BytesIO(archive))
    return module.eval()


if __name__ == "__main__":
    main()
