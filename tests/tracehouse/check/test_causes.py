"""Causes: each finding's counterexample fails before its line is mended and passes after, whatever else is wrong.

Each model here is a text with several mistakes. `WRONG  #A# RIGHT` is a line and what it is once mended.
"""

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tracehouse
from tracehouse.findings.kinds import BAKED, Kind

BUDGET_S = 120.0


def _write(body: str, init: str = "pass") -> str:
    """Return the source of a model: the parameters of its forward, and its lines."""
    parameters, *lines = body.splitlines()
    return "\n".join([
        "import torch", "from torch import nn", "", "class M(nn.Module):", "    def __init__(self):",
        "        super().__init__()", f"        {init}", f"    def forward(self, {parameters}):",
        *(f"        {line}" for line in lines), "",
    ])  # fmt: skip


def noise(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


TWO_CAUSES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "two conditions on one input": (
        _write("""x
y = x * 2 if x.sum() > 0 else x - 1  #A# y = torch.where(x.sum() > 0, x * 2, x - 1)
return y + 1 if x.max() > 3 else y * 5  #B# return torch.where(x.max() > 3, y + 1, y * 5)
"""),
        (torch.tensor([[1.0, 2.0], [3.0, 4.0]]),),
    ),
    "two inputs": (
        _write("""x, z
y = x * 2 if x.sum() > 0 else x - 1  #A# y = torch.where(x.sum() > 0, x * 2, x - 1)
return y + z if z.mean() > 1 else y - z  #B# return torch.where(z.mean() > 1, y + z, y - z)
"""),
        (torch.ones(2, 3), torch.full((2, 3), 2.0)),
    ),
    "a value and a size": (
        _write("""x
y = x * 2 if x.sum() > 0 else x - 1  #A# y = torch.where(x.sum() > 0, x * 2, x - 1)
return y / int(x.shape[0])  #B# return y / x.shape[0]
"""),
        (torch.ones(3, 4),),
    ),
    "two sizes": (
        _write("""x
y = x / int(x.shape[0])  #A# y = x / x.shape[0]
return y + int(x.shape[1])  #B# return y + x.shape[1]
"""),
        (torch.ones(3, 4),),
    ),
    "an item and a condition": (
        _write("""x
y = x * x[0, 0].item()  #A# y = x * x[0, 0]
return y + 1 if x[1].sum() > 0 else y * 5  #B# return torch.where(x[1].sum() > 0, y + 1, y * 5)
"""),
        (torch.tensor([[1.0, 2.0], [3.0, 4.0]]),),
    ),
    "a condition and state": (
        _write(
            """x
self.calls += 1  #C# pass
y = x + self.calls  #C# y = x
return y * 2 if x.sum() > 0 else y - 1  #A# return torch.where(x.sum() > 0, y * 2, y - 1)
""",
            "self.calls = 0",
        ),
        (torch.ones(2, 3),),
    ),
    "a list and a condition": (
        _write("""x
w = x[0].tolist()  #A# w = x[0]
y = x * w[1]
return y + 1 if x[1].mean() > 0 else y * 5  #B# return torch.where(x[1].mean() > 0, y + 1, y * 5)
"""),
        (torch.tensor([[1.0, 2.0], [3.0, 4.0]]),),
    ),
    "a harmless read first": (
        _write("""x
if x.isnan().any(): raise ValueError('nan')
y = x / int(x.shape[0])  #B# y = x / x.shape[0]
return y * 2 if x.sum() > 0 else y - 1  #A# return torch.where(x.sum() > 0, y * 2, y - 1)
"""),
        (torch.ones(2, 3),),
    ),
    "one condition twice": (
        _write("""x
y = x * 2 if x.sum() > 0 else x - 1  #A# y = torch.where(x.sum() > 0, x * 2, x - 1)
return y + 1 if x.sum() > 0 else y * 5  #B# return torch.where(x.sum() > 0, y + 1, y * 5)
"""),
        (torch.ones(2, 2),),
    ),
    "three conditions": (
        _write("""x
y = x * 3 if x[0, 0] > 0 else x * 7  #A# y = torch.where(x[0, 0] > 0, x * 3, x * 7)
z = y * 2 if x[0, 1] > 0 else y - 1  #B# z = torch.where(x[0, 1] > 0, y * 2, y - 1)
return z.sum() if x[1, 1] > 10 else z.sum() + 4  #C# return torch.where(x[1, 1] > 10, z.sum(), z.sum() + 4)
"""),
        (torch.tensor([[1.0, 2.0], [3.0, 4.0]]),),
    ),
    "a loop over a size and an item": (
        _write("""x
y = x
for _ in range(x.shape[0]): y = y + 1  #A# y = y + x.shape[0]
return y * int(x[0, 0])  #B# return y * torch.trunc(x[0, 0])
"""),
        (torch.full((3, 2), 2.0),),
    ),
    "a condition on a size and one on values": (
        _write("""x
y = x * 2 if x.shape[0] > 2 else x - 1  #A# y = x * 2
return y + 1 if x.sum() > 0 else y * 5  #B# return torch.where(x.sum() > 0, y + 1, y * 5)
"""),
        (torch.ones(3, 2),),
    ),
    "numpy and a condition": (
        _write("""x
y = x + float(x.detach().numpy()[0, 0])  #A# y = x + x[0, 0]
return y * 2 if x[1, 1] > 0 else y - 1  #B# return torch.where(x[1, 1] > 0, y * 2, y - 1)
"""),
        (torch.tensor([[1.0, 2.0], [3.0, 4.0]]),),
    ),
    "two integers": (
        _write("""x, n
y = x[:, :int(n[0])]  #A# y = x * (torch.arange(4) < n[0])
return y.sum() * 2 if n[1] > 2 else y.sum() - 1  #B# return torch.where(n[1] > 2, y.sum() * 2, y.sum() - 1)
"""),
        (torch.ones(2, 4), torch.tensor([3, 5])),
    ),
}
REAL: dict[str, tuple[str, tuple[Any, ...]]] = {
    "a keypoint matcher": (
        """import torch
from torch import nn

class M(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.proj = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.conf = nn.ModuleList(nn.Linear(8, 1) for _ in range(4))

    def check_if_stop(self, conf0, conf1, n):
        c = torch.cat([conf0, conf1], -1)
        ratio = 1.0 - (c < 0.6).float().sum() / n
        return ratio > 0.95

    def forward(self, d0, d1):
        b, m, _ = d0.shape
        n = d1.shape[1]
        assert d0.shape[-1] == 8
        if d0.isnan().any():
            raise ValueError("nan")
        i = 0
        for i in range(4):
            d0 = d0 + self.proj[i](d0)
            d1 = d1 + self.proj[i](d1)
            if i == 3:
                continue
            c0 = torch.sigmoid(self.conf[i](d0)).squeeze(-1)
            c1 = torch.sigmoid(self.conf[i](d1)).squeeze(-1)
            if self.check_if_stop(c0, c1, m + n):  # wrong
                break
            keep = torch.where(c0[0] > 0.3)[0]
            d0 = d0.index_select(1, keep)
        scores = d0 @ d1.transpose(1, 2)
        return scores.softmax(-1).sum((1, 2)), torch.tensor(i)
""",
        (noise(1, 6, 8), noise(1, 5, 8, seed=2)),
    ),
    "a length regulator": (
        """import torch
from torch import nn

class M(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.duration = nn.Linear(4, 1)

    def forward(self, x, lengths):
        max_len = int(lengths.max())
        if max_len > 1000:
            raise ValueError("too long")
        log_d = self.duration(x).squeeze(-1)
        d = torch.clamp(torch.round(torch.exp(log_d)), min=1).long()
        out = []
        for row, times in zip(x, d):
            out.append(torch.cat([v.expand(int(t), -1) for v, t in zip(row, times)]))  # wrong
        longest = max(one.shape[0] for one in out)
        return torch.stack([nn.functional.pad(one, (0, 0, 0, longest - one.shape[0])) for one in out])
""",
        (noise(2, 5, 4), torch.tensor([5, 3])),
    ),
    "repeated frames": (
        """import torch
from torch import nn

class M(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.duration = nn.Linear(4, 1)

    def forward(self, x, lengths):
        max_len = lengths.max().item()
        assert max_len <= 1000
        d = torch.clamp(torch.round(torch.exp(self.duration(x[0]).squeeze(-1))), min=1).long()
        total = int(d.sum())  # wrong
        out = torch.repeat_interleave(x[0], d, dim=0)
        return out[:total] * torch.arange(total).unsqueeze(-1)
""",
        (noise(1, 5, 4), torch.tensor([5])),
    ),
    "a step of a language model": (
        """import torch
from torch import nn

class M(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.emb = nn.Embedding(20, 8)
        self.q = nn.Linear(8, 8)
        self.register_buffer("k", torch.zeros(16, 8))
        self.register_buffer("mask", torch.tril(torch.ones(16, 16, dtype=torch.bool)))

    def forward(self, ids, input_pos):
        x = self.emb(ids)
        k = self.k.clone()
        k[input_pos] = self.q(x)
        att = self.q(x) @ k.T
        att = att.masked_fill(~self.mask[input_pos], -1e9)
        if input_pos[-1] >= 8:  # wrong
            att = att * 0.5
        return att.softmax(-1) @ k
""",
        (torch.tensor([1, 2, 3]), torch.tensor([0, 1, 2])),
    ),
    "a pruner": (
        """import torch
from torch import nn

class M(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.gate = nn.Linear(4, 1)

    def forward(self, x):
        keep = torch.sigmoid(self.gate(x)).squeeze(-1) > 0.5
        if not keep.any():  # wrong
            return x.sum(0)
        n = len(x)
        kept = x[keep]
        if n > 3 and len(kept) > 2:  # wrong
            kept = kept * 2
        return kept.sum(0)
""",
        (noise(6, 4),),
    ),
    "a beam": (
        """import torch
from torch import nn

class M(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.out = nn.Linear(4, 6)

    def forward(self, h):
        logits = self.out(h)
        width = int(h.shape[0])
        if torch.isinf(logits).any():  # wrong
            logits = logits.clamp(-1e4, 1e4)
        best = int(logits[0].argmax())  # wrong
        if best == 0:
            return logits / width
        return logits.roll(best, -1) / width
""",
        (noise(3, 4),),
    ),
}
# A step with a cache: the check of its positions is harmless.
NO_LINE: tuple[str, tuple[Any, ...]] = (
    """import torch
from torch import nn

class M(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.emb = nn.Embedding(20, 8)
        self.q = nn.Linear(8, 8)
        self.register_buffer("k", torch.zeros(16, 8))
        self.register_buffer("mask", torch.tril(torch.ones(16, 16, dtype=torch.bool)))

    def forward(self, ids, input_pos):
        assert input_pos.max() < 16
        x = self.emb(ids)
        self.k[input_pos] = self.q(x)
        att = self.q(x) @ self.k.T
        att = att.masked_fill(~self.mask[input_pos], -1e9)
        return att.softmax(-1) @ self.k
""",
    (torch.tensor([1, 2, 3]), torch.tensor([0, 1, 2])),
)


Model = torch.nn.Module


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Model]:
    # Python takes the bytecode of a file for that of another text of the same length, written in the same second.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(name: str, text: str) -> Model:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        made: Model = module.M().eval()
        return made

    return load


def mend(text: str, mark: str) -> str:
    """Return the text with the right code in the lines that have this mark."""
    return re.sub(rf"^( *).*?  #{mark}# (.*)$", r"\1\2", text, flags=re.MULTILINE)


def is_wrong(model: Callable[[], Model], example: tuple[Any, ...], call: tuple[torch.Tensor, ...]) -> bool:
    """Whether a trace on the example answers the call otherwise than the model does."""
    with torch.no_grad():
        traced = torch.jit.trace(model(), example, check_trace=False)
        expected = model()(*(tensor.clone() for tensor in call))
        try:
            torch.testing.assert_close(traced(*call), expected, rtol=1e-4, atol=1e-5)
        except (AssertionError, RuntimeError):
            return True
    return False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TWO_CAUSES)
def test_a_counterexample_fails_until_the_line_of_its_finding_alone_is_mended(load: Any, name: str) -> None:
    text, example = TWO_CAUSES[name]
    report = tracehouse.check(load("net", text), example, budget_s=BUDGET_S)
    lines = text.splitlines()
    found = [one for one in report.findings if one.kind in BAKED and one.line is not None]
    marks = {one.line: mark[1] for one in found if one.line and (mark := re.search(r"#(\w)#", lines[one.line - 1]))}

    assert sorted(marks.values()) == sorted(set(re.findall(r"#([AB])#", text)) | (set(marks.values()) & {"C"}))
    for finding in found:
        assert finding.line is not None
        assert finding.evidence["line_known_by"]
        assert finding.counterexample is not None
        call = tuple(map(torch.from_numpy, report.counterexamples[finding.counterexample].inputs.values()))
        mended = mend(text, marks[finding.line])
        assert is_wrong(lambda: load("net", text), example, call)
        if not finding.evidence.get("mend_also"):
            assert not is_wrong(lambda mended=mended: load("mended", mended), example, call)  # type: ignore[misc]


@pytest.mark.filterwarnings("ignore")
def test_what_one_line_alone_cannot_mend_names_the_other_line(load: Any) -> None:
    text, example = TWO_CAUSES["one condition twice"]
    report = tracehouse.check(load("net", text), example, budget_s=BUDGET_S)

    first = next(one for one in report.findings if one.kind == Kind.BAKED_VALUE and "x * 2" in (one.source or ""))
    assert len(first.evidence["mend_also"]) == 1  # type: ignore[arg-type]
    assert "is mended too" in first.detail
    assert first.counterexample is not None
    call = tuple(map(torch.from_numpy, report.counterexamples[first.counterexample].inputs.values()))
    assert not is_wrong(lambda: load("mended", mend(mend(text, "A"), "B")), example, call)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REAL)
def test_only_lines_that_are_wrong_are_blamed(load: Any, name: str) -> None:
    text, example = REAL[name]
    report = tracehouse.check(load("net", text), example, budget_s=BUDGET_S)
    lines = text.splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if "# wrong" in line}
    kinds = {*BAKED, Kind.OUTPUT_DIFFERS, Kind.OUTPUT_DIFFERS_ELSEWHERE}
    blamed = {one.line for one in report.findings if one.kind in kinds and one.line is not None}
    harmful = {one.line for one in report.findings if one.effect == "harmful"}

    assert blamed
    assert blamed <= wrong
    assert harmful <= wrong


@pytest.mark.filterwarnings("ignore")
def test_a_difference_of_which_no_read_is_the_cause_has_no_line(load: Any) -> None:
    text, example = NO_LINE
    report = tracehouse.check(load("net", text), example, budget_s=BUDGET_S)

    differs = next(one for one in report.findings if one.kind == Kind.OUTPUT_DIFFERS)
    assert (differs.file, differs.line) == (None, None)
    assert "no line known" in differs.detail
    warned = next(one for one in report.findings if one.kind == Kind.TRACER_WARNING)
    assert warned.effect == "harmless"
    assert f"{warned.file}:{warned.line}" not in differs.evidence["candidates"]  # type: ignore[operator]
