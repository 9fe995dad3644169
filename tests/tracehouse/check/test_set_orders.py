"""Sets that a model goes through: Python hashes texts anew in each process, and so their order is another in each."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tracehouse.findings.verdict import Verdict

NAMES = {"query", "key", "value", "gate", "out"}
X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.by_name = nn.ModuleDict({name: nn.Linear(4, 4) for name in sorted(NAMES)})


class GoesThroughASet(Layers):
    def forward(self, x: Tensor) -> Tensor:
        for name in NAMES:
            x = self.by_name[name](x)
        return x


class JoinsWhatTwoHaveInCommon(Layers):
    def forward(self, x: Tensor) -> Tensor:
        common = NAMES & {*self.by_name}
        return torch.cat([self.by_name[name](x) for name in list(common)], -1)


class JoinsTheNamesOfASet(Layers):
    def forward(self, x: Tensor) -> Tensor:
        joined = " ".join(NAMES)
        return self.by_name[joined.split()[0]](x)


class KeepsASetAsKeys(Layers):
    def forward(self, x: Tensor) -> Tensor:
        keys = dict.fromkeys(NAMES)
        return self.by_name[next(iter(keys))](x)


class GoesThroughAddresses(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        addresses = {"http:query", "http:key", "http:gate"}
        for address in addresses:
            x = 2 * x + len(address)
        return x


class GoesThroughASortedSet(Layers):
    def forward(self, x: Tensor) -> Tensor:
        for name in sorted(NAMES):
            x = self.by_name[name](x)
        return x


class AddsUpASet(Layers):
    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.by_name[name](x) for name in NAMES]).sum(0)


class GoesThroughNumbers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for number in (3, 1, 2):
            x = torch.tanh(x * number)
        return x


def test_another_process_has_another_order() -> None:
    orders = {
        subprocess.run(
            [sys.executable, "-c", f"print(*{NAMES!r})"], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(orders) > 1


@pytest.mark.parametrize(("model", "line"), [
    (GoesThroughASet(), "for name in NAMES:"),
    (JoinsWhatTwoHaveInCommon(), "return torch.cat([self.by_name[name](x) for name in list(common)], -1)"),
    (JoinsTheNamesOfASet(), 'joined = " ".join(NAMES)'),
    (GoesThroughAddresses(), "for address in addresses:"),
    (KeepsASetAsKeys(), "keys = dict.fromkeys(NAMES)"),
])  # fmt: skip
def test_an_answer_that_hangs_on_the_order_of_a_set_is_rejected(model: nn.Module, line: str) -> None:
    report = tracehouse.check(model, (X,))

    assert report.verdict is Verdict.REJECTED
    (found,) = [one for one in report.findings if one.kind == "ambient-read"]
    assert (Path(found.file or "").name, (found.source or "").strip()) == (Path(__file__).name, line)
    assert "sorted(...)" in (found.remedy or "")


@pytest.mark.parametrize("model", [GoesThroughASortedSet(), AddsUpASet(), GoesThroughNumbers()])
def test_a_set_whose_order_changes_nothing_is_no_fault(model: nn.Module) -> None:
    assert tracehouse.check(model, (X,)).verdict is Verdict.VERIFIED
