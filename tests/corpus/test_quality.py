"""The figures of benchmarks/check_quality.py do not fall behind those kept in figures.json, which are its summary's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CORPUS = Path(__file__).parent
BENCHMARK = CORPUS.parents[1] / "benchmarks" / "check_quality.py"
BUDGET_S = 120  # so that what is found does not hang on how fast the machine is


@pytest.mark.slow
def test_the_check_is_as_good_as_it_was(tmp_path: Path) -> None:
    written = tmp_path / "figures.json"
    told = ["--ours", "--budget", str(BUDGET_S), "--json", str(written)]
    subprocess.run([sys.executable, BENCHMARK, *told], check=True, stdout=subprocess.DEVNULL)
    kept = json.loads((CORPUS / "figures.json").read_text())
    measured = json.loads(written.read_text())
    now, models = measured["summary"], {name: row["ours"] for name, row in measured["models"].items()}
    not_good = {name: one for name, one in models.items() if one["outcome"] not in ("found", "right")}
    wrong_lines = [name for name, one in models.items() if one["outcome"] == "found" and one["line"] is False]
    assert now["found"] >= kept["found"], not_good
    assert now["lines_right"] >= kept["lines_right"], wrong_lines
    assert now["false_alarms"] <= kept["false_alarms"], not_good
    assert now["closed_though_right"] <= kept["closed_though_right"], not_good
