"""Encoders that look at the values of their padding mask are checked without torch's fast paths, and say so."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

import tracehouse
from tracehouse.check.fast_path_trials import try_fast_paths
from tracehouse.check.oracle import EagerOracle
from tracehouse.eager.call import CheckCall, bind
from tracehouse.eager.model import LoadedModel
from tracehouse.findings.kinds import Kind
from tracehouse.findings.verdict import Verdict

BUDGET_S = 120.0
FORMS = {
    "right": [[False, False, False, False], [False, False, True, True]],
    "left": [[True, True, False, False], [True, False, False, False]],
    "scattered": [[False, True, False, True], [True, False, False, False]],
    "none": [[False] * 4, [False] * 4],
}
X = torch.linspace(-1, 1, 32).reshape(2, 4, 4)


class Encoder(nn.Module):
    def __init__(self, activation: str | nn.Module = "relu", *, nested: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, activation=activation)  # type: ignore[arg-type]
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=nested)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        return self.encoder(x, src_key_padding_mask=padding)  # type: ignore[no-any-return]


class MeanOfAll(Encoder):
    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        return super().forward(x, padding).mean(1)


class Scales(Encoder):
    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        y = super().forward(x, padding)
        return y * 2 if padding.any() else y


class LastOfAll(Encoder):
    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        return super().forward(x, padding)[:, -1]


class FirstOfAll(Encoder):
    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        return super().forward(x, padding)[:, 0]


class MeanOfUnpadded(Encoder):
    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        keep = (~padding).unsqueeze(-1)
        return (super().forward(x, padding) * keep).sum(1) / keep.sum(1).clamp(min=1)


class ChannelsFirst(Encoder):
    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        return super().forward(x, padding).transpose(1, 2)


def check(model: nn.Module, form: str = "right") -> tracehouse.Report:
    return tracehouse.check(model.eval(), (X, torch.tensor(FORMS[form])), budget_s=BUDGET_S)


def differs(model: nn.Module, form: str) -> bool:
    """Whether the model gives another answer with fast paths, beside what it may give at padded positions."""
    call = bind(model.eval(), "forward", "forward", (X, torch.tensor(FORMS[form])), {})
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        tried = try_fast_paths(EagerOracle(LoadedModel(model), 0), [CheckCall("a call", call)], 1e-5)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert tried.has_padding == (form != "none")
    return tried.difference is not None


@pytest.fixture(scope="module", params=["right", "left"])
def encoder(request: pytest.FixtureRequest) -> tracehouse.Report:
    return check(Encoder(), request.param)


@pytest.fixture(autouse=True)
def _fast_paths_stay_on() -> Iterator[None]:
    yield
    assert torch.backends.mha.get_fastpath_enabled()


def test_an_encoder_with_a_padding_mask_is_proven_at_all_sizes(encoder: tracehouse.Report) -> None:
    [region] = encoder.contract.methods["forward"].regions

    assert encoder.verdict is Verdict.VERIFIED
    assert region.basis == "proven"
    assert {symbol: span[-1].high for symbol, span in region.spans.items()} == {"batch": 256, "seq": 1024}


def test_a_person_is_told_that_padded_positions_may_differ(encoder: tracehouse.Report) -> None:
    [finding] = encoder.findings

    assert finding.kind == Kind.FAST_PATHS_OFF
    assert "padded positions" in finding.detail
    assert encoder.contract.without_fast_paths
    assert "set_fastpath_enabled(False)" in repr(encoder)
    assert "without its fast paths" in encoder.html()


@pytest.mark.parametrize("form", FORMS)
def test_the_trace_agrees_with_fast_paths_where_nothing_is_padded(encoder: tracehouse.Report, form: str) -> None:
    model, padding = Encoder().eval(), torch.tensor(FORMS[form])
    with torch.no_grad():
        eager, answer = model(X, padding), encoder.artifact(X, padding)

    torch.testing.assert_close(answer[~padding], eager[~padding])


def test_a_model_that_uses_padded_positions_is_rejected() -> None:
    report = check(MeanOfAll(), "none")  # no call that was handed in has padding

    differ = next(one for one in report.findings if one.kind == Kind.FAST_PATHS_DIFFER)
    assert report.verdict is Verdict.REJECTED
    assert "enable_nested_tensor=False" in (differ.remedy or "")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [Encoder, ChannelsFirst, MeanOfUnpadded, FirstOfAll])
def test_other_numbers_at_padded_positions_are_no_other_answer(kind: type[Encoder], form: str) -> None:
    assert not differs(kind(), form)


@pytest.mark.parametrize("kind", [MeanOfAll, LastOfAll])
def test_an_answer_made_of_padded_positions_is_another_answer(kind: type[Encoder]) -> None:
    assert differs(kind(), "right")
    assert differs(kind(), "scattered")
    assert not differs(kind(), "left")


def test_a_layer_whose_code_the_fast_path_leaves_out_gives_another_answer() -> None:
    assert differs(Encoder(nn.GELU(approximate="tanh")), "none")  # the fast path takes the exact GELU
    assert not differs(Encoder(nn.GELU()), "none")


def test_a_branch_on_the_masks_values_is_still_found() -> None:
    report = check(Scales())

    [baked] = [one for one in report.findings if one.kind == Kind.BAKED_VALUE]
    assert report.verdict is Verdict.REJECTED
    assert baked.source == "return y * 2 if padding.any() else y"


def test_an_encoder_that_looks_at_no_mask_keeps_its_fast_path() -> None:
    report = check(Encoder(nested=False))

    assert report.verdict is Verdict.VERIFIED
    assert not report.findings
    assert not report.contract.without_fast_paths
    assert "_transformer_encoder_layer_fwd" in str(report.artifact.inlined_graph)


def test_a_caller_who_turned_fast_paths_off_is_told_nothing() -> None:
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        report = check(Encoder())
        assert not torch.backends.mha.get_fastpath_enabled()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)

    assert report.verdict is Verdict.VERIFIED
    assert not report.findings
