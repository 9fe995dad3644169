"""The archive check: it tests an archive against the contract and the golden cases inside it, and needs no service.

Whoever wrote the file may have written all of it. So what is only read from the file, such as the verdict, is a claim;
what is checked is that the archive does what the contract and the golden cases beside it say. Only children read and
run the archive.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Literal

from pydantic import ValidationError
from safetensors import SafetensorError

from service.protocol.messages import FailureReply
from service.protocol.runner import Load, RunnerReady, from_runner
from service.sandbox.child import Child
from service.sandbox.limits import Limits
from service.sandbox.zygote import Zygote
from tracehouse.artifact.archive_extras import CHECK, CONTRACT, EXTRA_FILES, GOLDEN, CheckSummary, contract_digest
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.input_spec import ranks_of
from tracehouse.differential import golden
from tracehouse.errors import GoldenCaseFailed
from tracehouse.findings.verdict import Verdict
from workers.contract_check import CheckFailed, CheckLine, MethodCheck, method_label, translate_errors
from workers.processes import packer
from workers.processes.artifact import RUNNER

PROGRAMS = (packer.PACKER, RUNNER)

ClaimMark = Literal["read", "WARN", "FAIL"]
_CLAIM_MARKS: dict[Verdict, ClaimMark] = {Verdict.REJECTED: "FAIL", Verdict.SELF_CONSISTENT: "WARN"}


class NoContract(Exception):
    """The archive has no contract to check it against; the text says why."""


@dataclass(frozen=True)
class CheckLimits:
    """What each child may use, and for how many seconds the parent waits for it."""

    child: Limits
    threads: int
    load_s: float
    infer_s: float


@dataclass(frozen=True)
class Claim:
    """Something that the file says, and that nothing here can check. It is never marked as "ok"."""

    mark: ClaimMark
    what: str
    text: str


class ArchiveCheck:
    """The check of one archive, which is open as a file. Raises NoContract."""

    def __init__(self, zygote: Zygote, archive: BinaryIO, limits: CheckLimits) -> None:
        self._zygote = zygote
        self._archive = archive
        self._limits = limits
        extra = self._unpack()
        self.contract, self.check = _parse(extra)
        self.contract_digest = contract_digest(extra[CONTRACT])
        self._golden = extra.get(GOLDEN)

    def claims(self, torch_version: str) -> Iterator[Claim]:
        """Yield what the file says of itself, beside the contract."""
        check, versions = self.check, self.check.versions
        yield Claim(_CLAIM_MARKS.get(check.verdict, "read"), "verdict", check.verdict.value)
        yield Claim("read", "findings", ", ".join(sorted({finding.kind for finding in check.findings})) or "none")
        alike = versions.torch == torch_version
        here = "" if alike else f"; here is {torch_version}"
        yield Claim("read" if alike else "WARN", "torch", f"made with {versions.torch}{here}")
        yield Claim("read", "made with", f"Python {versions.python}, Tracehouse {versions.tracehouse}")
        yield Claim("read", "made on", check.device)
        giver = "the archive itself" if check.verdict is Verdict.SELF_CONSISTENT else "eager"
        yield Claim("read", "golden cases", f"with the outputs that {giver} gave")
        yield Claim("read", "tolerance", f"{check.tolerance:g}; golden cases are allowed {self._tolerance:g}")

    def run(self) -> Iterator[CheckLine]:
        """Yield one line for each check. After a failure that leaves nothing to check, no line follows."""
        if self._golden is None:
            yield CheckLine("FAIL", "golden cases", f"the archive has no {GOLDEN}")
            return
        with ExitStack() as stack:
            try:
                cases, child = self._load(stack, self._golden)
            except CheckFailed as failed:
                yield CheckLine("FAIL", failed.what, str(failed))
                return
            yield CheckLine("ok", "archive", "its records have their checksums, and it loads")
            yield self._golden_line(cases)
            yield from self._check_methods(cases, child)

    def _unpack(self) -> dict[str, bytes]:
        try:
            with self._fork(packer.PACKER, self._archive.fileno()) as child, translate_errors("archive"):
                extra = packer.unpack(child.channel, EXTRA_FILES, self._until(self._limits.load_s))
        except CheckFailed as failed:
            raise NoContract(f"What is in the archive could not be read: {failed}.") from failed
        if isinstance(extra, FailureReply):
            raise NoContract(f"{extra.failure.detail}.")
        return extra

    def _load(self, stack: ExitStack, data: bytes) -> tuple[list[golden.GoldenCase], Child]:
        """Return the golden cases, and a runner that has replayed them."""
        file = stack.enter_context(_temporary_file(data))
        child = stack.enter_context(self._fork(RUNNER, self._archive.fileno(), file.fileno()))
        load = Load(
            contract=self.contract,
            device=self.check.device,
            served_form=self.check.served_form,
            gradients=False,
            tolerance=None if self.check.verdict is Verdict.REJECTED else self._tolerance,
            threads=self._limits.threads,
        )
        with translate_errors("archive"):
            until = self._until(self._limits.load_s)
            child.channel.send(load.model_dump(mode="json"), until=until)
            answer = from_runner.validate_python(child.channel.receive(until)[0])
        if isinstance(answer, FailureReply):
            is_golden = answer.failure.slug == GoldenCaseFailed.slug()
            raise CheckFailed("golden cases" if is_golden else "archive", answer.failure.detail)
        if not isinstance(answer, RunnerReady):
            raise CheckFailed("archive", "it answered before it was asked")
        return self._read_cases(data), child

    def _read_cases(self, data: bytes) -> list[golden.GoldenCase]:
        try:
            with _temporary_file(data) as file:
                return golden.read(os.dup(file.fileno()))
        except (SafetensorError, KeyError, ValueError) as error:
            raise CheckFailed("golden cases", f"they cannot be read: {error}") from error

    @property
    def _tolerance(self) -> float:
        return golden.replay_tolerance(self.check.tolerance)

    def _golden_line(self, cases: Sequence[golden.GoldenCase]) -> CheckLine:
        if self.check.verdict is Verdict.REJECTED:
            return CheckLine("WARN", "golden cases", "not compared: a rejected artifact need not give them")
        text = f"{len(cases)} give the outputs that the file has for them, within {self._tolerance:g}"
        return CheckLine("ok", "golden cases", text)

    def _check_methods(self, cases: Sequence[golden.GoldenCase], child: Child) -> Iterator[CheckLine]:
        for name, method in self.contract.methods.items():
            example = next((case.inputs for case in cases if case.method == name), None)
            if example is None:
                yield CheckLine("FAIL", method_label(name), "no golden case shows what it is called with")
                continue
            own, *others = method.by_ranks
            yield from MethodCheck(name, own, example, child, self._limits.infer_s).run()
            for other in others:
                yield from self._check_ranks(name, other, cases, child)

    def _check_ranks(
        self, name: str, contract: MethodContract, cases: Sequence[golden.GoldenCase], child: Child
    ) -> Iterator[CheckLine]:
        """Check a method on inputs of other ranks than the example's, if a golden case has these ranks."""
        for case in cases:
            if case.method == name and ranks_of(case.inputs) == contract.ranks:
                yield from MethodCheck(name, contract, case.inputs, child, self._limits.infer_s).run()
                return
        dims = ", ".join(f"{name!r} with {rank} dims" for name, rank in contract.ranks.items())
        text = f"no golden case has {dims}, which the contract accepts: it was not called so"
        yield CheckLine("WARN", method_label(name), text)

    @contextmanager
    def _fork(self, program: str, *files: int) -> Iterator[Child]:
        self._archive.seek(0)
        with self._zygote.fork(program, self._limits.child, files, profile="infer") as child:
            yield child

    def _until(self, seconds: float) -> float:
        return time.monotonic() + seconds


@contextmanager
def _temporary_file(data: bytes) -> Iterator[BinaryIO]:
    """Open a file with these bytes, for a child that takes files as descriptors."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file


def _parse(extra: Mapping[str, bytes]) -> tuple[Contract, CheckSummary]:
    for name in (CONTRACT, CHECK):
        if name not in extra:
            raise NoContract(f"The archive has no {name}: it was not made by Tracehouse, or by one that packed none.")
    try:
        return Contract.model_validate_json(extra[CONTRACT]), CheckSummary.model_validate_json(extra[CHECK])
    except ValidationError as error:
        raise NoContract(f"The contract in the archive cannot be read: {_first_error(error)}") from None


def _first_error(error: ValidationError) -> str:
    """Return the first error and its place."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'/'.join(map(str, first['loc']))}: {first['msg']}"[:500]
