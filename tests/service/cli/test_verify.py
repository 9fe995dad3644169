"""`tracehouse verify` holds an archive to the contract and the golden cases in it, and no service runs."""

import base64
import hashlib
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
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from rich.console import Console
from typer.testing import CliRunner

from service.cli import app
from service.cli.contract_table import contract_table
from service.sandbox.zygote import Zygote
from service.signing.signer import Signer
from service.storage.local_blobs import LocalBlobs
from tests.conftest import Trace, make_artifact
from tracehouse.artifact.archive_extras import CHECK, CONTRACT, GOLDEN, CheckSummary
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.manifest import Versions
from tracehouse.contract.contract import Contract, MethodContract, OtherRanks
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import Region, Span
from tracehouse.findings.trace_check import TorchCheck, TraceCheck
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


# Every check passed, and the verdict was only read.
ONLY_READ = 3


def verify(archive: Path, *options: str | Path) -> Result:
    return CliRunner().invoke(app, ["verify", str(archive), *map(str, options)])


def sections(ended: Result) -> tuple[str, str, str]:
    """What was only read, what was checked here, and whose word it is."""
    read, _, rest = ended.stdout.partition("Checked here\n")
    checked, _, word = rest.partition("Whose word it is")
    assert "Only read from the file" in read, ended.output
    return read, checked, word


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
        blobs = LocalBlobs(tmp_path / "blobs")
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
def test_what_is_checked_is_apart_from_what_is_only_read(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled()))

    assert ended.exit_code == ONLY_READ, ended.output
    read, checked, word = sections(ended)
    assert "batch x 2" in read
    assert "batch 1 to 8 (proven)" in read
    assert "read  verdict              verified" in read
    assert "read  findings             none" in read
    assert f"read  torch                made with {torch.__version__}" in read
    assert "read  golden cases         with the outputs that eager gave" in read
    assert "ok " not in read
    assert "ok    archive              its records have their checksums, and it loads" in checked
    assert "ok    golden cases         1 give the outputs that the file has for them, within 0.0001" in checked
    assert (
        "ok    method forward       6 drawn inputs of 3 sizes are answered with the contract's datatypes and shapes"
        in checked
    )
    assert "unknown" in word
    assert "ok " not in word


def test_what_is_read_and_what_is_checked_are_apart_for_programs_too(packed: Callable[..., Path]) -> None:
    archive = packed(Doubled())

    ended = verify(archive, "--json")

    document = json.loads(ended.stdout)
    assert ended.exit_code == ONLY_READ
    assert document["digest"] == f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"
    assert document["passed"]
    assert document["only_read"]["contract"]["methods"]["forward"]["inputs"][0]["shape"] == ["batch", 2]
    assert {"mark": "read", "what": "verdict", "text": "verified"} in document["only_read"]["claims"]
    assert {one["mark"] for one in document["only_read"]["claims"]} == {"read"}
    assert [one["what"] for one in document["checked"]][:2] == ["archive", "golden cases"]
    assert {one["mark"] for one in document["checked"]} == {"ok"}
    assert document["origin"] is None


def test_programs_read_whose_word_it_is(packed: Callable[..., Path]) -> None:
    archive = packed(Doubled())
    own = f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"

    known = verify(archive, "--digest", own, "--json")
    other = verify(archive, "--digest", f"sha256:{'0' * 64}", "--json")

    assert (known.exit_code, other.exit_code) == (0, 1)
    assert [one["mark"] for one in json.loads(known.stdout)["origin"]] == ["ok"]
    document = json.loads(other.stdout)
    assert [one["mark"] for one in document["origin"]] == ["FAIL"]
    assert not document["passed"]
    assert document["only_read"] == {"contract": None, "claims": []}


def open_ranks(method: MethodContract) -> MethodContract:
    """It takes x as [batch, 2] and, as no golden case shows, as [2]."""
    opened = open_batch(method)
    inputs = [one.model_copy(update={"shape": (2,), "example": (2,)}) for one in opened.inputs]
    outputs = [one.model_copy(update={"shape": (2,)}) for one in opened.outputs]
    return opened.model_copy(update={"other_ranks": [OtherRanks(inputs=inputs, outputs=outputs)]})


def test_ranks_that_no_golden_case_has_are_named(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled(), contract=open_ranks))

    assert ended.exit_code == ONLY_READ, ended.output
    assert "no golden case has 'x' with 1 dims" in ended.stdout


def test_an_archive_that_breaks_its_contract_at_another_size_fails(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Flattened()))

    assert ended.exit_code == 1
    assert "FAIL  method forward       batch " in ended.stdout


def follow(method: MethodContract, *, follows: bool = True) -> MethodContract:
    """The input may have several datatypes, and the output has the input's if it follows it."""
    opened = open_batch(method)
    inputs = [one.model_copy(update={"datatypes": [Datatype.FP32, Datatype.BF16]}) for one in opened.inputs]
    outputs = [one.model_copy(update={"datatype_of": "x" if follows else None}) for one in opened.outputs]
    return opened.model_copy(update={"inputs": inputs, "outputs": outputs})


def test_each_datatype_of_an_input_is_sent(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled(), contract=follow))

    assert ended.exit_code == ONLY_READ, ended.output
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

    assert ended.exit_code == ONLY_READ
    assert "WARN  verdict              self-consistent" in ended.stdout
    assert "with the outputs that the archive itself gave" in ended.stdout


def test_an_archive_that_was_rejected_fails(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled(), verdict=Verdict.REJECTED))

    assert ended.exit_code == 1
    assert "FAIL  verdict              rejected" in ended.stdout


def test_another_torch_than_the_one_it_was_made_with_is_told(packed: Callable[..., Path]) -> None:
    ended = verify(packed(Doubled(), torch_version="1.13.0"))

    assert ended.exit_code == ONLY_READ
    assert f"WARN  torch                made with 1.13.0; here is {torch.__version__}" in ended.stdout


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

    assert ended.exit_code == ONLY_READ
    assert "WARN  method forward       1 sizes are none: a dim would be less than nothing" in ended.stdout


def test_golden_cases_of_sizes_that_the_contract_cannot_have_fail(packed: Callable[..., Path]) -> None:
    def change(method: dict[str, Any]) -> None:
        method["inputs"][0] |= {"shape": ["batch", "batch"], "example": [3, 3], "fixed": {}}

    ended = verify(forged(packed(Doubled()), change))

    assert ended.exit_code == 1
    assert "FAIL " in ended.stdout


@pytest.mark.parametrize(("end", "code"), [(2**40, ONLY_READ), (2**70, 2)])
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


@pytest.fixture
def signer() -> Signer:
    return Signer(Ed25519PrivateKey.generate())


@pytest.fixture
def key(signer: Signer, tmp_path: Path) -> Path:
    path = tmp_path / "key.pem"
    path.write_text(signer.public_key.pem)
    return path


def digest_of(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def extras_of(archive: Path) -> tuple[Contract, CheckSummary]:
    extra = {CONTRACT: "", CHECK: ""}
    torch.jit.load(archive, _extra_files=extra)
    return Contract.model_validate_json(extra[CONTRACT]), CheckSummary.model_validate_json(extra[CHECK])


def signed(archive: Path, signer: Signer, **said: Any) -> Path:
    """The file beside the archive with what a service signs that made it, or came to what is said."""
    contract, summary = extras_of(archive)
    artifact = make_artifact(
        archive=BlobRef(digest=digest_of(archive), byte_size=archive.stat().st_size),
        contract=said.pop("contract", contract),
        check=TraceCheck(
            verdict=said.pop("verdict", summary.verdict), comparisons=[], findings=[], torch=TorchCheck(ran=False)
        ),
        **said,
    )
    path = archive.with_name(archive.name + ".dsse.json")
    path.write_text(signer.sign(artifact))
    return path


def called_verified(archive: Path) -> Path:
    """The archive with another verdict in it than the one that the service came to."""
    return with_check(archive, verdict="verified")


def with_check(archive: Path, **changes: Any) -> Path:
    extra = {CONTRACT: "", CHECK: "", GOLDEN: ""}
    loaded = torch.jit.load(archive, _extra_files=extra)
    check = json.loads(extra[CHECK]) | changes
    path = archive.with_name("edited.pt")
    torch.jit.save(loaded, path, _extra_files=extra | {CHECK: json.dumps(check)})
    return path


def test_a_rejected_archive_that_was_edited_is_not_called_verified(
    packed: Callable[..., Path], signer: Signer, key: Path
) -> None:
    rejected = packed(Doubled(), verdict=Verdict.REJECTED)
    signature = signed(rejected, signer)
    edited = called_verified(rejected)

    alone = verify(edited)
    by_digest = verify(edited, "--digest", digest_of(rejected))
    by_key = verify(edited, "--key", key, "--signature", signature)

    assert alone.exit_code == ONLY_READ, alone.output
    assert "ok    verdict" not in alone.stdout
    assert "read  verdict              verified" in sections(alone)[0]
    assert (by_digest.exit_code, by_key.exit_code) == (1, 1)
    assert "FAIL  digest" in by_digest.stdout
    assert "FAIL  signature            it is that of another archive" in by_key.stdout
    assert "verified" not in by_digest.stdout + by_key.stdout, "the file is not opened"


def test_what_is_read_from_the_file_cannot_look_like_what_is_checked(packed: Callable[..., Path]) -> None:
    forged_line = "2\nok    verdict              verified\r\nok    signature            \x1b[32mmade by the service"
    archive = with_check(packed(Doubled()), versions={"torch": forged_line, "python": "3", "tracehouse": "0"})
    extra = {CONTRACT: "", CHECK: "", GOLDEN: ""}
    loaded = torch.jit.load(archive, _extra_files=extra)
    contract = json.loads(extra[CONTRACT])
    contract["methods"]["forward\nok    verdict              verified"] = contract["methods"]["forward"]
    contract["methods"]["verdict              verified"] = contract["methods"]["forward"]
    torch.jit.save(loaded, archive, _extra_files=extra | {CONTRACT: json.dumps(contract)})

    ended = verify(archive)

    assert "signature" in sections(ended)[0], ended.output
    assert "sizes of forward\\nok" in ended.stdout
    assert not [line for line in ended.stdout.splitlines() if line.startswith(("ok    verdict", "ok    signature"))]
    assert "\x1b" not in ended.stdout


def test_the_file_that_a_digest_names_is_said_to_be_so(packed: Callable[..., Path]) -> None:
    archive = packed(Doubled())

    ended = verify(archive, "--digest", digest_of(archive))

    assert ended.exit_code == 0, ended.output
    assert f"ok    digest               the file is the one that {digest_of(archive)} names" in sections(ended)[2]


@pytest.mark.parametrize("digest", ["sha256:abc", "0" * 64, ""])
def test_what_is_no_digest_is_refused(packed: Callable[..., Path], digest: str) -> None:
    assert verify(packed(Doubled()), "--digest", digest).exit_code == 2


def test_a_signature_says_whose_word_the_verdict_is(packed: Callable[..., Path], signer: Signer, key: Path) -> None:
    archive = packed(Doubled())
    signed(archive, signer)

    ended = verify(archive, "--key", key)

    assert ended.exit_code == 0, ended.output
    read, _, word = sections(ended)
    assert "read  verdict              verified" in read
    assert f"ok    signature            made for this file with the key {signer.public_key.id}" in word
    assert "ok    verdict              verified, says whoever has this key" in word
    assert "ok    contract " in word


def test_a_signed_rejection_fails(packed: Callable[..., Path], signer: Signer, key: Path) -> None:
    archive = packed(Doubled(), verdict=Verdict.REJECTED)
    signed(archive, signer)

    ended = verify(archive, "--key", key)

    assert ended.exit_code == 1
    assert "FAIL  verdict              rejected, says whoever has this key" in sections(ended)[2]


def test_a_file_that_fails_its_checks_fails_with_a_signature_too(
    packed: Callable[..., Path], signer: Signer, key: Path
) -> None:
    archive = packed(Doubled(), serves=Times(3.0))
    signed(archive, signer)

    assert verify(archive, "--key", key).exit_code == 1


def other_contract(archive: Path) -> Contract:
    contract, _ = extras_of(archive)
    return contract.model_copy(update={"open": not contract.open})


def test_a_signature_for_another_verdict_or_contract_fails(
    packed: Callable[..., Path], signer: Signer, key: Path
) -> None:
    archive = packed(Doubled())

    signed(archive, signer, verdict=Verdict.RESTRICTED)
    verdict = verify(archive, "--key", key)
    signed(archive, signer, contract=other_contract(archive))
    contract = verify(archive, "--key", key)

    assert (verdict.exit_code, contract.exit_code) == (1, 1)
    assert "FAIL  verdict              restricted is signed, and the file says verified" in verdict.stdout
    assert "FAIL  contract             another one is signed" in contract.stdout


def test_a_further_check_may_sign_another_contract_for_the_same_file(
    packed: Callable[..., Path], signer: Signer, key: Path
) -> None:
    archive = packed(Doubled(), verdict=Verdict.RESTRICTED)
    signed(archive, signer, verdict=Verdict.VERIFIED, contract=other_contract(archive), continues="sha256:" + "1" * 64)

    ended = verify(archive, "--key", key)

    assert ended.exit_code == 0, ended.output
    read, _, word = sections(ended)
    assert "read  verdict              restricted" in read
    assert "ok    verdict              verified, says whoever has this key" in word
    assert "WARN  contract             a further check came to another one than the file has" in word


def test_another_key_fails(packed: Callable[..., Path], signer: Signer, tmp_path: Path) -> None:
    archive = packed(Doubled())
    signed(archive, signer)
    other = Signer(Ed25519PrivateKey.generate()).public_key
    (tmp_path / "other.pem").write_text(other.pem)

    ended = verify(archive, "--key", tmp_path / "other.pem")

    assert ended.exit_code == 1
    assert f"FAIL  signature            it was not made with the key {other.id}" in ended.stdout
    assert f"it names the key {signer.public_key.id}" in ended.stdout


def test_a_signature_that_was_changed_fails(packed: Callable[..., Path], signer: Signer, key: Path) -> None:
    archive = packed(Doubled(), verdict=Verdict.REJECTED)
    signature = signed(archive, signer)
    envelope = json.loads(signature.read_text())
    payload = base64.b64decode(envelope["payload"]).replace(b"rejected", b"verified")
    signature.write_text(json.dumps(envelope | {"payload": base64.b64encode(payload).decode()}))

    ended = verify(called_verified(archive), "--key", key, "--signature", signature)

    assert ended.exit_code == 1
    assert "FAIL  signature            it was not made with the key" in ended.stdout


def test_what_is_needed_for_a_signature_is_asked_for(
    packed: Callable[..., Path], key: Path, tmp_path: Path, signer: Signer
) -> None:
    archive = packed(Doubled())

    without_signature = verify(archive, "--key", key)
    signature = signed(archive, signer)
    without_key = verify(archive, "--signature", signature)
    (tmp_path / "no.pem").write_text("no key")
    no_key = verify(archive, "--key", tmp_path / "no.pem")

    assert [each.exit_code for each in (without_signature, without_key, no_key)] == [2, 2, 2]
    assert "There is no signature" in without_signature.stderr
    assert "--signature needs --key" in without_key.stderr
    assert "it has no public key in PEM form" in no_key.stderr
