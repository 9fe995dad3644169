"""The submitted files that findings name are kept, to be shown beside them."""

import json
from collections.abc import Callable

import pytest

from tests.submissions import spec, tensor, text
from tests.workers.conftest import Told
from tracehouse.eager import source_excerpts

Run = Callable[..., Told]
X = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])


def test_the_file_that_a_finding_names_is_kept_with_its_text(run: Run) -> None:
    told = run(spec("branches_on_data", example_inputs=[X]))

    assert json.loads(told.files["sources"]) == {"branches_on_data.py": text("branches_on_data")}


def test_without_a_finding_nothing_is_kept(run: Run) -> None:
    told = run(spec("linear", example_inputs=[tensor([[1.0] * 4])]))

    assert json.loads(told.files["sources"]) == {}


def test_what_is_too_large_is_left_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_excerpts, "SOURCES_MAX_BYTES", 10)
    told = run(spec("branches_on_data", example_inputs=[X]))

    assert json.loads(told.files["sources"]) == {}
