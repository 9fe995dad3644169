"""The figures of benchmarks/check_quality.py do not fall behind those kept in figures.json, which are its summary's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CORPUS = Path(__file__).parent
BENCHMARK = CORPUS.parents[1] / "benchmarks" / "check_quality.py"


@pytest.mark.slow
def test_the_check_is_as_good_as_it_was(tmp_path: Path) -> None:
    written = tmp_path / "figures.json"
    shown = subprocess.run(
        [sys.executable, BENCHMARK, "--ours", "--json", written], check=True, capture_output=True, text=True
    ).stdout
    kept = json.loads((CORPUS / "figures.json").read_text())
    now = json.loads(written.read_text())["summary"]
    assert now["found"] >= kept["found"], shown
    assert now["lines_right"] >= kept["lines_right"], shown
    assert now["false_alarms"] <= kept["false_alarms"], shown
    assert now["closed_though_right"] <= kept["closed_though_right"], shown
