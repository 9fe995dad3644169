"""`tracehouse.check` on live models: the report, and that the caller's process is as it was."""

import gc
import itertools
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from types import MethodType
from typing import Any

import numpy as np
import pytest
import torch

import tracehouse
from tracehouse.check.report import ONE_PROCESS
from tracehouse.errors import (
    ArgumentMismatch,
    EntrypointUnusable,
    LimitExceeded,
    ModelExited,
    ModelNotCopyable,
    ModelRaised,
    UntraceableModel,
)
from tracehouse.findings.kinds import Kind
from tracehouse.findings.verdict import Verdict

X = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return self.layer(x)  # type: ignore[no-any-return]
        return -self.layer(x)  # type: ignore[no-any-return]

    def halve(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) / 2  # type: ignore[no-any-return]


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.norm(x) + self.calls  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def linear() -> tracehouse.Report:
    return tracehouse.check(torch.nn.Linear(4, 2).eval(), X)


@pytest.fixture(scope="module")
def branches() -> tracehouse.Report:
    return tracehouse.check(Branches().eval(), (X,))


def test_a_linear_layer_is_verified_for_every_batch(linear: tracehouse.Report) -> None:
    forward = linear.contract.method("forward")

    assert linear.verdict is Verdict.VERIFIED
    assert forward.inputs[0].shape == ("batch", 4)
    assert [(str(region), region.basis) for region in forward.regions] == [("batch 1 to 256", "proven")]
    assert forward.outputs[0].shape == ("batch", 2)
    assert not linear.counterexamples
    assert torch.equal(linear.artifact(X), linear.artifact(X))


def test_a_branch_on_data_is_rejected_at_its_line(branches: tracehouse.Report) -> None:
    [baked] = [finding for finding in branches.findings if finding.kind == Kind.BAKED_VALUE]

    assert branches.verdict is Verdict.REJECTED
    assert (baked.file, baked.source) == (__file__, "if x.sum() > 0:")


def test_a_layer_that_breaks_off_is_said_beside_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no proof")

    monkeypatch.setattr("tracehouse.check.pipeline.prove", fail)
    report = tracehouse.check(torch.nn.Linear(4, 2).eval(), X)
    text = " ".join(repr(report).split())

    assert report.verdict is Verdict.VERIFIED
    incomplete = (
        "but the check is incomplete: not checked to the end, of forward: for which sizes the trace is right, proven "
        "for all of them (that part of the check broke off)"
    )
    assert f"verified, in this process alone, {incomplete}; batch " in text
    assert "were only tested" in text
    assert f"verified, {incomplete}" in report.html()


def test_a_check_without_time_says_so_beside_the_verdict() -> None:
    report = tracehouse.check(torch.nn.Linear(4, 2).eval(), X, budget_s=0.0001)

    assert any(layer.is_cut for layer in report.check.layers)
    assert "in this process alone, but the check is incomplete: " in " ".join(repr(report).split())


def test_a_finding_refers_to_a_counterexample_with_arrays(branches: tracehouse.Report) -> None:
    [baked] = [finding for finding in branches.findings if finding.kind == Kind.BAKED_VALUE]
    assert baked.counterexample is not None
    one = branches.counterexamples[baked.counterexample]

    assert one.inputs["x"].sum() <= 0
    assert not isinstance(one.artifact, str)
    assert not np.allclose(one.eager["output"], one.artifact["output"])
    np.testing.assert_allclose(branches.artifact(torch.tensor(one.inputs["x"])).detach(), one.artifact["output"])


def test_the_text_names_verdict_line_and_what_to_write(branches: tracehouse.Report) -> None:
    text = repr(branches)

    assert text.startswith("Trace check of Branches: rejected, in this process alone\n")
    assert "if x.sum() > 0:" in text
    assert "Remedy: write torch.where(x.sum() > 0, ..., ...)" in text
    assert all(len(line) < 200 for line in text.splitlines())


def test_the_text_has_the_contract(linear: tracehouse.Report) -> None:
    assert "input: FP32 [batch, 4]\n    for batch 1 to 256 (proven)" in repr(linear)


def test_the_text_says_where_the_model_itself_is_not_exact() -> None:
    class Cancels(torch.nn.Module):
        """Two large numbers nearly cancel, and the trace adds the terms of one in another order."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            large = x.repeat(1, 128) * 10
            total = (large.flip(1) if torch.jit.is_tracing() else large).sum(1, keepdim=True)
            return total - x.sum(1, keepdim=True) * 1279.0 + x

    example = torch.randn(512, 8, generator=torch.Generator().manual_seed(0))
    report = tracehouse.check(Cancels(), (example,))

    assert "comparisons agree only as far as the eager model itself is exact" in " ".join(repr(report).split())


class AppliesPython(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).apply_(lambda value: max(value, 0.0))


class AppliesPythonByItsClass(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.Tensor.apply_(x * 2, lambda value: max(value, 0.0))


@pytest.mark.parametrize("kind", [AppliesPython, AppliesPythonByItsClass])
def test_a_python_function_on_each_element_does_not_end_the_process(kind: type[torch.nn.Module]) -> None:
    report = tracehouse.check(kind(), (torch.randn(2, 4),))

    assert report.verdict == "rejected"


class LimitsWhileTraced(torch.nn.Module):
    """A trace of it is wrong on large values alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(-50, 50) if torch._C._get_tracing_state() is not None else x


def test_a_limit_that_a_trace_alone_has_rejects_and_no_size_is_blamed() -> None:
    report = tracehouse.check(LimitsWhileTraced(), (torch.randn(2, 4),))

    assert report.verdict == "rejected"
    kinds = {finding.kind: finding for finding in report.findings}
    assert "baked-size" not in kinds
    assert "_get_tracing_state" in str(kinds["baked-value"].source)


def test_the_page_has_the_verdict_the_source_and_how_far_it_goes(branches: tracehouse.Report) -> None:
    html = branches.html()

    assert "✗ rejected" in html
    assert "if x.sum() &gt; 0:" in html
    assert escape(ONE_PROCESS) in html
    assert 'href="/' not in html


def test_a_compiled_module_is_compared_with_itself_and_not_verified() -> None:
    report = tracehouse.check(torch.jit.script(torch.nn.Linear(4, 2).eval()), X)

    assert report.verdict is Verdict.SELF_CONSISTENT
    assert ": self-consistent, in this process alone\n" in repr(report)
    assert "= self-consistent" in report.html()


def test_a_function_with_keywords() -> None:
    def scale(x: torch.Tensor, *, by: float = 1.0) -> torch.Tensor:
        return x * by

    report = tracehouse.check(scale, X, example_kwarg_inputs={"by": 3.0})

    assert report.verdict is Verdict.VERIFIED
    assert report.name.endswith("scale")
    assert torch.equal(report.artifact(X), X * 3)


def test_a_bound_method_is_checked_in_the_place_of_forward() -> None:
    report = tracehouse.check(Branches().eval().halve, X)

    assert report.verdict is Verdict.VERIFIED
    assert [*report.contract.methods] == ["forward"]


def test_wanted_sizes_that_the_model_refuses_restrict_the_trace() -> None:
    def only_short(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 6:
            raise ValueError("too long")
        return x * 2

    report = tracehouse.check(only_short, X, dynamic={"x": {0: "rows"}}, sizes={"rows": (1, 8)})

    [covered] = report.check.coverage
    [finding] = [finding for finding in report.findings if finding.kind == Kind.SIZES_NOT_COVERED]
    assert report.verdict is Verdict.RESTRICTED
    assert (covered.requested, covered.covered, covered.missing) == (8, 6, {"rows": 7})
    assert "6 of 8 sizes of forward" in finding.detail
    assert "rows 7" in finding.detail
    assert "Coverage: 6 of 8 sizes of forward" in repr(report)
    assert "6 of 8 sizes of forward" in report.html()


def test_declared_sizes_are_the_contracts() -> None:
    report = tracehouse.check(torch.nn.Linear(4, 2).eval(), X, dynamic={"input": {0: "rows"}}, sizes={"rows": (1, 8)})

    assert [str(region) for region in report.contract.method("forward").regions] == ["rows 1 to 8"]


def test_a_check_input_is_compared() -> None:
    report = tracehouse.check(torch.nn.Linear(4, 2).eval(), X, check_inputs=[(-X,), {"input": X[:1]}], budget_s=1.0)

    cases = {one.case: one.agrees for one in report.check.comparisons}
    assert cases["check_inputs[0]"]
    assert cases["check_inputs[1]"]


def test_a_model_in_train_mode_is_checked_in_train_mode() -> None:
    report = tracehouse.check(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)), X)

    assert report.verdict is Verdict.VERIFIED
    assert report.training
    assert "with random answers" in repr(report)


def test_the_callers_model_is_as_it_was() -> None:
    model = Counts()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    report = tracehouse.check(model, X, budget_s=1.0)

    assert report.verdict is Verdict.REJECTED  # it counts its calls
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not hasattr(model, "__signature__")


def test_the_callers_process_is_as_it_was() -> None:
    model, x = Branches().train(), X.clone().requires_grad_()
    for grad in (True, False):
        with torch.set_grad_enabled(grad), warnings.catch_warnings(action="error"), assert_process_unchanged():
            tracehouse.check(model, x, budget_s=1.0)


@contextmanager
def assert_process_unchanged() -> Iterator[None]:
    before = _state()
    yield
    assert _state() == before


def _state() -> list[Any]:
    numpy_state = np.random.get_state(legacy=True)
    return [
        torch.get_rng_state().tolist(),
        random.getstate(),
        [part.tolist() if isinstance(part, np.ndarray) else part for part in numpy_state],
        torch.is_grad_enabled(),
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
        getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None),
        torch.get_float32_matmul_precision(),
        np.geterr(),
        [*warnings.filters],
        gc.get_freeze_count() > 0,
        int,
    ]


def test_what_does_not_fit_the_model_is_refused_with_its_parameters() -> None:
    with pytest.raises(ArgumentMismatch) as refused:
        tracehouse.check(Branches(), example_kwarg_inputs={"y": X})

    assert refused.value.facts["parameters"] == ["x"]


def test_a_model_that_raises_on_its_example_is_refused_at_its_line() -> None:
    with pytest.raises(ModelRaised) as refused:
        tracehouse.check(Branches(), torch.ones(2, 3))

    assert refused.value.facts["source"] == "return self.layer(x)  # type: ignore[no-any-return]"


def test_a_model_that_cannot_be_copied_is_refused_and_never_called() -> None:
    model = Branches()
    model.lock = threading.Lock()  # type: ignore[assignment]

    with pytest.raises(ModelNotCopyable) as refused:
        tracehouse.check(model, X)

    assert refused.value.facts["attributes"] == ["lock"]


@pytest.mark.parametrize("model", [Branches, 3])
def test_a_class_and_what_cannot_be_called_are_no_models(model: Any) -> None:
    with pytest.raises(TypeError, match="a module, a function or a bound method"):
        tracehouse.check(model, X)


def test_another_thread_is_refused() -> None:
    raised: list[Exception] = []

    def check() -> None:
        try:
            tracehouse.check(Branches(), X)
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=check)
    thread.start()
    thread.join()

    assert "call it in the main thread, or in a process of its own" in str(raised[0])


class Exits(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise SystemExit(3)


class ChangesSettings(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
        torch.set_default_device("cpu")
        torch.set_float32_matmul_precision("medium")
        torch.set_grad_enabled(False)
        np.seterr(all="ignore", over="raise")
        return x * 2


class ChecksAModel(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_tracing():
            tracehouse.check(torch.nn.Identity(), X)
        return x * 2


def test_a_model_that_exits_does_not_end_the_callers_program() -> None:
    with pytest.raises(ModelExited) as refused:
        tracehouse.check(Exits(), X)

    assert refused.value.facts["source"] == "raise SystemExit(3)"


def test_settings_that_the_model_changes_are_put_back() -> None:
    with assert_process_unchanged():
        tracehouse.check(ChangesSettings(), X, budget_s=1.0)


def test_a_check_inside_of_a_trace_is_refused() -> None:
    with pytest.raises(UntraceableModel, match="inside of a trace"):
        tracehouse.check(ChecksAModel(), X, budget_s=1.0)


@pytest.mark.parametrize("x", [X.to_sparse(), X.to(torch.complex64)])
def test_an_input_without_a_datatype_is_refused(x: torch.Tensor) -> None:
    with pytest.raises(ArgumentMismatch) as refused:
        tracehouse.check(torch.nn.ReLU(), x)

    assert refused.value.facts["input"] == "input"


def loop_from(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that loops for ever from this call on; it has no copies, so the check's calls all count."""
    calls = itertools.count(1)

    def double(x: torch.Tensor) -> torch.Tensor:
        while next(calls) >= number:
            pass
        return x * 2

    return double


class LoopsFrom(torch.nn.Module):
    """Loops for ever from this call of the same copy on."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        while self.calls >= self.number:
            pass
        return x * 2


@pytest.mark.parametrize("number", range(1, 9))
def test_a_function_that_loops_from_some_call_on_is_stopped_and_the_check_says_so(number: int) -> None:
    verdict, said = check_looping(loop_from(number))

    assert verdict in (None, Verdict.REJECTED)
    assert "did not end within" in said


@pytest.mark.parametrize("number", range(1, 9))
def test_a_module_that_loops_from_some_call_on_is_never_verified(number: int) -> None:
    verdict, said = check_looping(LoopsFrom(number))

    assert verdict in (None, Verdict.REJECTED)
    assert "did not end within" in said or "hidden-state" in said


def check_looping(model: Any) -> tuple[Verdict | None, str]:
    """Return the verdict and what the report says of itself. None, and what the error says, if there is no report."""
    try:
        report = tracehouse.check(model, X, budget_s=0.05)
    except LimitExceeded as error:
        return None, f"{error.detail}; {error.facts['remedy']}"
    left_out = [text for layer in report.check.layers for text in layer.left_out]
    return report.verdict, "\n".join([*left_out, *(f"{one.kind}: {one.detail}" for one in report.findings)])


def test_a_later_call_that_does_not_end_rejects_the_trace() -> None:
    report = tracehouse.check(LoopsFrom(2), X, budget_s=0.05)

    [found] = [finding for finding in report.findings if finding.kind == Kind.HIDDEN_STATE]
    assert report.verdict is Verdict.REJECTED
    assert "a later call on the same inputs was stopped: it did not end within 0.5 s" in found.detail


class LoopsOnOnes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool((x == 1).all()):
            pass
        return x * 2


def test_a_check_input_on_which_the_model_does_not_end_is_not_compared() -> None:
    report = tracehouse.check(LoopsOnOnes(), X, check_inputs=[torch.ones(2, 4)], budget_s=0.05)

    [found] = [finding for finding in report.findings if finding.kind == Kind.CHECK_INPUT_REFUSED]
    assert "check_inputs[0]" in found.detail
    assert "did not end within" in found.detail


class LoopsLazily(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.LazyLinear(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while True:
            pass


def test_a_lazy_model_that_loops_is_stopped() -> None:
    with pytest.raises(LimitExceeded, match="did not end within"):
        tracehouse.check(LoopsLazily(), X, budget_s=0.05)


def rename(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def halve(self: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return function(self, x)

    return halve


class Decorated(Branches):
    @rename
    def third(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) / 3  # type: ignore[no-any-return]


def test_a_method_is_found_by_the_name_under_which_its_module_has_it() -> None:
    model = Decorated().eval()

    report = tracehouse.check(model.third, X)  # whose own name is that of another method

    assert report.verdict is Verdict.VERIFIED
    torch.testing.assert_close(report.artifact(X), model.layer(X) / 3)


def test_a_method_that_its_module_does_not_have_is_refused() -> None:
    model = Branches()
    with pytest.raises(EntrypointUnusable, match="bound to a module that does not have it"):
        tracehouse.check(MethodType(Branches.halve, torch.nn.Linear(4, 2)), X)
    model.thirds = MethodType(Decorated.third, model)  # type: ignore[assignment]
    assert tracehouse.check(model.eval().thirds, X, budget_s=1.0).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_autocast_around_the_check_is_refused(device: str) -> None:
    with warnings.catch_warnings(action="ignore"), torch.autocast(device, torch.bfloat16):
        if not torch.is_autocast_enabled(device):  # torch turns it off where there is no such device
            return
        with pytest.raises(RuntimeError, match=r"enter torch\.autocast inside of forward"):
            tracehouse.check(torch.nn.Linear(4, 2), X)


class Autocasts(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(x)


def test_autocast_inside_of_forward_is_traced_with_it() -> None:
    report = tracehouse.check(Autocasts(4, 2).eval(), X)

    assert report.verdict is Verdict.VERIFIED
    assert report.artifact(X).dtype is torch.bfloat16


class Keeps(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x += float(x.sum())
        return x * 0


def test_a_difference_in_a_changed_input_has_a_counterexample() -> None:
    report = tracehouse.check(Keeps(), X)

    [one, *_] = [one for one in report.counterexamples if "afterwards" in one.difference]
    leaf = one.difference.partition(":")[0]
    assert not isinstance(one.artifact, str)
    assert not np.allclose(one.eager[leaf], one.artifact[leaf])


def test_remedies_say_what_a_trace_request_alone_can_do() -> None:
    report = tracehouse.check(Branches().train(), X)

    remedies = [finding.remedy for finding in report.findings if finding.remedy]
    assert remedies
    assert all("in a trace request" in remedy for remedy in remedies if "`mode`" in remedy or "`training`" in remedy)
    assert not any("check." in remedy or "/trace" in remedy for remedy in remedies)
