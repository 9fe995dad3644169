"""The verdict's sentence: what the check could not finish stands beside the verdict."""

from typing import Any

import pytest

from tests.contracts import contract
from tracehouse.contract.contract import Contract
from tracehouse.findings import coverage
from tracehouse.findings.finding import Finding
from tracehouse.findings.source_lines import UNKNOWN_LINE
from tracehouse.findings.trace_check import Layer, TorchCheck, TraceCheck
from tracehouse.findings.verdict import Verdict
from tracehouse.findings.verdict_sentence import verdict_sentence

CONTRACT = contract({"ids": ("batch", "seq")}, {"batch": "1..8", "seq": "1 8"}, {"batch": "2", "seq": "64"})


def check(verdict: Verdict = Verdict.VERIFIED, *findings: Finding, **left_out: list[str]) -> TraceCheck:
    layers: list[Any] = [
        Layer.model_validate({"name": name, "method": "forward", "seconds": 1.0, "summary": "", "left_out": what})
        for name, what in left_out.items()
    ]
    return TraceCheck(verdict=verdict, comparisons=[], findings=[*findings], torch=TorchCheck(ran=False), layers=layers)


def broke_off(layer: str) -> Finding:
    return coverage.layer_failed(layer, "forward", "RuntimeError: no", UNKNOWN_LINE)


def test_a_check_that_was_finished_is_the_verdict_alone() -> None:
    assert verdict_sentence(check(prove=[]), CONTRACT) == "verified"
    assert verdict_sentence(check(prove=[]), CONTRACT, aside=", here") == "verified, here"


def test_a_layer_that_broke_off_is_said_with_the_sizes_that_are_only_tested() -> None:
    assert verdict_sentence(check(Verdict.VERIFIED, broke_off("prove"), prove=[]), CONTRACT) == (
        "verified, but the check is incomplete: not checked to the end, of forward: for which sizes the trace is "
        "right, proven for all of them (that part of the check broke off); "
        "batch 1 to 8, seq 1 or 8 (and 1 more) were only tested"
    )


def test_a_layer_that_was_cut_says_what_it_left_out() -> None:
    assert verdict_sentence(check(flip=["a read at net.py:3 was not tried", "another"]), CONTRACT) == (
        "verified, but the check is incomplete: not checked to the end, of forward: whether the values that Python "
        "reads change the answer (a read at net.py:3 was not tried, and 1 more)"
    )


def test_sizes_are_said_to_be_only_tested_if_the_proof_was_cut() -> None:
    assert "were only tested" in verdict_sentence(check(prove=["sizes from seq 9 on are not proven"]), CONTRACT)
    proven = Contract.model_validate_json(CONTRACT.model_dump_json().replace('"tested"', '"proven"'))
    assert "were only" not in verdict_sentence(check(prove=["sizes from seq 9 on are not proven"]), proven)


def test_what_could_not_be_done_in_any_time_is_no_cut() -> None:
    gap = Layer(name="prove", method="forward", seconds=1.0, summary="", left_out=["a branch"], is_cut=False)
    whole = check().model_copy(update={"layers": [gap]})

    assert verdict_sentence(whole, CONTRACT) == "verified"


def test_probes_and_a_verification_that_ran_out_of_time_are_said() -> None:
    found = [coverage.probes_left_out(["zeros"], "too slow"), coverage.sizes_left_out("forward", ["seq 9"], 4.5)]

    assert verdict_sentence(check(Verdict.SELF_CONSISTENT, *found), CONTRACT) == (
        "self-consistent, but the check is incomplete: some probes were not tried; "
        "some sizes were not verified within the time"
    )


@pytest.mark.parametrize(("verdict", "is_said"), [(Verdict.RESTRICTED, True), (Verdict.REJECTED, False)])
def test_a_rejected_artifact_is_wrong_whatever_was_left_out(verdict: Verdict, is_said: bool) -> None:
    assert ("incomplete" in verdict_sentence(check(verdict, broke_off("flip")), CONTRACT)) is is_said


def test_a_layer_that_only_another_release_has_is_named() -> None:
    sentence = verdict_sentence(check(Verdict.VERIFIED, broke_off("guess")), CONTRACT)

    assert "not checked to the end, of forward: what the layer guess finds out (" in sentence


def test_the_sentence_is_short_however_much_was_left_out() -> None:
    names = ("observe", "graphs", "flip", "prove", "probe", "batch")
    sentence = verdict_sentence(check(**{name: ["x" * 5000] * 50 for name in names}), CONTRACT)

    assert len(sentence) < 1000
    assert sentence.endswith("; and 3 more")


@pytest.mark.parametrize(
    ("verdict", "said"), [(Verdict.VERIFIED, "verified, with random answers"), (Verdict.REJECTED, "rejected")]
)
def test_random_answers_are_said_beside_the_verdict(verdict: Verdict, said: str) -> None:
    assert verdict_sentence(check(verdict, prove=[]), CONTRACT.with_stochastic(["forward"])).startswith(said)
