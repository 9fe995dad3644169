"""`tracehouse verify` holds an archive to the contract and the golden cases in it, and no service runs."""

import io
import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from service.cli import app
from service.cli.contract_table import contract_table
from service.sandbox.zygote import Zygote
from service.storage.blobs import Blobs
from tests.conftest import Trace
from tracehouse.artifact.archive_extras import CHECK, CONTRACT, GOLDEN, CheckSummary
from tracehouse.artifact.manifest import Versions
from tracehouse.contract.contract import MethodContract, OtherRanks
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import Region, Span
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Datatype


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Flattened(torch.nn.Module):
    """Its trace keeps the number of rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(int(x.shape[0]), -1) * 2


class Times(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


@pytest.fixture
def starts_its_own() -> None:
    """What a test asks for in which the command starts the process that it forks runners from."""


@pytest.fixture(autouse=True)
def _forks_from_the_tests_own(
    request: pytest.FixtureRequest, torch_zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All others share one, which takes seconds to start."""
    if "starts_its_own" not in request.fixturenames:
        monkeypatch.setattr("service.sandbox.zygote.Zygote", lambda *_, **__: nullcontext(torch_zygote))


def verify(archive: Path) -> Result:
    return CliRunner().invoke(app, ["verify", str(archive)])


def open_batch(method: MethodContract) -> MethodContract:
    """Its first dim goes from 1 to 8."""
    inputs = [
        InputSpec(name=one.name, datatype=one.datatype, shape=("batch", 2), example=(3, 2)) for one in method.inputs
    ]
    outputs = [OutputSpec(name=one.name, datatype=one.datatype, shape=("batch", 2)) for one in method.outputs]
    regions = [Region(spans={"batch": [Span(low=1, high=8)]}, basis="proven")]
    return method.model_copy(update={"inputs": inputs, "outputs": outputs, "regions": regions})


@pytest.fixture
def packed(tmp_path: Path, trace: Trace) -> Callable[..., Path]:
    """An archive of the module with the contract that is given, and the golden cases of a trace of it."""

    def packed(
        module: torch.nn.Module,
        *,
        serves: torch.nn.Module | None = None,
        verdict: Verdict = Verdict.VERIFIED,
        torch_version: str = torch.__version__,
        leaves_out: str | None = None,
        contract: Callable[[MethodContract], MethodContract] = open_batch,
        dtype: torch.dtype = torch.float32,
    ) -> Path:
        example = torch.ones(3, 2, dtype=dtype)
        blobs = Blobs((tmp_path / "blobs").as_uri())
        made = trace(blobs, module, example)
        with blobs.open(made.golden.digest) as file:
            golden = file.read()
        of_contract = made.contract.model_copy(
            update={"methods": {"forward": contract(made.contract.methods["forward"])}}
        )
        summary = CheckSummary(
            verdict=verdict,
            tolerance=1e-5,
            device="cpu",
            form="traced",
            served_form=None,
            findings=[],
            versions=Versions(torch=torch_version, python="3", tracehouse="0"),
        )
        extra = {CONTRACT: of_contract.model_dump_json(), CHECK: summary.model_dump_json(), GOLDEN: golden}
        extra.pop(leaves_out or "", None)
        served = trace(blobs, serves or module, example)
        with blobs.open(served.archive.digest) as file:
            loaded = torch.jit.load(io.BytesIO(file.read()))
        path = tmp_path / "net.pt"
        torch.jit.save(loaded, path, _extra_files=extra)
        return path

    return packed


def forged(archive: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The archive with a contract that Tracehouse would not write."""
    extra = {CONTRACT: "", CHECK: "", GOLDEN: ""}
    loaded = torch.jit.load(archive, _extra_files=extra)
    contract = json.loads(extra[CONTRACT])
    change(contract["methods"]["forward"])
    path = archive.with_name("forged.pt")
    torch.jit.save(loaded, path, _extra_files=extra | {CONTRACT: json.dumps(contract)})
    return path


@pytest.mark.usefixtures("starts_its_own")
def test_an_archive_that_keeps_its_contract_is_verified(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled()))

    assert ended.exit_code == 0, ended.output
    assert "batch x 2" in ended.stdout
    assert "batch 1 to 8 (proven)" in ended.stdout
    assert "ok    verdict              verified (findings: none)" in ended.stdout
    assert "ok    golden cases         1 give what eager gave, within 0.0001" in ended.stdout
    assert (
        "ok    forward              6 drawn inputs of 3 sizes are answered with the contract's datatypes and shapes"
        in ended.stdout
    )


def open_ranks(method: MethodContract) -> MethodContract:
    """It takes x as [batch, 2] and, as no golden case shows, as [2]."""
    opened = open_batch(method)
    inputs = [one.model_copy(update={"shape": (2,), "example": (2,)}) for one in opened.inputs]
    outputs = [one.model_copy(update={"shape": (2,)}) for one in opened.outputs]
    return opened.model_copy(update={"other_ranks": [OtherRanks(inputs=inputs, outputs=outputs)]})


def test_ranks_that_no_golden_case_has_are_named(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled(), contract=open_ranks))

    assert ended.exit_code == 0, ended.output
    assert "no golden case has 'x' with 1 dims" in ended.stdout


def test_an_archive_that_breaks_its_contract_at_another_size_fails(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Flattened()))

    assert ended.exit_code == 1
    assert "FAIL  forward              batch " in ended.stdout


def follow(method: MethodContract, *, follows: bool = True) -> MethodContract:
    """The input may have several datatypes, and the output has the input's if it follows it."""
    opened = open_batch(method)
    inputs = [one.model_copy(update={"datatypes": [Datatype.FP32, Datatype.BF16]}) for one in opened.inputs]
    outputs = [one.model_copy(update={"datatype_of": "x" if follows else None}) for one in opened.outputs]
    return opened.model_copy(update={"inputs": inputs, "outputs": outputs})


def test_each_datatype_of_an_input_is_sent(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled(), contract=follow))

    assert ended.exit_code == 0, ended.output
    assert "FP32 or BF16" in ended.stdout
    assert "as x" in ended.stdout
    assert (
        "10 drawn inputs of 3 sizes and 2 combinations of datatypes are answered with the contract's datatypes "
        "and shapes" in " ".join(ended.stdout.split())
    )


def test_an_output_that_does_not_have_the_datatype_of_the_contract_fails(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled(), contract=lambda method: follow(method, follows=False)))

    assert ended.exit_code == 1
    assert "x BF16: 'output' is BF16, not FP32" in " ".join(ended.stdout.split())


def test_an_archive_whose_golden_cases_differ_fails(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled(), serves=Times(3.0)))

    assert ended.exit_code == 1
    assert "FAIL  golden cases         a golden case differs in " in ended.stdout


def test_an_archive_that_was_compared_with_itself_is_said_to_be_so(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled(), verdict=Verdict.SELF_CONSISTENT))

    assert ended.exit_code == 0
    assert "WARN  verdict              self-consistent" in ended.stdout
    assert "give what the archive itself gave" in ended.stdout


def test_an_archive_that_was_rejected_fails(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled(), verdict=Verdict.REJECTED))

    assert ended.exit_code == 1
    assert "FAIL  verdict              rejected" in ended.stdout


def test_another_torch_than_the_one_it_was_made_with_is_told(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled(), torch_version="1.13.0"))

    assert ended.exit_code == 0
    assert f"WARN  torch                {torch.__version__} here, made with 1.13.0" in ended.stdout


def test_outputs_that_the_contract_does_not_name_fail(packed: Callable[..., Path]) -> None:
    def of_other_shape(method: MethodContract) -> MethodContract:
        opened = open_batch(method)
        outputs = [one.model_copy(update={"shape": ("batch", 3)}) for one in opened.outputs]
        return opened.model_copy(update={"outputs": outputs})

    ended = verify(packed(Doubled(), contract=of_other_shape))

    assert ended.exit_code == 1
    assert "'output' is [3, 2], not [3, 3]" in ended.stdout


@pytest.mark.parametrize("name", [CONTRACT, CHECK])
def test_an_archive_without_a_contract_is_not_verified(packed: Callable[..., Path], name: str) -> None:
    ended = verify(packed(Doubled(), leaves_out=name))

    assert ended.exit_code == 2
    assert f"The archive has no {name}" in ended.stderr


class Weighted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((2,), 1.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight.sum()


def test_an_archive_of_which_a_bit_has_changed_is_not_verified(packed: Callable[..., Path]) -> None:
    path = packed(Weighted())
    data = bytearray(path.read_bytes())
    data[data.index(torch.full((2,), 1.5).numpy().tobytes())] ^= 1  # less than the tolerance
    path.write_bytes(data)

    found = verify(path)

    assert found.exit_code == 2, found.output
    assert "net/data/0 is damaged" in " ".join(found.output.split())


def test_a_contract_of_other_datatypes_than_the_golden_cases_have_fails(packed: Callable[..., Path]) -> None:
    found = verify(forged(packed(Doubled()), lambda method: method["inputs"][0].update(datatype="FP64")))

    assert found.exit_code == 1, found.output
    assert "'x' is FP32, not FP64" in " ".join(found.output.split())


def test_of_a_contract_that_cannot_be_read_the_place_is_told(packed: Callable[..., Path]) -> None:
    found = verify(forged(packed(Doubled()), lambda method: method["inputs"][0].update(shape=["batch", -3])))

    assert found.exit_code == 2
    assert "methods/forward/inputs/0/shape" in "".join(found.output.split())
    assert "pydantic" not in found.output


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "net.pt")

    found = verify(tmp_path / "net.pt")

    assert (found.exit_code, "is not a file" in found.output) == (2, True)


def test_a_file_that_is_no_archive_is_not_verified(tmp_path: Path) -> None:
    path = tmp_path / "notes.pt"
    path.write_text(json.dumps({"no": "archive"}) * 100)

    ended = verify(path)

    assert ended.exit_code == 2
    assert "it is no archive as torch.jit.save writes it" in ended.stderr


@pytest.mark.parametrize("dim", ["no size!", "other", "batch+other", -2, 2**60])
def test_a_contract_whose_output_has_an_unknown_symbol_is_refused(packed: Callable[..., Path], dim: str | int) -> None:
    def change(method: dict[str, Any]) -> None:
        method["outputs"][0]["shape"] = [dim, 2]

    ended = verify(forged(packed(Doubled()), change))

    assert ended.exit_code == 2
    assert "The contract in the archive cannot be read" in ended.stderr


def test_sizes_at_which_a_dim_would_be_negative_are_left_out(packed: Callable[..., Path]) -> None:
    def change(method: dict[str, Any]) -> None:
        method["inputs"][0]["shape"] = ["batch-4", 2]
        method["outputs"][0]["shape"] = [-1, 2]

    ended = verify(forged(packed(Doubled()), change))

    assert ended.exit_code == 0
    assert "WARN  forward              1 sizes are none: a dim would be less than nothing" in ended.stdout


def test_golden_cases_of_sizes_that_the_contract_cannot_have_fail(packed: Callable[..., Path]) -> None:
    def change(method: dict[str, Any]) -> None:
        method["inputs"][0] |= {"shape": ["batch", "batch"], "example": [3, 3], "fixed": {}}

    ended = verify(forged(packed(Doubled()), change))

    assert ended.exit_code == 1
    assert "FAIL " in ended.stdout


@pytest.mark.parametrize(("end", "code"), [(2**40, 0), (2**70, 2)])
def test_values_beyond_what_the_datatype_has_are_not_drawn(packed: Callable[..., Path], end: int, code: int) -> None:
    def change(method: dict[str, Any]) -> None:
        method["inputs"][0]["values"] = {"low": -end, "high": end, "basis": "tested"}

    ended = verify(forged(packed(Doubled(), dtype=torch.int32), change))

    assert ended.exit_code == code, ended.output


def test_names_in_brackets_are_shown_as_they_are() -> None:
    leaf = {"name": "batch.[/b][red]", "datatype": "FP32", "shape": [2], "fixed": {}}
    shown = io.StringIO()

    Console(file=shown, width=100).print(
        contract_table({"methods": {"[/i]": {"inputs": [leaf], "outputs": [], "regions": []}}})
    )

    assert "[/i]" in shown.getvalue()
    assert "batch.[/b][red]" in shown.getvalue()


def test_a_golden_case_has_room_for_what_operators_round_otherwise_elsewhere(packed: Callable[..., Path]) -> None:
    rounded, wrong = (verify(packed(Doubled(), serves=Times(2 * (1 + off)))) for off in (5e-5, 5e-4))

    assert "ok    golden cases" in rounded.stdout
    assert "FAIL  golden cases" in wrong.stdout
