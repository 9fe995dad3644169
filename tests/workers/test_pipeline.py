"""The layers of the check together: what they find, claim and offer of one submission."""

from collections.abc import Callable

import pytest

from tests.submissions import spec, tensor
from tests.workers.conftest import BUDGET_S, Told
from tracehouse.findings.verdict import Verdict

Run = Callable[..., Told]
X = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
LAYERS = ["observe", "sizes", "prove", "graphs", "flip", "calls", "probe", "batch"]


def test_each_layer_is_told_as_it_ends_and_kept(run: Run) -> None:
    told = run(spec("linear", example_inputs=[tensor([[1.0] * 4])]))

    assert [layer.name for layer in told.layers] == LAYERS
    assert told.traced.check.layers == told.layers
    assert all(layer.summary for layer in told.layers)


def test_layers_say_what_they_did_in_plain_sentences(run: Run) -> None:
    told = run(spec("branches_on_data", example_inputs=[X]))

    summary = {layer.name: layer.summary for layer in told.layers}
    assert summary["observe"].startswith("1 read of values")
    assert summary["flip"] == "1 read: 1 harmful"
    assert summary["probe"] == "other values at the example's sizes"


def test_what_the_proof_settles_is_not_tried_by_traces_and_calls(run: Run) -> None:
    told = run(spec("linear", example_inputs=[tensor([[1.0] * 4])]))

    summary = {layer.name: layer.summary for layer in told.layers}
    assert summary["prove"] == "256 of 256 sizes proven, 0 refused by the model; 2 runs"
    assert summary["flip"] == "nothing: the proof settles what the model reads"


def test_a_proof_that_a_harmless_read_stopped_is_made_again(run: Run) -> None:
    told = run(spec("logs_a_value", example_inputs=[X]))

    names = [layer.name for layer in told.traced.check.layers]
    assert names == ["observe", "sizes", "graphs", "flip", "prove", "calls", "probe", "batch"]
    [claim] = told.traced.claims.values()
    assert [region.basis for region in claim.regions] == ["proven"]


def test_layers_say_what_they_took_of_the_budget(run: Run) -> None:
    told = run(spec("branches_on_data", example_inputs=[X]))

    took_s = [layer.budget_s or 0.0 for layer in told.layers]
    assert min(took_s) >= 0.0
    assert 0.0 < sum(took_s) <= BUDGET_S


def test_reads_of_sizes_are_told_apart_from_those_of_values(run: Run) -> None:
    told = run(spec("loops_and_branches", example_inputs=[X]))

    [summary] = [layer.summary for layer in told.layers if layer.name == "flip"]
    assert "1 read of sizes, which calls of other sizes judge" in summary
    assert "1 read: 1 harmful" in summary


def test_every_batch_of_a_linear_layer_is_proven(run: Run) -> None:
    told = run(spec("linear", example_inputs=[tensor([[1.0] * 4])]))

    [claim] = told.traced.claims.values()
    [region] = claim.regions
    assert told.verdict is Verdict.VERIFIED
    assert [*claim.shapes.values()] == [("batch", 4)]
    assert [*claim.fixed.values()] == [{"1": "model"}]
    assert (str(region), region.basis) == ("batch 1 to 256", "proven")
    assert claim.batch is not None
    assert claim.batch.symbol == "batch"


def test_a_size_that_is_kept_restricts_at_its_line_and_closes_the_dim(run: Run) -> None:
    ids = tensor([[1, 2, 3], [4, 5, 7]], "INT64")
    told = run(spec("keeps_its_length", example_inputs=[ids, ids]))

    baked = told.findings["baked-size"]
    assert told.verdict is Verdict.RESTRICTED
    assert baked.source == "positions = torch.arange(int(ids.shape[1]))"
    assert baked.confirmed
    assert "keeps the example's size of dim 1 of ids and dim 1 of mask: with ids [2, 4]" in baked.detail
    assert "a trace at that size has 4 in place of 3 in aten::arange" in baked.detail
    [claim] = told.traced.claims.values()
    assert "trace" in {reason for reasons in claim.fixed.values() for reason in reasons.values()}
    assert any(case.name.startswith("counterexample: size of") for case in told.offered)


def test_a_loop_over_a_size_is_told_with_what_to_write_in_its_place(run: Run) -> None:
    told = run(spec("loops_over_its_rows", example_inputs=[X]))

    baked = told.findings["baked-size"]
    assert "a trace at that size has more steps" in baked.detail
    assert isinstance(divergence := baked.evidence["divergence"], dict)
    assert divergence["kind"] == "struct"
    assert (baked.remedy or "").startswith("the trace repeats the loop over `range(x.shape[1])` as often as it ran")
    assert "`mode` be auto" in (baked.remedy or "")


def test_a_branch_on_values_is_blamed_on_its_line_and_nothing_is_claimed(run: Run) -> None:
    told = run(spec("branches_on_data", example_inputs=[X]))

    baked = told.findings["baked-value"]
    assert told.verdict is Verdict.REJECTED
    assert (baked.line, baked.effect, baked.confirmed) == (6, "harmful", True)
    assert (baked.reason or "").startswith("the answers differ on inputs that take another side")
    assert isinstance(baked.evidence["divergence"], dict)
    assert "torch.where(x.sum() > 0" in (baked.remedy or "")
    assert told.findings["tracer-warning"].effect == "harmful"
    assert not told.traced.claims


def test_a_warning_that_does_no_harm_says_why(run: Run) -> None:
    told = run(spec("logs_a_value", example_inputs=[X]))

    warning = told.findings["tracer-warning"]
    assert told.verdict is Verdict.VERIFIED
    assert warning.effect == "harmless"
    assert warning.reason


def test_a_read_that_there_was_no_time_to_judge_counts_against_the_trace(run: Run) -> None:
    told = run(spec("logs_a_value", example_inputs=[X], check={"budget_s": 1e-6}))

    baked = told.findings["baked-value"]
    assert told.verdict is Verdict.REJECTED
    assert (baked.line, baked.effect, baked.confirmed) == (told.findings["tracer-warning"].line, "unknown", False)
    assert "raise budget_s" in (baked.remedy or "")


def test_a_model_that_keeps_its_first_size_is_right_there_alone(run: Run) -> None:
    told = run(spec("caches_its_mask", example_inputs=[tensor([[1.0, 2.0], [3.0, 4.0]])]))

    kept = told.findings["keeps-a-size"]
    assert told.verdict is Verdict.VERIFIED
    assert kept.source == "if self.mask is None:"
    assert not told.traced.claims


def test_an_example_without_values_breaks_no_layer_off(run: Run) -> None:
    told = run(spec("linear", example_inputs=[{"datatype": "FP32", "shape": [0, 4], "data": []}]))

    assert told.verdict is Verdict.VERIFIED
    assert "layer-failed" not in told.findings


def test_without_probes_nothing_is_claimed_and_no_layer_runs(run: Run) -> None:
    told = run(spec("linear", example_inputs=[tensor([[1.0] * 4])], check={"probes": "off"}))

    assert not told.layers
    assert not told.traced.claims


def test_what_the_budget_cuts_is_listed(run: Run) -> None:
    told = run(spec("linear", example_inputs=[tensor([[1.0] * 4])], check={"budget_s": 1e-6}))

    assert [layer.name for layer in told.layers] == LAYERS
    assert any(layer.left_out for layer in told.layers)


def test_a_declared_size_that_the_model_refuses_is_fixed_and_reported(run: Run) -> None:
    told = run(spec("linear", example_inputs=[tensor([[1.0] * 4])], dynamic={"x": {"0": "rows", "1": "width"}}))

    [claim] = told.traced.claims.values()
    assert (claim.shapes, claim.fixed) == ({"x": ("rows", 4)}, {"x": {"1": "model"}})
    refused = told.findings["dynamic-refused"]
    assert "dim 1 of x was declared to vary as width" in refused.detail
    assert told.verdict is Verdict.VERIFIED


@pytest.mark.parametrize("dims", [{"x": {"0": "rows"}}])
def test_declared_sizes_alone_are_checked_for_the_wanted_range(run: Run, dims: dict[str, dict[str, str]]) -> None:
    wanted = {"rows": {"low": 2, "high": 9}}
    told = run(spec("linear", example_inputs=[tensor([[1.0] * 4] * 2)], dynamic=dims, sizes=wanted))

    [claim] = told.traced.claims.values()
    assert claim.shapes == {"x": ("rows", 4)}
    assert [str(region) for region in claim.regions] == ["rows 2 to 9"]


def test_other_layouts_are_tried_and_make_no_verdict(run: Run) -> None:
    told = run(spec("asks_for_its_strides", example_inputs=[X]))

    assert told.verdict is Verdict.VERIFIED
    assert told.findings["layout-differs"].confirmed


def test_a_named_budget_grows_with_the_first_call_and_is_bounded(run: Callable[..., Told]) -> None:
    check = {"probes": "off", "budget": "deep"}
    submitted = spec("linear", example_inputs=[tensor([[1.0] * 4])], check=check)

    free, bounded = run(submitted, budget_most_s=1e6).traced.check, run(submitted, budget_most_s=20.0).traced.check

    assert free.budget == bounded.budget == "deep"
    assert free.budget_s is not None
    assert free.budget_s > 120.0
    assert bounded.budget_s == 20.0
