"""Findings of what was not compared."""

from tracehouse.findings.coverage import sizes_left_out


def test_each_size_that_is_left_out_is_told_once() -> None:
    [one, two] = [sizes_left_out("forward", sizes, 4.5) for sizes in (["batch 9"] * 2, ["batch 9", "batch 17"])]

    assert "one was not compared once more in 4.5 s: batch 9" in one.detail
    assert "2 were not compared" in two.detail
    assert one.evidence["sizes"] == ["batch 9"]
