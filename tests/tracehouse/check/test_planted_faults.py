"""Faults planted in archives are found, and untouched archives are not taken for wrong: some of the benchmark's."""

import json

import pytest
import torch

from benchmarks.planted_faults import KEPT, forms_of, is_worse, judge, make_subject, plant


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["gated", "mlp with layer norm"])
def test_small_faults_are_found_and_nothing_else(name: str, dtype: torch.dtype) -> None:
    subject = make_subject(name, dtype, seed=0)

    assert [fault for fault, archive in plant(subject, seed=0) if judge(subject, archive).agrees] == []
    assert [form for form, archive in forms_of(subject) if not judge(subject, archive).agrees] == []


def test_a_fixed_tolerance_takes_a_moved_constant_for_rounding() -> None:
    subject = make_subject("gated", torch.float32, seed=0)
    moved = [archive for fault, archive in plant(subject, seed=0) if fault == "moved constant"]

    assert all(judge(subject, archive, fixed=True).agrees for archive in moved)


def test_the_kept_figures_are_good_and_fewer_found_or_a_false_alarm_is_worse() -> None:
    kept = json.loads(KEPT.read_text())["planted faults"]

    assert kept["found"] >= 0.95 * kept["planted"]
    assert kept["false_alarms"] == 0
    assert is_worse(kept, kept) is None
    assert is_worse({**kept, "found": kept["found"] - 1}, kept)
    assert is_worse({**kept, "false_alarms": 1}, kept)
