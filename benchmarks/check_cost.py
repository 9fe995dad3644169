"""What a check costs as a model becomes deeper, becomes wider, or takes inputs of more free sizes.

Each check is `tracehouse.check` of a model on its example, on one thread, in this process. The seconds are processor
time, and stand beside those of plain `torch.jit.trace` with its own check. A bench prints a table and, as the text of a
chart that GitHub draws (Mermaid), the picture in docs/performance.md:

    nice python benchmarks/check_cost.py [--only depth] [--rounds 3]
"""

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch import nn  # noqa: E402

import tracehouse  # noqa: E402

ROUNDS = 3
BUDGET_S = 120.0  # large enough that no check is cut


class Encoder(nn.Module):
    """A transformer's encoder of equal layers, over a batch of sequences."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        encoded: torch.Tensor = self.layers(x)
        return encoded


class Mixer(nn.Module):
    """Layers on the last dim, and a mean over each other dim: all sizes but the last one are free."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.last(self.first(x).relu())
        for dim in range(1, x.dim() - 1):
            mixed = mixed - mixed.mean(dim, keepdim=True)
        return mixed


@dataclass(frozen=True)
class Bench:
    """Models of growing size: `make` returns a model and its example for each of the numbers."""

    title: str
    numbers: Sequence[int]
    make: Callable[[int], tuple[nn.Module, torch.Tensor]]


BENCHES = {
    "depth": Bench("layers", (6, 12, 24, 48), lambda depth: (Encoder(depth, 64), torch.randn(2, 16, 64))),
    "width": Bench("width", (64, 128, 256, 512), lambda width: (Encoder(6, width), torch.randn(2, 16, width))),
    "symbols": Bench(
        "free sizes", (1, 2, 3, 4, 5), lambda count: (Mixer(), torch.randn(2, *(3, 4, 5, 6)[: count - 1], 8))
    ),
}


def main() -> None:
    """Print each bench's table and chart."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default=",".join(BENCHES), help="these benches, separated by commas")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    given = options.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    _measure(Encoder(1, 64), torch.randn(2, 16, 64))  # what the first check imports is no part of the others
    for name in given.only.split(","):
        _run(BENCHES[name], given.rounds)


def _run(bench: Bench, rounds: int) -> None:
    print(f"| {bench.title} | check, s | beside the first | plain torch.jit.trace, s | verdict |")
    print("| ---: | ---: | ---: | ---: | --- |")
    checks: list[float] = []
    for number in bench.numbers:
        measured = [_measure(*bench.make(number)) for _ in range(rounds)]
        check_s = statistics.median(check_s for check_s, _, _ in measured)
        plain_s = statistics.median(plain_s for _, plain_s, _ in measured)
        checks.append(check_s)
        print(
            f"| {number} | {check_s:.2f} | {check_s / checks[0]:.2f} | {plain_s:.2f} | {measured[0][2]} |", flush=True
        )
    print(f'\n```mermaid\nxychart-beta\n    title "Processor seconds of a check over {bench.title}"')
    print(f'    x-axis "{bench.title}" [{", ".join(map(str, bench.numbers))}]')
    print(f'    y-axis "seconds" 0 --> {max(checks) * 1.1:.1f}')
    print(f"    line [{', '.join(f'{seconds:.2f}' for seconds in checks)}]\n```\n")


def _measure(model: nn.Module, example: torch.Tensor) -> tuple[float, float, str]:
    """Return the processor seconds of a check and of a plain trace, and the check's verdict."""
    model = model.eval()
    began = time.thread_time()
    report = tracehouse.check(model, (example,), budget_s=BUDGET_S, strict=False)
    checked = time.thread_time()
    with torch.no_grad():
        torch.jit.trace(model, (example,))
    return checked - began, time.thread_time() - checked, str(report.verdict)


if __name__ == "__main__":
    main()
