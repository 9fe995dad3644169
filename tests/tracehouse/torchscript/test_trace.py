"""Tracing: what torch refuses comes out as a named problem with the user's line, what it warns of as data."""

import io
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tracehouse.eager.call import bind
from tracehouse.eager.model import Function, LoadedModel
from tracehouse.errors import (
    BackwardHooks,
    ConstantRequiresGrad,
    ErrorCaughtInTrace,
    UnsupportedOutput,
    UntraceableModel,
)
from tracehouse.spec.trace_spec import TraceOptions
from tracehouse.torch_values import structure
from tracehouse.torchscript.trace import TraceResult, trace

Load = Callable[..., LoadedModel]


def traced(model: LoadedModel, *args: Any, check: bool = True, **options: Any) -> TraceResult:
    calls = {"forward": bind(model.module, "forward", model.method_name("forward"), args, {})}
    return trace(model, calls, TraceOptions(**options), outputs={}, check=check, tolerance=1e-5)


def test_a_captured_parameter_is_refused_with_a_remedy(load: Load) -> None:
    with pytest.raises(ConstantRequiresGrad) as raised:
        traced(load("captures_a_parameter", "scale"), torch.ones(4))
    assert (raised.value.facts["file"], raised.value.facts["line"]) == ("captures_a_parameter.py", 7)
    assert "write the function as an nn.Module" in raised.value.facts["remedy"]


def test_backward_hooks_are_refused_at_the_line_of_the_hook(load: Load) -> None:
    with pytest.raises(BackwardHooks) as raised:
        traced(load("has_a_backward_hook", "make"), torch.ones(1, 4))
    assert (raised.value.facts["file"], raised.value.facts["line"]) == ("has_a_backward_hook.py", 6)


def test_a_warning_of_the_tracer_has_the_users_line_once(load: Load) -> None:
    found = traced(load("branches_on_data"), torch.ones(3)).warnings

    assert [(warned.line.file, warned.line.line) for warned in found if warned.line] == [("branches_on_data.py", 6)]
    assert "Python boolean" in found[0].message


def test_other_warnings_are_shown_as_always(load: Load) -> None:
    with pytest.warns(UserWarning, match="mine"):
        traced(load("warns"), torch.ones(3))


def test_torchs_filters_are_as_they_were(load: Load) -> None:
    before = list(warnings.filters)
    traced(load("linear"), torch.ones(1, 4))

    assert warnings.filters == before


def test_a_check_of_torchs_that_fails_is_reported_and_decides_nothing(load: Load) -> None:
    result = traced(load("counts_calls"), torch.ones(3))

    assert result.torch_check.passed is False
    assert result.torch_check.message is not None
    assert torch.jit.load(io.BytesIO(result.archive))(torch.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_the_model_itself_is_not_touched(load: Load) -> None:
    model = load("counts_calls")
    traced(model, torch.ones(3))

    assert model.module.calls == 0
    assert "forward" not in vars(model.module)


def test_a_property_that_raises_hinders_no_trace(load: Load) -> None:
    module = traced(load("has_properties_that_raise"), torch.ones(3)).module

    assert module(torch.ones(2)).tolist() == [3.0, 3.0]


def test_outplace_leaves_no_operator_in_place(load: Load) -> None:
    inplace, outplace = (
        str(traced(load("writes_its_input"), torch.ones(3), force_outplace=force).module.graph)
        for force in (False, True)
    )

    assert "aten::add_(" in inplace
    assert "aten::add_(" not in outplace


def test_outplace_makes_torch_warn_of_writing_into_a_view(load: Load) -> None:
    kinds = {
        force: {one.kind for one in traced(load("writes_into_a_view"), torch.ones(3), force_outplace=force).warnings}
        for force in (False, True)
    }

    assert kinds == {False: set(), True: {"in-place"}}


def test_without_strict_a_dict_is_returned(load: Load) -> None:
    returned = traced(load("dict_output"), torch.ones(2, 4), strict=False).module(torch.ones(2, 4))

    assert isinstance(returned, dict)


def test_with_strict_the_tensors_of_a_dict_are_returned_in_a_tuple(load: Load) -> None:
    model, x = load("dict_output"), torch.ones(2, 4)
    call = bind(model.module, "forward", "forward", [x], {})
    outputs = call.run(model.copy_module())
    calls = {"forward": call.returning(structure.describe(outputs, "output"), strict=True)}

    returned = trace(model, calls, TraceOptions(), outputs={"forward": outputs}, check=True, tolerance=1e-5)

    first, second = returned.module(x)
    assert torch.equal(first, x * 2)
    assert torch.equal(second, x / 2)
    assert returned.torch_check.passed
    assert not returned.torch_check.not_compared


def test_a_model_that_returns_a_dict_only_in_a_trace_is_refused_with_what_to_do(load: Load) -> None:
    with pytest.raises(UnsupportedOutput) as raised:
        traced(load("dict_output"), torch.ones(2, 4))

    assert "in a trace" in raised.value.facts["remedy"]


@pytest.mark.parametrize("stored", [True, False])
def test_stored_inputs_are_in_the_archive_without_their_values(load: Load, stored: bool) -> None:
    x = torch.full((256, 4), 7.0)
    result = traced(load("linear"), x, store_inputs=stored)
    members = {
        info.filename.partition("/")[2]: info.file_size
        for info in zipfile.ZipFile(io.BytesIO(result.archive)).infolist()
    }

    assert ("traced_inputs.pkl" in members) == stored
    assert sum(size for name, size in members.items() if name.startswith("traced_inputs")) < x.nbytes


def test_a_name_that_torch_cannot_load_again_is_refused(load: Load) -> None:
    with pytest.raises(UntraceableModel) as raised:
        traced(load("named_outside_ascii"), torch.ones(3))
    assert raised.value.facts["name"] == "größe"
    assert "rename" in raised.value.facts["remedy"]


class CatchesAnError(torch.nn.Module):
    """Caught in a part of the model, or in `forward` itself."""

    def __init__(self, *, in_a_part: bool) -> None:
        super().__init__()
        self.part = torch.nn.Linear(2, 2)
        self.in_a_part = in_a_part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return torch.linalg.cholesky(self.part(x) if self.in_a_part else x)
        except torch.linalg.LinAlgError:
            return self.part(x) + 1


@pytest.mark.parametrize("in_a_part", [True, False])
def test_an_error_of_an_operator_that_the_model_catches_ends_the_trace_and_not_the_process(in_a_part: bool) -> None:
    model = LoadedModel(CatchesAnError(in_a_part=in_a_part))
    not_positive = torch.full((2, 2), -1.0)

    for _ in range(2):
        with pytest.raises(ErrorCaughtInTrace) as raised:
            traced(model, not_positive)

    assert "cholesky_ex" in raised.value.remedy()
    assert torch.equal(traced(LoadedModel(torch.nn.Identity()), not_positive).module(not_positive), not_positive)


class LeavesOneOut(torch.nn.Module):
    def forward(self, image: torch.Tensor, mask: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        return image * mask if scale is None else image * mask * scale


def test_a_trace_has_the_names_of_the_inputs_that_are_given() -> None:
    result = traced(LoadedModel(LeavesOneOut()), torch.ones(2), torch.ones(2))

    assert [argument.name for argument in result.module.forward.schema.arguments] == ["self", "image", "mask"]


def test_a_builtin_function_whose_inputs_have_no_names_is_traced() -> None:
    x = torch.tensor([-1.0, 2.0])

    assert torch.equal(traced(LoadedModel(Function(torch.relu)), x).module(x), x.relu())
