"""An archive carries its contract, its check and its golden cases: whoever reads the file reads ours."""

import io
import json
import os
import socket
import struct
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from service.protocol.messages import FailureReply
from service.protocol.packer import Unpack, from_packer
from service.sandbox.channel import Channel
from service.storage.database import Store
from service.storage.local_blobs import LocalBlobs
from tests.conftest import PATIENCE_S
from tests.submissions import spec, tensor
from tracehouse.artifact.archive_extras import CHECK, CONTRACT, EXTRA_FILES, GOLDEN
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract
from tracehouse.findings.verdict import Verdict
from workers.processes import packer as packing
from workers.programs import packer

ArtifactOf = Callable[..., Artifact]
LINEAR = {"datatype": "FP32", "shape": [1, 4], "random": {}}
OURS = {CONTRACT: b"ours", CHECK: b"{}", GOLDEN: b"cases"}


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def archive_of(extra: Mapping[str, str] = {}) -> bytes:
    saved = io.BytesIO()
    traced = torch.jit.trace(Doubled(), torch.ones(2))
    torch.jit.save(traced, saved, _extra_files=dict(extra))
    return saved.getvalue()


@pytest.fixture
def pack(tmp_path: Path) -> Callable[..., bytes | FailureReply]:
    """What the packer makes of an archive, run in this process."""

    def pack(archive: bytes, extra: Mapping[str, bytes] = OURS) -> bytes | FailureReply:
        blobs = LocalBlobs(tmp_path / "blobs")
        with blobs.stage() as staged:
            staged.write(archive)
            ours, theirs = socket.socketpair()
            with staged.open() as file, _running(theirs, file.fileno()):
                failed = packing.pack(Channel(ours), staged, extra, time.monotonic() + PATIENCE_S)
            with staged.open() as file:
                return failed or file.read()

    return pack


class _running:
    """The packer, in a thread of its own."""

    def __init__(self, sock: socket.socket, archive: int) -> None:
        self._thread = threading.Thread(target=packer.main, args=(Channel(sock), [os.dup(archive)]))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE_S)


def read_by_torch(archive: bytes) -> dict[str, bytes]:
    extra: dict[str, Any] = dict.fromkeys(EXTRA_FILES, "")
    loaded = torch.jit.load(io.BytesIO(archive), _extra_files=extra)
    assert loaded(torch.ones(1)).tolist() == [2.0]
    return extra


def read_by_zipfile(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        assert opened.testzip() is None
        [root] = {name.partition("/")[0] for name in opened.namelist()}
        return {name: opened.read(f"{root}/extra/{name}") for name in EXTRA_FILES}


def test_an_artifacts_archive_carries_its_contract_check_and_golden_cases(artifact: ArtifactOf, store: Store) -> None:
    kept = artifact(spec("linear", example_inputs=[LINEAR]))
    with store.blobs.open(kept.archive.digest) as file, store.blobs.open(kept.golden.digest) as cases:
        archive, golden = file.read(), cases.read()
    extra = dict.fromkeys(EXTRA_FILES, "")
    torch.jit.load(io.BytesIO(archive), _extra_files=extra)

    assert Contract.model_validate_json(extra[CONTRACT]) == kept.contract
    check = json.loads(extra[CHECK])
    assert (check["verdict"], check["tolerance"], check["served_form"]) == ("verified", kept.check.tolerance, None)
    assert check["versions"] == kept.versions.model_dump()
    assert extra[GOLDEN] == golden


def test_a_rejected_artifact_says_so_in_its_archive(artifact: ArtifactOf, store: Store) -> None:
    kept = artifact(spec("branches_on_data", example_inputs=[tensor([1.0, -2.0])]))
    with store.blobs.open(kept.archive.digest) as file:
        extra = dict.fromkeys(EXTRA_FILES, "")
        torch.jit.load(file, _extra_files=extra)

    check = json.loads(extra[CHECK])
    assert kept.check.verdict is Verdict.REJECTED
    assert check["verdict"] == "rejected"
    assert {finding["kind"] for finding in check["findings"]} >= {"output-differs"}


def test_what_was_in_the_archive_stays_byte_by_byte(pack: Callable[..., bytes]) -> None:
    archive = archive_of()
    packed = pack(archive)
    directory = packed.index(b"archive/extra/contract.json") - 30

    assert packed[:directory] == archive[:directory]
    assert read_by_torch(packed) == read_by_zipfile(packed) == OURS


@pytest.mark.parametrize("name", [CONTRACT, "CONTRACT.json"])
def test_a_contract_that_an_archive_brings_is_replaced(pack: Callable[..., bytes], name: str) -> None:
    packed = pack(archive_of({name: "theirs", "notes.txt": "kept"}))

    assert read_by_torch(packed) == read_by_zipfile(packed) == OURS
    with zipfile.ZipFile(io.BytesIO(packed)) as opened:
        assert sum(entry.lower().endswith("contract.json") for entry in opened.namelist()) == 1
        assert opened.read("archive/extra/notes.txt") == b"kept"


def test_packed_once_more_it_has_what_was_packed_last(pack: Callable[..., bytes]) -> None:
    once = pack(archive_of(), {**OURS, CONTRACT: b"the first"})

    assert read_by_torch(pack(once)) == read_by_zipfile(pack(once)) == OURS


def test_an_archive_that_zipfile_wrote_is_packed(pack: Callable[..., bytes]) -> None:
    assert read_by_torch(pack(_rewritten(archive_of()))) == OURS


def _rewritten(archive: bytes, change: Callable[[zipfile.ZipFile], object] = lambda _: None) -> bytes:
    """The same entries, as Python's zipfile writes them."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(written, "w") as new:
        for entry in old.namelist():
            new.writestr(entry, old.read(entry))
        change(new)
    return written.getvalue()


def _twice(archive: zipfile.ZipFile, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's own
        archive.writestr(name, b"other")


def _other_end(archive: bytes) -> bytes:
    """One whose record for large archives is somewhere else than right before its end: some readers go there."""
    place = archive.rindex(b"PK\6\7")
    return archive[: place + 8] + struct.pack("<Q", 10) + archive[place + 16 :]


def _flat() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as new:
        new.writestr("data.pkl", b"")
    return written.getvalue()


HOSTILE = {
    "two of one name": lambda: _rewritten(archive_of(), lambda new: _twice(new, "archive/data.pkl")),
    "two of one name but for its case": lambda: _rewritten(archive_of(), lambda new: _twice(new, "archive/DATA.pkl")),
    "a comment, which could be another end": lambda: _rewritten(
        archive_of(), lambda new: setattr(new, "comment", b"x" * 30)
    ),
    "bytes behind its end": lambda: archive_of() + b"PK\5\6",
    "bytes between its directory and its end": lambda: (
        _rewritten(archive_of())[:-22] + b"junk" + _rewritten(archive_of())[-22:]
    ),
    "a comment that is not there": lambda: archive_of()[:-2] + b"\1\0",
    "an archive before it": lambda: archive_of() + _rewritten(archive_of()),
    "two ends": lambda: _other_end(archive_of()),
    "cut": lambda: archive_of()[:-40],
    "empty": lambda: b"",
    "no archive": lambda: b"PK\5\6" + bytes(200),
    "one without a directory": _flat,
    "one without entries": lambda: b"PK\5\6" + bytes(18),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_an_archive_that_two_readers_could_take_for_two_is_refused(
    pack: Callable[..., bytes | FailureReply], what: str
) -> None:
    refused = pack(HOSTILE[what]())

    assert isinstance(refused, FailureReply), what
    assert refused.failure.slug == "archive-unusable"


def test_what_is_compressed_or_too_large_is_not_read(tmp_path: Path) -> None:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr("archive/extra/contract.json", bytes(10**6))
    path = tmp_path / "bomb.pt"
    path.write_bytes(written.getvalue())
    ours, theirs = socket.socketpair()
    with path.open("rb") as file, _running(theirs, file.fileno()):
        Channel(ours).send(Unpack(names=[CONTRACT], most_bytes=10**9).model_dump(mode="json"))
        header, _ = Channel(ours).receive()

    assert isinstance(from_packer.validate_python(header), FailureReply)
