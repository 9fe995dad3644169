"""The figures of benchmarks/check_quality.py do not fall behind those of its summaries that figures.json keeps."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).parent
BENCHMARK = CORPUS.parents[1] / "benchmarks" / "check_quality.py"
DEFAULT, JUDGED = "15 s", "120 s"  # at the larger budget, what is found does not hang on how fast the machine is


@pytest.mark.slow
def test_the_check_is_as_good_as_it_was(tmp_path: Path) -> None:
    written = tmp_path / "figures.json"
    subprocess.run([sys.executable, BENCHMARK, "--ours", "--json", written], check=True, stdout=subprocess.DEVNULL)
    figures = json.loads(written.read_text())
    kept = json.loads((CORPUS / "figures.json").read_text())
    show(figures, kept)
    measured, kept = figures[JUDGED], kept[JUDGED]
    now, models = measured["summary"], {name: row["ours"] for name, row in measured["models"].items()}
    not_good = {name: one for name, one in models.items() if one["outcome"] not in ("found", "right")}
    wrong_lines = [name for name, one in models.items() if one["outcome"] == "found" and one["line"] is False]
    assert now["found"] >= kept["found"], not_good
    assert now["lines_right"] >= kept["lines_right"], wrong_lines
    assert now["false_alarms"] <= kept["false_alarms"], not_good
    assert now["closed_though_right"] <= kept["closed_though_right"], not_good


def show(figures: dict[str, Any], kept: dict[str, Any]) -> None:
    """Print the figures of each budget beside the kept ones: pytest shows them with -rP, or where one is worse."""
    for budget in (DEFAULT, JUDGED):
        for name, figure in kept[budget].items():
            print(f"{budget:>6} {name:<24} {figures[budget]['summary'][name]:>5}, kept: {figure}")
