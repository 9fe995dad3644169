"""Scripting, and what was scripted before it came here: compiled as torch's documentation says, served and verified."""

import io
import os
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import torch

from service.storage.database import Store
from tests.conftest import TENANT
from tests.submissions import spec, tensor
from tests.workers.conftest import Told, Work
from tracehouse.artifact.archive_extras import EXTRA_FILES
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.structure import Argument
from tracehouse.differential import golden
from tracehouse.errors import GraphRaised
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Datatype
from workers.programs.runner import LoadedArtifact

Run = Callable[..., Told]
X = tensor([[1.0, 2.0, 3.0, 4.0]])
SCRIPT = {"mode": "script", "example_inputs": [X]}
TRACE = {"mode": "trace", "example_inputs": [X]}
# For tests of scripting alone: the layers of the check take half of an attempt and more.
NO_LAYERS = {"probes": "off"}
FLAT = [[[1.0, -2.0, 3.0, -4.0]]]


def structures(told: Told, method: str = "forward") -> dict[str, Any]:
    arguments = told.traced.contract.methods[method].arguments
    return {argument.name: argument.structure.model_dump() for argument in arguments}


def archive(told: Told) -> torch.jit.ScriptModule:
    return torch.jit.load(io.BytesIO(told.files["archive"]))


@pytest.fixture
def artifact(work: Work, store: Store) -> Callable[..., Artifact]:
    """Of a request whose attempt succeeded, through all its processes."""

    def artifact(submitted: dict[str, Any], files: dict[str, bytes] | None = None) -> Artifact:
        request = work(submitted, files)
        assert request.failure is None, request.failure
        return store.artifacts.get(TENANT, request.artifacts[0].digest)

    return artifact


# One of each feature that torch's documentation has for mixing Python, tracing and scripting.
@pytest.mark.parametrize(
    ("name", "entrypoint", "members", "form"),
    [
        ("traces_scripted_parts", "Net", TRACE, "traced"),
        ("scripts_traced_parts", "Net", SCRIPT, "scripted"),
        ("scripts_if_tracing", "Net", TRACE, "traced"),
        ("scripts_if_tracing", "Net", SCRIPT, "scripted"),
        ("marks_its_methods", "Net", SCRIPT, "scripted"),
        ("forks", "Net", TRACE, "traced"),
        ("forks", "Branching", SCRIPT, "scripted"),
        ("uses_a_script_class", "Net", SCRIPT, "scripted"),
        ("refines_types", "Net", SCRIPT, "scripted"),
        ("refines_types", "Net", {"mode": "script", "example_inputs": [X, X, [4, 5]]}, "scripted"),
        ("has_an_interface", "Net", SCRIPT, "scripted"),
    ],
)
def test_what_the_documentation_shows_is_verified(
    artifact: Callable[..., Artifact], name: str, entrypoint: str, members: dict[str, Any], form: str
) -> None:
    made = artifact(spec(name, entrypoint, check={"budget": "quick"}, **members))

    assert (made.form, made.check.verdict) == (form, Verdict.VERIFIED), made.check
    assert len(made.check.comparisons) > 2


def test_a_scripted_method_keeps_its_control_flow_and_takes_every_argument(run: Run) -> None:
    inputs = [X, [0.5, 2.0], {"tuple": [3, "four"]}]
    told = run(spec("branches_in_a_script", mode="script", example_inputs=inputs))

    assert told.traced.form == "scripted"
    assert (told.verdict, [*told.findings]) == (Verdict.VERIFIED, ["weights-not-sent"])
    assert structures(told) == {
        "x": {"tensor": "x"},
        "factors": {"list": [{"fixed": 0.5}, {"fixed": 2.0}]},
        "pair": {"tuple": [{"fixed": 3}, {"fixed": "four"}]},
        "mask": {"fixed": None},
        "times": {"fixed": 2},
    }
    once, thrice = (archive(told)(torch.zeros(1, 4), [1.0], (-1, "a"), None, times)["scaled"] for times in (1, 3))
    assert not torch.equal(once, thrice)


def test_a_script_that_answers_otherwise_than_python_is_rejected(artifact: Callable[..., Artifact]) -> None:
    made = artifact(spec("differs_when_scripted", **SCRIPT, check=NO_LAYERS))

    assert (made.form, made.check.verdict) == ("scripted", Verdict.REJECTED)


def test_every_kind_of_argument_is_served(artifact: Callable[..., Artifact]) -> None:
    mask = tensor([[True, False, False, True]], "BOOL")
    made = artifact(
        spec(
            "branches_in_a_script",
            mode="script",
            example_inputs=[X, [0.5], {"tuple": [3, "four"]}],
            example_kwarg_inputs={"mask": mask},
            options={"freeze": True},
            check=NO_LAYERS,
        )
    )

    assert made.check.verdict is Verdict.VERIFIED


def test_parameters_that_are_given_by_name_alone_are_served(artifact: Callable[..., Artifact]) -> None:
    kwargs = {"times": 3, "loud": False}
    submitted = spec("takes_keywords_alone", example_kwarg_inputs=kwargs, check=NO_LAYERS, **SCRIPT)
    made = artifact(submitted)

    assert made.check.verdict is Verdict.VERIFIED


def test_a_default_that_is_no_json_stays_in_the_archive(artifact: Callable[..., Artifact]) -> None:
    made = artifact(spec("has_an_odd_default", **SCRIPT, check=NO_LAYERS))

    method = made.contract.methods["forward"]
    assert made.check.verdict is Verdict.VERIFIED
    assert {argument.name: argument.structure.model_dump() for argument in method.arguments} == {
        "x": {"tensor": "x"},
        "dtype": {"baked": "torch.float64"},
        "times": {"fixed": 2},
        "scale": {"fixed": 3.0},
    }
    assert [output.datatype for output in method.outputs] == ["FP64"]


def test_what_torch_would_save_and_not_load_is_refused(run: Run) -> None:
    submitted = spec("takes_keywords_alone", "AfterADefault", **SCRIPT, example_kwarg_inputs={"loud": True})
    failure = run(submitted).failure

    assert (failure.slug, failure.facts["parameter"]) == ("scripting-failed", "loud")


def test_a_check_input_with_another_plain_value_is_compared(artifact: Callable[..., Artifact]) -> None:
    """The artifact takes it, but the contract answers for the value of the example alone."""
    inputs, others = ([X, [0.5], {"tuple": [number, "four"]}] for number in (3, 5))
    check = {"check_inputs": [others], **NO_LAYERS}
    made = artifact(spec("branches_in_a_script", mode="script", example_inputs=inputs, check=check))

    given = [one for one in made.check.comparisons if one.case == "check_inputs[0]"]
    assert [(one.agrees, one.in_contract) for one in given] == [(True, False)]


def test_a_dict_is_handed_over_in_the_order_in_which_it_was_verified(
    artifact: Callable[..., Artifact], store: Store
) -> None:
    """A check input in another order is another call, that the contract does not answer for."""
    parts = {"tokens": tensor([1.0, 2.0]), "mask": tensor([3.0, 4.0])}
    inputs = [[parts, sizes] for sizes in ({"wide": 3, "high": 2}, {"high": 2, "wide": 3})]
    made = artifact(
        spec("reads_the_order_of_a_dict", mode="script", example_inputs=inputs[0], check={"check_inputs": inputs[1:]})
    )

    assert made.check.verdict is Verdict.VERIFIED
    given = [one for one in made.check.comparisons if one.case == "check_inputs[0]"]
    assert [(one.agrees, one.in_contract) for one in given] == [(True, False)]
    served = proved(made, store)
    sent = {"parts.mask": torch.tensor([3.0, 4.0]), "parts.tokens": torch.tensor([1.0, 2.0])}
    assert served.infer("forward", sent)["output"].tolist() == [3.0, 6.0, 9.0, 12.0]


def test_a_float_is_another_value_than_an_integer(run: Run, artifact: Callable[..., Artifact], store: Store) -> None:
    check = {"check_inputs": [[X, 1.0]], **NO_LAYERS}
    submitted = spec("tells_an_int_from_a_float", mode="script", example_inputs=[X, 1], check=check)
    made = artifact(submitted)

    assert not run(submitted).comparisons["check_inputs[0]"].in_contract, "nor where it is traced"
    given = [one for one in made.check.comparisons if one.case == "check_inputs[0]"]
    assert [(one.agrees, one.in_contract) for one in given] == [(True, False)]
    assert proved(made, store).infer("forward", {"x": torch.ones(1, 4)})["output"].tolist() == [[2.0] * 4]


def proved(made: Artifact, store: Store) -> LoadedArtifact:
    """Loaded as it is where it is served, and its golden cases replayed."""
    with store.blobs.open(made.archive.digest) as file:
        module = torch.jit.load(io.BytesIO(file.read()))
    loaded = LoadedArtifact(module, made.contract)
    with store.blobs.open(made.golden.digest) as file:
        loaded.prove(golden.read(os.dup(file.fileno())), made.check.tolerance)
    return loaded


def test_all_methods_that_are_asked_for_are_compiled(artifact: Callable[..., Artifact], store: Store) -> None:
    made = artifact(
        spec(
            "methods_of_a_script",
            mode="script",
            methods={
                "forward": {"example_inputs": [X]},
                "twice": {"example_inputs": [X]},
                "not_marked": {"example_inputs": [X]},
            },
            check=NO_LAYERS,
        )
    )

    assert made.check.verdict is Verdict.VERIFIED
    with store.blobs.open(made.archive.digest) as file:
        loaded = torch.jit.load(io.BytesIO(file.read()))
    assert torch.equal(loaded.not_marked(-torch.ones(1, 4)), -torch.ones(1, 4))
    assert torch.equal(loaded.twice(torch.ones(1, 4), 3), torch.full((1, 4), 3.0))


def test_what_is_asked_for_leaves_no_mark_on_the_source(load: Callable[..., Any]) -> None:
    from tracehouse.eager.call import bind
    from tracehouse.torchscript.script import script

    model, x = load("methods_of_a_script"), torch.ones(1, 4)
    one, other = ({name: bind(model.module, name, name, (x,), {}).as_scripted()} for name in ("not_marked", "twice"))

    assert hasattr(script(model, one).module, "not_marked")
    assert not hasattr(type(model.module).not_marked, "_torchscript_modifier")
    assert "not_marked" not in script(model, other).module._c._method_names()


def test_a_method_that_is_left_to_python_lists_those_that_are_compiled(run: Run) -> None:
    failure = run(
        spec("methods_of_a_script", mode="script", methods={"left_to_python": {"example_inputs": [X]}})
    ).failure

    assert failure.slug == "method-not-compiled"
    assert failure.facts["methods"] == ["forward", "twice", "half"]


def test_forward_stands_for_a_bound_method_that_is_scripted(run: Run) -> None:
    told = run(spec("methods_of_a_script", "bound", **SCRIPT, check=NO_LAYERS))

    assert told.verdict is Verdict.VERIFIED
    assert torch.equal(archive(told)(-torch.ones(1, 4)), -torch.ones(1, 4))


@pytest.mark.parametrize(
    ("entrypoint", "inputs", "taken"),
    [
        ("clamped", [X, {"tuple": [-1.0, 1.0]}], ["x", "limits", "bias"]),
        ("commented", [X, 3], ["x", "times"]),
        ("branches", [X], ["x", "scale"]),
    ],
)
def test_functions_are_scripted_and_served_as_forward(
    artifact: Callable[..., Artifact], entrypoint: str, inputs: list[Any], taken: list[str]
) -> None:
    made = artifact(spec("functions_to_script", entrypoint, mode="script", example_inputs=inputs, check=NO_LAYERS))

    arguments = made.contract.methods["forward"].arguments
    assert (made.form, made.check.verdict) == ("scripted", Verdict.VERIFIED)
    assert [one.name for one in arguments if "baked" not in one.structure.model_dump()] == taken


def test_a_scripted_function_is_traced_through(artifact: Callable[..., Artifact], store: Store) -> None:
    """As torch.jit.trace does: its branches are kept, and its other arguments are baked in."""
    made = artifact(spec("functions_to_script", "branches", **TRACE, check=NO_LAYERS))

    assert (made.form, made.check.verdict) == ("traced", Verdict.VERIFIED)
    names = {one.name: one.structure.model_dump() for one in made.contract.methods["forward"].arguments}
    assert names == {"x": {"tensor": "x"}, "scale": {"baked": 2.0}}
    with store.blobs.open(made.archive.digest) as file:
        schema = torch.jit.load(io.BytesIO(file.read())).forward.schema
    assert [argument.name for argument in schema.arguments] == ["self", "x"]


@pytest.mark.parametrize(
    ("name", "entrypoint", "inputs", "line", "words"),
    [
        ("cannot_be_scripted", "Net", [X], 9, "is_scripting"),
        ("cannot_be_scripted", "Untyped", [X, 2], 16, "annotate"),
        ("cannot_be_scripted", "CallsPython", [X], 23, "is_scripting"),
        ("functions_to_script", "variadic", [X], 19, "name and a type"),
    ],
)
def test_what_torch_cannot_script_is_said_with_the_users_line(
    run: Run, name: str, entrypoint: str, inputs: list[Any], line: int, words: str
) -> None:
    failure = run(spec(name, entrypoint, mode="script", example_inputs=inputs)).failure

    assert failure.slug == "scripting-failed"
    assert (failure.facts["file"], failure.facts["line"]) == (f"{name}.py", line)
    assert words in str(failure.facts["remedy"])
    assert failure.facts["source"]


def test_an_artifact_that_calls_what_it_does_not_have_is_told_how_to_do_without(
    artifact: Callable[..., Artifact],
) -> None:
    made = artifact(spec("calls_what_no_script_has", **SCRIPT, check=NO_LAYERS))

    differs = next(one for one in made.check.findings if one.kind == "output-differs")
    assert "is_scripting" in str(differs.remedy)


def test_a_default_that_torch_loses_is_said_with_the_reason_and_the_call(run: Run) -> None:
    methods = {"forward": {"example_inputs": [X]}, "decode": {"example_inputs": [X]}}
    failure = run(spec("leaves_a_default_out", mode="script", methods=methods)).failure

    assert "Argument temperature not provided" in failure.detail
    assert failure.facts["source"] == "return self.decode(x)"
    assert "pass the argument in that call" in str(failure.facts["remedy"])


def test_options_of_a_trace_are_said_to_do_nothing_to_a_script(run: Run) -> None:
    options = {"strict": False, "force_outplace": True, "store_inputs": False, "seed": 3}
    told = run(spec("linear", options=options, check={"check_trace": False, **NO_LAYERS}, **SCRIPT))

    said = [one.evidence["option"] for one in told.traced.check.findings if one.kind == "option-without-effect"]
    assert said == ["options.strict", "options.force_outplace", "options.store_inputs", "check.check_trace"]
    assert told.verdict is Verdict.VERIFIED


def test_options_of_a_trace_are_not_mentioned_where_they_are_as_ever_or_do_something(run: Run) -> None:
    for members in (SCRIPT, {**TRACE, "options": {"force_outplace": True}}):
        assert "option-without-effect" not in run(spec("linear", **members, check=NO_LAYERS)).findings


def test_what_torch_says_of_its_own_library_has_no_paths_of_this_machine(run: Run) -> None:
    failure = run(spec("cannot_be_scripted", "InTheLibrary", **SCRIPT)).failure

    assert 'File "torch/nn/parallel/data_parallel.py"' in str(failure.facts["message"])


def test_an_object_that_can_be_called_is_no_function_to_script(run: Run) -> None:
    failure = run(spec("functions", "instance", **SCRIPT)).failure

    assert failure.slug == "scripting-failed"
    assert "Callable" in failure.detail


def test_a_none_among_the_outputs_is_a_constant(run: Run) -> None:
    told = run(spec("cannot_be_scripted", "ReturnsNone", **SCRIPT, check=NO_LAYERS))

    assert told.verdict is Verdict.VERIFIED
    assert told.traced.contract.methods["forward"].returns.model_dump(mode="json") == {
        "tuple": [{"tensor": "output.0"}, {"baked": None}]
    }


@pytest.mark.parametrize(
    ("entrypoint", "init"), [("net", []), ("make", []), ("traced", [])], ids=["instance", "factory", "traced"]
)
def test_a_script_module_is_kept_as_it_is(artifact: Callable[..., Artifact], entrypoint: str, init: list[Any]) -> None:
    made = artifact(spec("scripted_already", entrypoint, **TRACE, check=NO_LAYERS))

    assert (made.form, made.check.verdict) == ("scripted", Verdict.SELF_CONSISTENT)
    assert "already-scripted" in [finding.kind for finding in made.check.findings]


def test_methods_of_a_script_module_are_those_that_are_compiled(run: Run) -> None:
    methods = {"forward": {"example_inputs": [X]}, "encode": {"example_inputs": [X]}}
    told = run(spec("scripted_already", "net", methods=methods, check=NO_LAYERS))

    assert structures(told) == {"x": {"tensor": "x"}, "factor": {"fixed": 2.0}}
    missing = run(spec("scripted_already", "net", methods={"decode": {"example_inputs": [X]}})).failure
    assert (missing.slug, missing.facts["methods"]) == ("trace-method-not-found", ["forward", "encode"])


def test_a_method_of_a_script_module_is_no_entrypoint(run: Run) -> None:
    failure = run(spec("scripted_already", "method", **TRACE)).failure

    assert failure.slug == "entrypoint-unusable"
    assert "methods" in str(failure.facts["remedy"])


def test_a_model_that_holds_compiled_parts_and_functions_is_traced(artifact: Callable[..., Artifact]) -> None:
    made = artifact(spec("scripted_already", "WithParts", **TRACE, check=NO_LAYERS))

    assert (made.form, made.check.verdict) == ("traced", Verdict.VERIFIED)


def test_state_that_compiled_code_keeps_is_found(run: Run) -> None:
    told = run(spec("counts_in_a_script", "net", **TRACE))

    assert told.verdict is Verdict.REJECTED
    assert told.findings["hidden-state"].evidence["method"] == "forward"
    assert told.findings["hidden-state"].source == "self.total = self.total + 1"


def test_state_that_compiled_code_keeps_is_found_where_no_answer_shows_it(run: Run) -> None:
    told = run(spec("counts_in_a_script", "net", methods={"count": {"example_inputs": [X]}}))

    assert told.findings["hidden-state"].evidence["state"] == ["calls"]


def test_what_compiled_code_writes_and_never_reads_is_no_state(run: Run) -> None:
    told = run(spec("counts_in_a_script", "net", methods={"keep": {"example_inputs": [X]}}))

    assert told.verdict is Verdict.SELF_CONSISTENT
    assert "hidden-state" not in told.findings


def saved(module: torch.nn.Module) -> bytes:
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return buffer.getvalue()


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
        if bool(x.sum() > 0):
            return self.layer(x) * factor
        return self.layer(x)


class Dropped(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5, self.training)


def uploaded(**members: Any) -> dict[str, Any]:
    return {"model": "net", "source": {"archive": "net.pt"}, "example_inputs": [X], **members}


def test_each_file_of_an_uploaded_archive_is_served_byte_by_byte(
    artifact: Callable[..., Artifact], store: Store
) -> None:
    data = saved(torch.jit.script(Scaled().eval()))
    made = artifact(uploaded(), {"net.pt": data})

    assert (made.form, made.entrypoint, made.check.verdict) == ("uploaded", None, Verdict.SELF_CONSISTENT)
    with store.blobs.open(made.archive.digest) as file:
        served = files_of(file.read())
    given = files_of(data)
    assert {name: served[name] for name in given} == given
    assert {name.split("/")[-1] for name in served.keys() - given.keys()} == {*EXTRA_FILES}
    factor = made.contract.methods["forward"].arguments[1]
    assert factor.model_dump() == {"name": "factor", "structure": {"fixed": 2.0}}
    assert [finding.kind for finding in made.check.findings] == ["no-eager-model"]


def files_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_an_uploaded_archive_takes_other_sizes_where_they_are_declared(artifact: Callable[..., Artifact]) -> None:
    data = saved(torch.jit.script(Scaled().eval()))
    made = artifact(uploaded(dynamic={"x": {"0": "rows"}}), {"net.pt": data})

    assert [spec.shape for spec in made.contract.methods["forward"].inputs] == [("rows", 4)]


def test_an_uploaded_trace_is_checked_on_its_example_and_check_inputs(artifact: Callable[..., Artifact]) -> None:
    traced = torch.jit.trace(torch.nn.Linear(4, 2), torch.ones(1, 4))
    made = artifact(uploaded(check={"check_inputs": [[tensor([[1.0] * 4] * 3)]]}), {"net.pt": saved(traced)})

    assert made.check.verdict is Verdict.SELF_CONSISTENT
    assert [spec.name for spec in made.contract.methods["forward"].inputs] == ["input"]
    given = [one for one in made.check.comparisons if one.case == "check_inputs[0]"]
    assert [(one.agrees, one.in_contract) for one in given] == [(True, False)]


def test_a_frozen_archive_is_served(run: Run) -> None:
    told = run(uploaded(check=NO_LAYERS), {"net.pt": saved(torch.jit.freeze(torch.jit.script(Scaled().eval())))})

    assert told.verdict is Verdict.SELF_CONSISTENT
    assert told.traced.parameters == []


def test_an_archive_in_train_mode_is_served_so_and_said(run: Run) -> None:
    told = run(uploaded(), {"net.pt": saved(torch.jit.script(Dropped()))})

    assert told.verdict is Verdict.SELF_CONSISTENT
    assert {"saved-in-train-mode", "no-eager-model", "stochastic"} <= told.findings.keys()


def test_an_archive_lists_its_methods_where_one_is_not_there(run: Run) -> None:
    data = saved(torch.jit.script(Scaled().eval()))
    failure = run({**uploaded(methods={"encode": {"example_inputs": [X]}}), "example_inputs": []}, {"net.pt": data})

    assert failure.failure.facts["methods"] == ["forward"]


@pytest.mark.parametrize(
    ("entrypoint", "methods", "state", "source"),
    [
        ("BetweenMethods", ["put", "forward"], ["kept"], "self.kept = x * 1"),
        ("Calibrated", ["forward"], ["most", "ready"], "self.most = x.abs().max()"),
        ("OnABranch", ["forward"], ["kept"], "self.kept = self.kept + x"),
        ("InARow", ["forward"], ["rows"], "self.rows[1] = x[0]"),
    ],
)
def test_state_that_no_call_shows_is_read_off_the_graphs(
    run: Run, entrypoint: str, methods: list[str], state: list[str], source: str
) -> None:
    asked = {method: {"example_inputs": [X]} for method in methods}
    told = run(
        spec("keeps_state_in_branches", entrypoint, mode="script", methods=asked, check=NO_LAYERS),
    )

    kept = told.findings["hidden-state"]
    assert told.verdict is Verdict.REJECTED
    assert (kept.evidence["state"], kept.source) == (state, source)


def test_state_between_methods_rejects_through_all_processes(artifact: Callable[..., Artifact]) -> None:
    methods = {method: {"example_inputs": [X]} for method in ("put", "forward")}
    submitted = spec("keeps_state_in_branches", "BetweenMethods", mode="script", methods=methods, check=NO_LAYERS)
    made = artifact(submitted)

    kept = next(finding for finding in made.check.findings if finding.kind == "hidden-state")
    assert made.check.verdict is Verdict.REJECTED
    assert (kept.evidence["method"], kept.evidence["read_by"]) == ("put", ["forward"])


def test_a_method_that_is_not_served_writes_nothing_for_one_that_is(run: Run) -> None:
    assert run(spec("keeps_state_in_branches", "BetweenMethods", **SCRIPT)).verdict is Verdict.VERIFIED


def test_state_in_an_uploaded_archive_is_read_off_its_graphs(run: Run, load: Callable[..., Any]) -> None:
    module = torch.jit.script(load("keeps_state_in_branches", "Calibrated").module.eval())
    told = run(uploaded(), {"net.pt": saved(module)})

    assert told.verdict is Verdict.REJECTED
    assert "hidden-state" in told.findings


def test_what_only_train_mode_keeps_and_what_nobody_reads_is_no_state(run: Run) -> None:
    told = run(spec("keeps_state_in_branches", "Harmless", **SCRIPT))

    assert (told.verdict, [*told.findings]) == (Verdict.VERIFIED, ["weights-not-sent"])


@pytest.mark.parametrize("entrypoint", ["Net", "Cumulative"])
def test_the_statistics_of_a_norm_in_train_mode_are_told_as_such(run: Run, entrypoint: str) -> None:
    rows = tensor([[1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 0.0, -1.0]])
    told = run(spec("normalises_by_the_batch", entrypoint, mode="script", example_inputs=[rows], training=True))

    assert "training-mode" in told.findings
    assert "hidden-state" not in told.findings


def test_a_change_far_down_a_list_of_compiled_code_is_found(run: Run) -> None:
    told = run(spec("keeps_state_in_branches", "HoldsIt", **TRACE, check=NO_LAYERS))

    assert told.verdict is Verdict.REJECTED
    assert "hidden-state" in told.findings


def test_a_draw_on_a_branch_that_no_call_took_is_told_with_its_line(run: Run) -> None:
    told = run(spec("draws_on_a_branch", **SCRIPT, check=NO_LAYERS))

    may = told.findings["may-draw"]
    assert told.verdict is Verdict.VERIFIED
    assert (may.evidence["operator"], may.source) == ("aten::rand", "return x + torch.rand(4)")


def test_a_draw_in_an_uploaded_archive_is_told(run: Run, load: Callable[..., Any]) -> None:
    module = torch.jit.script(load("draws_on_a_branch").module.eval())
    told = run(uploaded(check=NO_LAYERS), {"net.pt": saved(module)})

    assert told.findings["may-draw"].evidence["operator"] == "aten::rand"
    assert "draws nothing" not in told.findings["no-eager-model"].detail


@pytest.mark.parametrize("entrypoint", ["Net", "Rolling", "Listed"])
def test_pythons_whole_numbers_are_said_to_end_in_a_script(run: Run, entrypoint: str) -> None:
    ids = tensor([3, 5, 8], "INT64")
    told = run(spec("hashes_its_ids", entrypoint, mode="script", example_inputs=[ids], check=NO_LAYERS))

    ends = told.findings["python-int-is-64-bit"]
    assert told.verdict is Verdict.VERIFIED
    assert ends.confirmed is None
    assert ends.source in (
        "hashed = int(ids[i]) * 2654435761 * 40503",
        "rolled = rolled * 31",
        "hashed = (hashed + each) * 31",
    )


def test_whole_numbers_of_sizes_and_floats_are_not(run: Run) -> None:
    ids = tensor([3, 5, 8], "INT64")

    assert run(spec("hashes_its_ids", "OfSizes", mode="script", example_inputs=[ids])).findings == {}


def state_dict() -> bytes:
    buffer = io.BytesIO()
    torch.save(Scaled().state_dict(), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("data", [b"no archive", b"", state_dict(), b"PK\x05\x06" + bytes(18)])
def test_a_file_that_is_no_archive_is_said_to_be_none(run: Run, data: bytes) -> None:
    failure = run(uploaded(), {"net.pt": data}).failure

    assert (failure.slug, failure.facts["file"]) == ("archive-unreadable", "net.pt")


def test_what_an_artifact_raises_has_no_paths_of_this_machine() -> None:
    linear = torch.jit.trace(torch.nn.Linear(4, 2), torch.ones(1, 4))
    tensors = [InputSpec(name="input", datatype=Datatype.FP32, shape=(1, 4))]
    arguments = [Argument.model_validate({"name": "input", "structure": {"tensor": "input"}})]
    method = MethodContract(arguments=arguments, inputs=tensors, outputs=[], returns={"tuple": []})
    contract = Contract(methods={"forward": method})
    with pytest.raises(GraphRaised) as raised:
        LoadedArtifact(linear, contract).infer("forward", {"input": torch.ones(1, 5)})

    assert "torch/nn/modules/linear.py" in raised.value.detail
    assert "site-packages" not in raised.value.detail


def with_code(data: bytes, body: bytes) -> bytes:
    """The archive, its forward with another body."""
    archive, changed = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(changed, "w") as other:
        for entry in archive.infolist():
            record = archive.read(entry)
            if entry.filename.endswith(".py"):
                record = record[: record.index(b"    return")] + b"    return " + body + b"\n"
            other.writestr(entry.filename, record)
    return changed.getvalue()


def test_an_archive_whose_loading_ends_the_process_is_said_to_be_unreadable(work: Work) -> None:
    """torch's parser recurses, however deep."""
    data = with_code(saved(torch.jit.script(Scaled().eval())), b"-" * 200_000 + b"x")
    failure = work(uploaded(), {"net.pt": data}).failure

    assert failure is not None
    assert (failure.slug, failure.facts["ended"]) == ("archive-unreadable", "by SIGSEGV")


def test_what_torch_says_of_an_archive_holds_no_address_in_memory(run: Run) -> None:
    data = with_code(saved(torch.jit.script(Scaled().eval())), b"self.nothing")
    failure = run(uploaded(), {"net.pt": data}).failure

    assert failure.slug == "archive-unreadable"
    assert "has no attribute or method 'nothing'" in failure.detail
    assert "0x" not in failure.detail
