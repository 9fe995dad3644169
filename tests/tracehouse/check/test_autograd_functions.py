"""Custom autograd functions are recorded by what their forward computes, and checked like all other code."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd.function import _SingleLevelFunction

import tracehouse
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.verdict import Verdict

X = torch.tensor([[0.3, -1.2, 2.6, 0.9], [1.7, -0.4, 0.2, -3.1]])
Tensor = torch.Tensor


class Swish(torch.autograd.Function):
    """As EfficientDet has it."""

    @staticmethod
    def forward(ctx: Any, i: Tensor) -> Tensor:
        ctx.save_for_backward(i)
        return i * torch.sigmoid(i)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        [i] = ctx.saved_tensors
        return gradient * torch.sigmoid(i) * (1 + i * (1 - torch.sigmoid(i)))


class Round(torch.autograd.Function):
    """The straight-through estimator: its gradient is that of the identity."""

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        return y.round()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class Scale(torch.autograd.Function):
    """Keeps a number in its ctx, and reads what torch says there."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, by: float) -> Any:
        ctx.by = by if ctx.needs_input_grad == (False, False) else 0.0
        ctx.set_materialize_grads(False)
        return y * ctx.by

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.by, None


class Split(torch.autograd.Function):
    """Returns a tuple, and an input as it is among it, and marks an output."""

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> tuple[Tensor, Tensor]:
        positive = y > 0
        ctx.mark_non_differentiable(positive)
        return y, positive

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Tensor:
        return gradient


class AddInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        ctx.mark_dirty(y.add_(1))
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class Cube(torch.autograd.Function):
    """The newer style: forward has no ctx."""

    generate_vmap_rule = True

    @staticmethod
    def forward(y: Tensor) -> Any:
        return y**3

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        [y] = ctx.saved_tensors
        return gradient * 3 * y**2

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return tangent


class Outer(torch.autograd.Function):
    """Calls another custom function."""

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        return Swish.apply(y) + 1  # type: ignore[no-any-return,no-untyped-call]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class Branch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        return y * 2 if y.sum() > 0 else y * 3

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


apply: Callable[..., Any] = Swish.apply  # stored before any trace, as models do


def pull_through_round(y: Tensor) -> Tensor:
    with torch.enable_grad():
        z = y.detach().requires_grad_()
        return torch.autograd.grad((Round.apply(z) * y).sum(), z)[0]  # type: ignore[no-untyped-call]


def use_split(y: Tensor) -> Tensor:
    same, positive = Split.apply(y)  # type: ignore[no-untyped-call]
    return same.add_(1) + positive + y  # type: ignore[no-any-return]


class Net(torch.nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 4)
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.layer(x))


def check(function: Callable[[Tensor], Any]) -> tracehouse.Report:
    return tracehouse.check(Net(function).eval(), X, budget_s=120.0)


def inlined(report: tracehouse.Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.kind == Kind.AUTOGRAD_FUNCTION_INLINED]


VERIFIED: dict[str, tuple[Callable[[Tensor], Any], list[str]]] = {
    "swish": (apply, ["Swish"]),
    "straight through": (Round.apply, ["Round"]),
    "an attribute of ctx": (lambda y: Scale.apply(y, 3.0), ["Scale"]),  # type: ignore[no-untyped-call]
    "a tuple, and an input as it is": (use_split, ["Split"]),
    "in place": (lambda y: AddInPlace.apply(y) + y, ["AddInPlace"]),  # type: ignore[no-untyped-call]
    "setup_context": (Cube.apply, ["Cube"]),
    "torch.vmap": (torch.vmap(Cube.apply), ["VmappedCube"]),
    "one calls another": (Outer.apply, ["Outer", "Swish"]),
}


@pytest.mark.parametrize("case", VERIFIED)
def test_what_forward_computes_is_in_the_artifact_and_a_finding_names_the_function(case: str) -> None:
    function, names = VERIFIED[case]
    report = check(function)
    x = torch.randn(2, 4)
    with torch.no_grad():
        assert torch.equal(report.artifact(x), Net(function)(x))

    assert report.verdict is Verdict.VERIFIED
    assert [finding.evidence["function"] for finding in inlined(report)] == names
    assert all(finding.remedy and finding.source for finding in inlined(report))


def test_sizes_stay_free_where_forward_leaves_them_free() -> None:
    [x] = check(apply).contract.methods["forward"].inputs

    assert x.shape == ("batch", 4)


def test_a_branch_inside_of_forward_is_found_as_one_anywhere_else() -> None:
    report = check(Branch.apply)

    baked = next(finding for finding in report.findings if finding.kind == Kind.BAKED_VALUE)
    assert report.verdict is Verdict.REJECTED
    assert baked.source == "return y * 2 if y.sum() > 0 else y * 3"


def test_a_gradient_that_the_model_takes_goes_through_backward() -> None:
    """The gradient of rounding itself is zero everywhere."""
    artifact = check(pull_through_round).artifact

    with torch.no_grad():
        assert torch.equal(artifact(X), Net(pull_through_round)(X))
        assert artifact(X).abs().sum() > 0


def test_functions_are_applied_as_before_after_a_check_and_after_one_that_raises() -> None:
    def fail(_: Tensor) -> Tensor:
        raise ValueError("not this one")

    check(apply)
    with pytest.raises(tracehouse.errors.TraceError):
        check(fail)

    assert "apply" not in vars(_SingleLevelFunction)
    assert torch._C._get_tracing_state() is None
    y = torch.zeros(4, requires_grad=True)
    assert type(apply(y).grad_fn).__name__ == "SwishBackward"
