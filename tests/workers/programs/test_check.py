"""Verdicts and findings: what the check sees in models that trace wrongly, and in models that only look as if."""

from collections.abc import Callable

import pytest

from tests.submissions import spec, tensor
from tests.workers.conftest import Told
from tracehouse.check import ledger
from tracehouse.check.probe import probing
from tracehouse.differential.call_limits import CallLimit, CallLimits
from tracehouse.differential.offered_cases import CASES_MAX
from tracehouse.findings.verdict import Verdict

Run = Callable[..., Told]
X = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
ENCODED = {"datatype": "FP32", "shape": [2, 5, 8], "random": {"seed": 0}}
PADDING = {"datatype": "BOOL", "shape": [2, 5], "data": [False] * 8 + [True] * 2}


def test_a_branch_on_values_is_rejected_at_its_line(run: Run) -> None:
    told = run(spec("branches_on_data", example_inputs=[X]))

    differs = told.findings["output-differs"]
    assert told.verdict is Verdict.REJECTED
    assert (differs.file, differs.line, differs.source) == ("branches_on_data.py", 6, "if x.sum() > 0:")
    assert differs.evidence["eager"] != differs.evidence["artifact"]
    assert (told.findings["tracer-warning"].line, told.findings["tracer-warning"].confirmed) == (6, True)
    assert told.comparisons["example"].agrees
    assert not told.comparisons["probe: negated"].agrees


def test_without_probes_the_same_model_passes_on_its_example(run: Run) -> None:
    told = run(spec("branches_on_data", example_inputs=[X], check={"probes": "off"}))

    assert told.verdict is Verdict.VERIFIED
    assert list(told.comparisons) == ["example"]


def test_a_check_input_of_the_examples_shape_rejects_as_a_probe_does(run: Run) -> None:
    negative = {"example_inputs": [tensor([[-1.0, -2.0, -3.0], [-4.0, -5.0, -7.0]])]}
    told = run(spec("branches_on_data", example_inputs=[X], check={"probes": "off", "check_inputs": [negative]}))

    assert told.verdict is Verdict.REJECTED
    assert told.comparisons["check_inputs[0]"].in_contract


def test_dropout_left_on_is_stochastic_even_deep_in_the_outputs(run: Run) -> None:
    told = run(spec("dropout_left_on", example_inputs=[X]))

    random = told.findings["stochastic"]
    assert told.verdict is Verdict.VERIFIED
    assert (random.line, random.evidence["operator"], random.evidence["output"]) == (6, "aten::dropout", "output.1.0")


def test_a_model_is_traced_in_eval_mode(run: Run) -> None:
    assert run(spec("dropout_in_training_only", example_inputs=[X])).verdict is Verdict.VERIFIED


def test_a_path_chosen_at_random_is_found(run: Run) -> None:
    told = run(spec("skips_at_random", example_inputs=[X]))

    assert told.verdict is Verdict.REJECTED
    assert "nondeterministic" in told.findings


@pytest.mark.parametrize("name", ["counts_calls", "counts_calls_in_a_buffer"])
def test_state_that_changes_the_answer_is_rejected(run: Run, name: str) -> None:
    told = run(spec(name, example_inputs=[X]))

    assert told.verdict is Verdict.REJECTED
    assert "hidden-state" in told.findings


def test_a_cache_that_is_filled_by_the_first_call_is_no_fault(run: Run) -> None:
    told = run(spec("caches_its_mask", example_inputs=[tensor([[1.0, 2.0], [3.0, 4.0]])]))

    assert told.verdict is Verdict.VERIFIED


def test_an_input_that_both_write_into_is_told_and_is_no_fault(run: Run) -> None:
    told = run(spec("writes_its_input", example_inputs=[X]))

    assert told.verdict is Verdict.VERIFIED
    assert told.findings["changes-its-input"].evidence["inputs"] == ["x"]


def test_an_input_that_eager_alone_writes_into_is_a_difference(run: Run) -> None:
    told = run(spec("writes_its_input_by_numpy", example_inputs=[X]))

    assert told.verdict is Verdict.REJECTED
    assert told.findings["output-differs"].evidence["output"] == "input.x"


def test_a_baked_size_restricts_where_a_check_input_shows_it(run: Run) -> None:
    longer = [tensor([[1.0], [2.0], [3.0]])]
    told = run(spec("bakes_a_size", example_inputs=[tensor([[1.0], [2.0]])], check={"check_inputs": [longer]}))

    elsewhere = told.comparisons["check_inputs[0]"]
    assert told.verdict is Verdict.RESTRICTED
    assert (elsewhere.in_contract, elsewhere.agrees) == (False, False)
    assert "output-differs-elsewhere" in told.findings


def test_a_check_input_of_another_shape_may_agree(run: Run) -> None:
    told = run(
        spec("linear", example_inputs=[tensor([[1.0] * 4])], check={"check_inputs": [[tensor([[1.0] * 4] * 3)]]})
    )

    assert told.verdict is Verdict.VERIFIED
    assert not told.comparisons["check_inputs[0]"].in_contract


def test_a_check_input_with_another_baked_value_lies_outside_the_contract(run: Run) -> None:
    other = {"example_inputs": [X], "example_kwarg_inputs": {"factor": 3.0}}
    told = run(
        spec(
            "functions", "scaled_by",
            example_inputs=[X], example_kwarg_inputs={"factor": 2.0}, check={"check_inputs": [other]},
        )
    )  # fmt: skip

    assert told.verdict is Verdict.RESTRICTED
    assert told.comparisons["check_inputs[0]"].difference == (
        "factor: the trace was made with 2.0, and this call has 3.0"
    )


def test_a_probe_that_eager_refuses_is_no_fault(run: Run) -> None:
    told = run(spec("refuses_negatives", example_inputs=[X]))

    assert told.verdict is Verdict.VERIFIED
    assert "probe: negated" not in told.comparisons
    assert "probe: zeros" in told.comparisons


def test_a_probe_that_eager_refuses_and_the_trace_answers_is_told_with_its_line(run: Run) -> None:
    found = run(spec("refuses_negatives", example_inputs=[X])).findings["answers-where-eager-raises"]

    assert (found.line, found.confirmed) == (7, True)
    assert found.evidence == {"method": "forward", "case": "probe: negated", "exception": "ValueError"}


def test_a_probe_that_both_refuse_is_not_told(run: Run) -> None:
    told = run(spec("refuses_negatives", mode="script", example_inputs=[X]))

    assert "probe: negated" not in told.comparisons
    assert "answers-where-eager-raises" not in told.findings


def test_a_check_input_that_eager_refuses_is_told_with_its_line(run: Run) -> None:
    told = run(spec("refuses_negatives", example_inputs=[X], check={"check_inputs": [[tensor([[-1.0]])]]}))

    assert told.verdict is Verdict.VERIFIED
    assert told.findings["check-input-refused"].line == 7
    assert told.findings["check-input-refused"].remedy


def test_a_probe_on_which_eager_runs_on_is_left_out_and_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "CALL_LIMITS", CallLimits(probe=CallLimit(2.0, 20), probes=CallLimit(60.0, 20)))
    # The proof, too, comes into the loop, and stays in it for a share of the budget.
    told = run(spec("loops_on_zeros", example_inputs=[X], check={"budget_s": 5}))

    assert told.verdict is Verdict.VERIFIED
    assert told.findings["probes-left-out"].evidence["probes"] == ["forward probe: zeros"]


def test_probes_that_the_budget_cuts_are_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "CALL_LIMITS", CallLimits(probes=CallLimit(0.0, 0)))
    told = run(spec("linear", example_inputs=[tensor([[1.0] * 4])]))

    assert "forward probe: negated" in told.findings["probes-left-out"].evidence["probes"]


def test_layouts_for_which_there_is_no_time_are_said_apart_from_probes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "CALL_LIMITS", CallLimits(layouts=CallLimit(0.0, 0)))
    told = run(spec("linear", example_inputs=[tensor([[1.0] * 4])]))

    found = told.findings["probes-left-out"]
    assert "other layouts" in found.detail
    assert "forward probe: gradients enabled" in found.evidence["probes"]


def test_probes_keep_to_what_the_check_has_left_of_its_budget(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "CALL_LIMITS", CallLimits(probes=CallLimit(0.0, 10**6)))
    told = run(spec("linear", example_inputs=[tensor([[1.0] * 4])], check={"budget_s": 1e-6}))

    assert "forward probe: negated" in told.findings["probes-left-out"].evidence["probes"]


def test_not_a_number_is_equal_in_its_place(run: Run) -> None:
    told = run(spec("divides", example_inputs=[tensor([0.0, -1.0, 2.0])]))

    assert told.verdict is Verdict.VERIFIED
    assert told.traced.check.torch.passed


def test_scripted_parts_keep_their_branches(run: Run) -> None:
    assert run(spec("scripted_part", example_inputs=[X])).verdict is Verdict.VERIFIED


def test_a_transformer_encoder_takes_its_fast_path_in_both(run: Run) -> None:
    told = run(spec("encoder", example_inputs=[ENCODED]))

    assert told.verdict is Verdict.VERIFIED
    assert told.traced.check.torch.passed
    assert any(node.operator == "aten::_transformer_encoder_layer_fwd" for node in told.printouts[1].nodes)


@pytest.mark.parametrize(
    "name", ["normalised_weight", "refuses_to_be_copied", "looks_at_itself", "lazy", "initialised_at_random"]
)
def test_models_that_are_hard_to_copy_or_read_are_verified(run: Run, name: str) -> None:
    assert run(spec(name, example_inputs=[tensor([[1.0, 2.0, 3.0, 4.0]])])).verdict is Verdict.VERIFIED


def test_probes_that_differed_are_offered_first_and_then_few_that_agreed(run: Run) -> None:
    told = run(spec("branches_on_data", example_inputs=[X]))

    first, *others = told.offered
    assert first.name == "counterexample: value at branches_on_data.py:6"
    agrees = [told.comparisons[case.name].agrees for case in others]
    assert agrees == sorted(agrees)
    assert agrees.count(True) <= ledger.AGREEING_OFFERED
    assert len(told.offered) <= CASES_MAX
    assert others[0].name == "probe: negated"


def test_probes_are_offered_within_the_bytes_that_are_taken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "CASES_MAX_BYTES", 3 * 2 * 4)
    told = run(spec("branches_on_data", example_inputs=[X]))

    assert [case.name for case in told.offered] == ["counterexample: value at branches_on_data.py:6"]


def test_what_differs_without_a_warning_has_the_line_of_the_loop_where_two_traces_part(run: Run) -> None:
    longer = [tensor([[1.0], [2.0], [3.0]])]
    told = run(spec("loops_over_a_part", example_inputs=[tensor([[1.0], [2.0]])], check={"check_inputs": [longer]}))

    assert "tracer-warning" not in told.findings
    assert told.findings["output-differs-elsewhere"].line == 10


def test_torchs_check_can_be_left_out(run: Run) -> None:
    told = run(spec("linear", example_inputs=[tensor([[1.0] * 4])], check={"check_trace": False}))

    assert not told.traced.check.torch.ran


def test_what_torchs_check_says_is_kept(run: Run) -> None:
    told = run(spec("skips_at_random", example_inputs=[X]))

    assert told.traced.check.torch.ran


def test_the_tolerance_is_the_submitters(run: Run) -> None:
    assert (
        run(
            spec("linear", example_inputs=[tensor([[1.0] * 4])], check={"check_tolerance": 0.01})
        ).traced.check.tolerance
        == 0.01
    )


ONES = tensor([1, 1, 1, 1], "INT64")
FLOATS = tensor([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("skips_a_mask_of_ones", [FLOATS, ONES]),
        ("skips_a_mask_equal_to_ones", [FLOATS, ONES]),
        ("indexes_by_a_value", [tensor([3, 3, 3, 3], "INT64")]),
        ("branches_on_equal_inputs", [FLOATS, FLOATS]),
        ("branches_on_equal_inputs", [FLOATS, tensor([4.0, 3.0, 2.0, 1.0])]),
        ("branches_on_large_values", [FLOATS]),
        ("branches_on_nan", [FLOATS]),
    ],
)
def test_a_value_that_decides_what_is_computed_is_found(run: Run, name: str, inputs: list[dict[str, object]]) -> None:
    told = run(spec(name, example_inputs=inputs))

    assert told.verdict is Verdict.REJECTED
    assert "output-differs" in told.findings


@pytest.mark.parametrize("name", ["counts_calls_to_sixty", "counts_calls_in_a_global"])
def test_state_that_each_call_reads_and_changes_is_rejected_before_it_shows(run: Run, name: str) -> None:
    told = run(spec(name, example_inputs=[FLOATS]))

    assert told.verdict is Verdict.REJECTED
    assert "calls" in told.findings["hidden-state"].detail


@pytest.mark.parametrize("name", ["counts_calls_to_sixty", "counts_calls"])
def test_the_line_that_reads_the_state_is_named(run: Run, name: str) -> None:
    told = run(spec(name, example_inputs=[FLOATS]))

    assert told.findings["hidden-state"].source == "self.calls += 1"


def test_an_input_kept_in_a_class_shows_in_the_next_answer(run: Run) -> None:
    told = run(spec("keeps_its_first_input_in_its_class", example_inputs=[FLOATS]))

    assert told.verdict is Verdict.REJECTED
    assert "hidden-state" in told.findings


@pytest.mark.parametrize("name", ["caches_its_mask_in_its_class", "keeps_its_last_output"])
def test_state_that_changes_no_answer_is_not_held_against_the_model(run: Run, name: str) -> None:
    assert run(spec(name, example_inputs=[FLOATS])).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("inputs", [[1.0, 2.0], [1e9, 2e9]])
def test_noise_that_is_lost_beside_the_values_is_found(run: Run, inputs: list[float]) -> None:
    told = run(spec("adds_little_noise", example_inputs=[tensor(inputs)]))

    assert told.verdict is Verdict.VERIFIED
    assert "stochastic" in told.findings


def test_a_value_read_that_no_probe_decides_is_said_to_be_baked(run: Run) -> None:
    told = run(spec("branches_on_data", example_inputs=[X], check={"probes": "off"}))

    read = told.findings["tracer-warning"]
    assert "baked in" in read.detail
    assert read.confirmed is None
    assert read.remedy


def test_a_call_after_which_eager_raises_is_hidden_state(run: Run) -> None:
    told = run(spec("raises_after_large_values", example_inputs=[FLOATS]))

    assert told.verdict is Verdict.REJECTED
    assert "broken" in told.findings["hidden-state"].detail


@pytest.mark.parametrize("entrypoint", ["Net", "net"])
def test_a_hook_that_closes_over_the_model_writes_into_the_copy_it_belongs_to(run: Run, entrypoint: str) -> None:
    assert run(spec("hooks_itself", entrypoint, example_inputs=[X])).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("name", ["writes_a_buffer_anew", "keeps_a_register_of_its_classes"])
def test_an_attribute_that_is_written_before_it_is_read_carries_nothing_on(run: Run, name: str) -> None:
    assert run(spec(name, example_inputs=[X])).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    "place", ["Closure", "Namespace", "Default", "NestedClass", "Array", "Queue", "Bytes", "Global"]
)
def test_a_first_input_that_is_remembered_beside_the_model_is_rejected(run: Run, place: str) -> None:
    article = {"Array": "An", "Bytes": ""}.get(place, "A")
    told = run(spec("remembers_its_first_input", f"In{article}{place}", example_inputs=[X]))

    assert told.verdict is Verdict.REJECTED


def test_a_warning_of_a_branch_points_at_mode_auto(run: Run) -> None:
    told = run(spec("branches_on_data", example_inputs=[X]))

    assert "`mode` be auto" in str(told.findings["tracer-warning"].remedy)


def test_an_encoder_with_a_padding_mask_is_traced_without_its_fast_path(run: Run) -> None:
    told = run(spec("masked_encoder", example_inputs=[ENCODED, PADDING]))

    assert told.verdict is Verdict.VERIFIED
    assert told.traced.contract.without_fast_paths
    assert "fast-paths-off" in told.findings
    assert not any(node.operator == "aten::_transformer_encoder_layer_fwd" for node in told.printouts[1].nodes)


def test_a_scripted_encoder_keeps_its_fast_path(run: Run) -> None:
    told = run(spec("masked_encoder", example_inputs=[ENCODED, PADDING], mode="script"))

    assert told.verdict is Verdict.VERIFIED
    assert not told.traced.contract.without_fast_paths
    assert "fast-paths-off" not in told.findings
