"""The check of an archive against the contract and the golden cases that it carries, with nothing else at hand.

Whoever wrote the file may have written all of it, so this says that the archive keeps to its own words: not whose they
are. It is read and run in children alone.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Literal

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError

from service.protocol.bounds import text_of
from service.protocol.messages import FailureReply
from service.protocol.runner import Infer, Load, OutputReply, Ready, from_runner
from service.sandbox.channel import ChannelClosed, MalformedFrame
from service.sandbox.child import Child
from service.sandbox.limits import Limits
from service.sandbox.zygote import Zygote
from tracehouse.artifact.archive_extras import CHECK, CONTRACT, EXTRA_FILES, GOLDEN, CheckSummary
from tracehouse.byte_units import MIB
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.dims import format_sizes, shape_at, solve
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.differential import golden, random_inputs, size_samples
from tracehouse.errors import ContractViolation, Failure, GoldenCaseFailed
from tracehouse.findings.trace_check import Verdict
from tracehouse.tensors.tensor import Tensor, TensorSpec, array
from workers.processes import packer

PROGRAMS = (packer.PACKER, "workers.programs.runner")

# Of each region the corners are tried, and no more of a method than so many sizes together; at each size so many draws.
_CORNERS_MAX, _SIZES_MAX, _DRAWS, _DRAWN_MAX = 8, 32, 2, 12
_INPUTS_MAX_BYTES = 64 * MIB
_ANSWER_MAX_BYTES = 256 * MIB

Mark = Literal["ok", "WARN", "FAIL"]
Sizes = dict[str, int]


class NoContract(Exception):
    """The text says why the archive cannot be held to a contract."""


@dataclass(frozen=True)
class Found:
    """One thing that was checked."""

    mark: Mark
    what: str
    text: str


@dataclass(frozen=True)
class CheckLimits:
    """What each child may use, and for how long it is waited for."""

    child: Limits
    threads: int
    load_s: float
    infer_s: float


class ArchiveCheck:
    """Of one archive, which is open as a file. Raises NoContract."""

    def __init__(self, zygote: Zygote, archive: BinaryIO, limits: CheckLimits) -> None:
        self._zygote = zygote
        self._archive = archive
        self._limits = limits
        extra = self._extra()
        self.contract, self.check = _parsed(extra)
        self._golden = extra.get(GOLDEN)

    def run(self, torch_version: str) -> Iterator[Found]:
        """One line after the other; nothing follows what makes all else moot."""
        yield _of_verdict(self.check)
        made_with = self.check.versions.torch
        alike = made_with == torch_version
        yield Found(
            "ok" if alike else "WARN", "torch", made_with if alike else f"{torch_version} here, made with {made_with}"
        )
        if self._golden is None:
            yield Found("FAIL", "golden cases", f"the archive has no {GOLDEN}")
            return
        with ExitStack() as held:
            try:
                cases, child = self._loaded(held, self._golden)
            except _Failed as failed:
                yield Found("FAIL", failed.what, str(failed))
                return
            yield self._of_golden(cases)
            yield from self._of_contract(cases, child)

    def _extra(self) -> dict[str, bytes]:
        try:
            with self._forked(packer.PACKER, self._archive.fileno()) as child, _heard("archive"):
                found = packer.unpack(child.channel, EXTRA_FILES, self._until(self._limits.load_s))
        except _Failed as failed:
            raise NoContract(f"What is in the archive could not be read: {failed}.") from failed
        if isinstance(found, FailureReply):
            raise NoContract(f"{found.failure.detail}.")
        return found

    def _loaded(self, held: ExitStack, data: bytes) -> tuple[list[golden.Case], Child]:
        """The cases, and a runner that has replayed them."""
        file = held.enter_context(_file_of(data))
        child = held.enter_context(self._forked("workers.programs.runner", self._archive.fileno(), file.fileno()))
        load = Load(
            contract=self.contract,
            device=self.check.device,
            served_form=self.check.served_form,
            gradients=False,
            tolerance=None if self.check.verdict is Verdict.REJECTED else self.check.tolerance,
            threads=self._limits.threads,
        )
        with _heard("archive"):
            until = self._until(self._limits.load_s)
            child.channel.send(load.model_dump(mode="json"), until=until)
            said = from_runner.validate_python(child.channel.receive(until)[0])
        if isinstance(said, FailureReply):
            is_golden = said.failure.slug == GoldenCaseFailed.slug()
            raise _Failed("golden cases" if is_golden else "archive", said.failure.detail)
        if not isinstance(said, Ready):
            raise _Failed("archive", "it answered before it was asked")
        return self._cases(data), child

    def _cases(self, data: bytes) -> list[golden.Case]:
        try:
            with _file_of(data) as file:
                return golden.read(os.dup(file.fileno()))
        except (SafetensorError, KeyError, ValueError) as error:
            raise _Failed("golden cases", f"they cannot be read: {error}") from error

    def _of_golden(self, cases: Sequence[golden.Case]) -> Found:
        if self.check.verdict is Verdict.REJECTED:
            return Found("WARN", "golden cases", "not compared: a rejected artifact is known not to give them")
        return Found("ok", "golden cases", f"{len(cases)} give what eager gave, within {self.check.tolerance:g}")

    def _of_contract(self, cases: Sequence[golden.Case], child: Child) -> Iterator[Found]:
        for name, method in self.contract.methods.items():
            example = next((case.inputs for case in cases if case.method == name), None)
            if example is None:
                yield Found("FAIL", name, "no golden case shows what it is called with")
                continue
            yield from _Method(name, method, example, child, self._limits.infer_s).tried()

    @contextmanager
    def _forked(self, program: str, *files: int) -> Iterator[Child]:
        self._archive.seek(0)
        with self._zygote.fork(program, self._limits.child, files, profile="infer") as child:
            yield child

    def _until(self, seconds: float) -> float:
        return time.monotonic() + seconds


class _Failed(Exception):
    def __init__(self, what: str, why: str) -> None:
        super().__init__(why)
        self.what = what


class _Method:
    """One method, asked within its contract."""

    def __init__(
        self, name: str, contract: MethodContract, example: Sequence[Tensor], child: Child, infer_s: float
    ) -> None:
        self._name = name
        self._contract = contract
        self._example = example
        self._child = child
        self._infer_s = infer_s
        self._rng = np.random.default_rng(0)
        self._too_large = 0
        self._impossible = 0
        self._untaken = 0

    def tried(self) -> Iterator[Found]:
        try:
            sizes = self._sizes()
        except _Failed as failed:
            yield Found("FAIL", self._name, f"{failed.what}: {failed}")
            return
        answered = 0
        for each in sizes:
            try:
                answered += self._asked(each)
            except _Failed as failed:
                at = format_sizes(each) or "the example's sizes"
                yield Found("FAIL", self._name, f"{at}: {failed}")
                return
        text = f"{answered} drawn inputs of {len(sizes)} sizes are answered with the contract's datatypes and shapes"
        yield Found("ok" if answered else "WARN", self._name, text)
        if self._too_large:
            text = f"{self._too_large} sizes were left out: their inputs have more than {_INPUTS_MAX_BYTES // MIB} MiB"
            yield Found("WARN", self._name, text)
        if self._impossible:
            yield Found("WARN", self._name, f"{self._impossible} sizes are none: a dim would be less than nothing")
        if self._untaken:
            yield Found("WARN", self._name, f"of {self._untaken} sizes no values were drawn that the contract takes")

    def _sizes(self) -> list[Sizes]:
        """The example's, and those at the corners of each region."""
        found = [self._example_sizes()]
        for region in self._contract.regions:
            found += size_samples.corner_sizes(region)[:_CORNERS_MAX]
        return size_samples.drop_duplicates(found)[:_SIZES_MAX]

    def _example_sizes(self) -> Sizes:
        shapes = {tensor.name: tensor.shape for tensor in self._example}
        if shapes.keys() != {spec.name for spec in self._contract.inputs}:
            raise _Failed("golden cases", "their inputs are others than the contract's")
        pairs = [(spec.shape, shapes[spec.name]) for spec in self._contract.inputs]
        if any(len(shape) != len(sizes) for shape, sizes in pairs):
            raise _Failed("golden cases", "their inputs have other ranks than the contract's")
        if (sizes := solve(pairs)) is None:
            raise _Failed("golden cases", "their inputs have sizes that the contract's symbols cannot have together")
        datatypes = {tensor.name: tensor.datatype for tensor in self._example}
        if other := [spec for spec in self._contract.inputs if spec.datatype is not datatypes[spec.name]]:
            is_said = f"{other[0].name!r} is {datatypes[other[0].name]}, not {other[0].datatype}"
            raise _Failed("golden cases", f"their inputs have other datatypes than the contract's: {is_said}")
        return sizes

    def _asked(self, sizes: Sizes) -> int:
        """How often it answered on inputs of these sizes, as it has to."""
        shapes = {spec.name: shape_at(spec.shape, sizes) for spec in self._contract.inputs}
        if any(size < 0 for shape in shapes.values() for size in shape):  # as of `seq-1` where seq is 0
            self._impossible += 1
            return 0
        specs = [TensorSpec(name=one.name, datatype=one.datatype, shape=shapes[one.name]) for one in self._example]
        if sum(spec.byte_size for spec in specs) > _INPUTS_MAX_BYTES:
            self._too_large += 1
            return 0
        answered = 0
        for number in range(_DRAWN_MAX):
            drawn = random_inputs.draw_sized(self._example, shapes, number, self._rng, self._ends())
            try:
                inputs = self._contract.accept(drawn).tensors
            except ContractViolation:  # of the values, which are drawn without regard to it
                continue
            self._ask(inputs, sizes)
            answered += 1
            if answered == _DRAWS:
                break
        self._untaken += not answered
        return answered

    def _ends(self) -> Mapping[str, tuple[int, int]]:
        """Within which integers are drawn, as far as their datatype goes."""
        return {spec.name: ends for spec in self._contract.inputs if (ends := _ends_of(spec)) is not None}

    def _ask(self, inputs: Sequence[Tensor], sizes: Sizes) -> None:
        ask = Infer(
            method=self._name,
            inputs=[tensor.spec for tensor in inputs],
            answer_max_bytes=_ANSWER_MAX_BYTES,
            arguments=self._contract.arguments,
        )
        with _heard(self._name):
            until = time.monotonic() + self._infer_s
            self._child.channel.send(ask.model_dump(mode="json"), *(tensor.data for tensor in inputs), until=until)
            header, _ = self._child.channel.receive(until)
            said = from_runner.validate_python(header)
        if isinstance(said, FailureReply):
            raise _Failed(self._name, _last_line(said.failure))
        if not isinstance(said, OutputReply) or said.returns != self._contract.returns:
            raise _Failed(self._name, "what it returns nests otherwise than the contract says")
        if wrong := _otherwise(self._contract.outputs, said.outputs, sizes):
            raise _Failed(self._name, wrong)


def _ends_of(spec: InputSpec) -> tuple[int, int] | None:
    if spec.values is None or spec.values.low is None or spec.values.high is None:
        return None
    info = np.iinfo(array(spec.datatype, b"").dtype)
    low, high = max(spec.values.low, int(info.min)), min(spec.values.high, int(info.max))
    return (low, high) if low <= high else None


@contextmanager
def _file_of(data: bytes) -> Iterator[BinaryIO]:
    """To be handed to a child, which knows files as descriptors alone."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file


@contextmanager
def _heard(what: str) -> Iterator[None]:
    """Whatever goes wrong with a child leaves as what it means here."""
    try:
        yield
    except ChannelClosed:
        raise _Failed(what, "it ended the process that ran it") from None
    except TimeoutError:
        raise _Failed(what, "no answer came in time") from None
    except (MalformedFrame, ValidationError) as error:
        raise _Failed(what, f"its answer could not be read: {text_of(error)[:500]}") from None


def _parsed(extra: Mapping[str, bytes]) -> tuple[Contract, CheckSummary]:
    for name in (CONTRACT, CHECK):
        if name not in extra:
            raise NoContract(f"The archive has no {name}: it was not made by Tracehouse, or by one that packed none.")
    try:
        return Contract.model_validate_json(extra[CONTRACT]), CheckSummary.model_validate_json(extra[CHECK])
    except ValidationError as error:
        raise NoContract(f"The contract in the archive cannot be read: {_told(error)}") from None


def _told(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'/'.join(map(str, first['loc']))}: {first['msg']}"[:500]


def _of_verdict(check: CheckSummary) -> Found:
    kinds = ", ".join(sorted({finding.kind for finding in check.findings})) or "none"
    mark: Mark = "FAIL" if check.verdict is Verdict.REJECTED else "ok"
    return Found(mark, "verdict", f"{check.verdict.value} (findings: {kinds})")


def _otherwise(expected: Sequence[OutputSpec], actual: Sequence[TensorSpec], sizes: Sizes) -> str | None:
    """How the outputs are other ones than the contract says."""
    found = {spec.name: spec for spec in actual}
    if found.keys() != {spec.name for spec in expected}:
        return f"it returns {sorted(found)}, and not {sorted(spec.name for spec in expected)}"
    for spec in expected:
        one = found[spec.name]
        if one.datatype is not spec.datatype:
            return f"{spec.name!r} is {one.datatype}, not {spec.datatype}"
        dims = zip(shape_at(spec.shape, sizes), one.shape, strict=False)
        shape = tuple(size if dim == -1 else dim for dim, size in dims)
        if len(one.shape) != len(spec.shape) or shape != one.shape:
            return f"{spec.name!r} is {[*one.shape]}, not {[*shape]}"
    return None


def _last_line(failure: Failure) -> str:
    """torch puts it at the end, after the lines of the graph."""
    return (failure.detail.strip().splitlines() or [failure.slug])[-1]
