"""The contract check: whether a loaded archive answers inputs within its contract as the contract says."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from pydantic import ValidationError

from service.protocol.bounds import text_of
from service.protocol.messages import FailureReply
from service.protocol.runner import Infer, OutputReply, from_runner
from service.sandbox.channel import ChannelClosed, MalformedFrame
from service.sandbox.child import Child
from tracehouse.byte_units import MIB
from tracehouse.contract.contract import MethodContract
from tracehouse.contract.dims import format_sizes, shape_at, solve
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.differential import random_inputs, size_samples
from tracehouse.differential.datatype_combinations import COMBINATIONS_MAX, Combination, combine
from tracehouse.errors import ContractViolation
from tracehouse.tensors.tensor import Datatype, Tensor, TensorSpec, array, cast
from workers.processes.client import last_line

# The most corners of a region and the most sizes of a method that are tested; at each size, the number of calls and the
# most draws of inputs for them.
_CORNERS_MAX, _SIZES_MAX, _CALLS, _DRAWS_MAX = 8, 32, 2, 12
_INPUTS_MAX_BYTES = 64 * MIB
_ANSWER_MAX_BYTES = 256 * MIB

_OWN: Combination = {}  # each input has the example's datatype
Mark = Literal["ok", "WARN", "FAIL"]
Sizes = dict[str, int]


@dataclass(frozen=True)
class CheckLine:
    """The result of one check."""

    mark: Mark
    what: str
    text: str


class CheckFailed(Exception):
    """A check failed, so that nothing after it can be checked; `what` failed, and the text says why."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(why)
        self.what = what


def method_label(name: str) -> str:
    """Return what a line says it is about: whoever wrote the file chose the name, which may be "verdict"."""
    return f"method {name}"


class MethodCheck:
    """The check of one method, on random inputs that its contract accepts."""

    def __init__(
        self, name: str, contract: MethodContract, example: Sequence[Tensor], child: Child, infer_s: float
    ) -> None:
        self._name = name
        self._label = method_label(name)
        self._contract = contract
        self._example = example
        several = {spec.name: spec.datatypes for spec in contract.inputs if spec.datatypes}
        self._combinations = [*islice(combine(several), COMBINATIONS_MAX)]  # all that the check accepts, and no more
        self._child = child
        self._infer_s = infer_s
        self._rng = np.random.default_rng(0)
        self._too_large = 0
        self._impossible = 0
        self._unacceptable = 0

    def run(self) -> Iterator[CheckLine]:
        """Yield one line for the calls, and one for each reason for which sizes were left out."""
        try:
            sizes = self._sizes()
        except CheckFailed as failed:
            yield CheckLine("FAIL", self._label, f"{failed.what}: {failed}")
            return
        answered: list[Sizes] = []
        try:
            for each in sizes:
                answered += [each] * self._test(each, _OWN)
            # The example's sizes and the last corner of a region stand for all others.
            for each in size_samples.drop_duplicates([*answered[:1], *answered[-1:]]):
                answered += [each] * sum(self._test(each, changed) for changed in self._combinations)
        except CheckFailed as failed:
            yield CheckLine("FAIL", self._label, str(failed))
            return
        more = f" and {1 + len(self._combinations)} combinations of datatypes" if self._combinations else ""
        drawn = f"{len(answered)} drawn inputs of {len(sizes)} sizes{more}"
        text = f"{drawn} are answered with the contract's datatypes and shapes"
        yield CheckLine("ok" if answered else "WARN", self._label, text)
        if self._too_large:
            text = f"{self._too_large} sizes were left out: their inputs have more than {_INPUTS_MAX_BYTES // MIB} MiB"
            yield CheckLine("WARN", self._label, text)
        if self._impossible:
            yield CheckLine("WARN", self._label, f"{self._impossible} sizes are none: a dim would be less than nothing")
        if self._unacceptable:
            yield CheckLine(
                "WARN", self._label, f"of {self._unacceptable} sizes no values were drawn that the contract takes"
            )

    def _sizes(self) -> list[Sizes]:
        """Return the example's sizes, and those at the corners of each region."""
        sizes = [self._example_sizes()]
        for region in self._contract.regions:
            sizes += size_samples.corner_sizes(region)[:_CORNERS_MAX]
        return size_samples.drop_duplicates(sizes)[:_SIZES_MAX]

    def _example_sizes(self) -> Sizes:
        shapes = {tensor.name: tensor.shape for tensor in self._example}
        if shapes.keys() != {spec.name for spec in self._contract.inputs}:
            raise CheckFailed("golden cases", "their inputs are others than the contract's")
        pairs = [(spec.shape, shapes[spec.name]) for spec in self._contract.inputs]
        if any(len(shape) != len(sizes) for shape, sizes in pairs):
            raise CheckFailed("golden cases", "their inputs have other ranks than the contract's")
        if (sizes := solve(pairs)) is None:
            raise CheckFailed(
                "golden cases", "their inputs have sizes that the contract's symbols cannot have together"
            )
        datatypes = {tensor.name: tensor.datatype for tensor in self._example}
        if other := [spec for spec in self._contract.inputs if spec.datatype is not datatypes[spec.name]]:
            difference = f"{other[0].name!r} is {datatypes[other[0].name]}, not {other[0].datatype}"
            raise CheckFailed("golden cases", f"their inputs have other datatypes than the contract's: {difference}")
        return sizes

    def _test(self, sizes: Sizes, changed: Combination) -> int:
        """Return how many calls at these sizes were made and answered as the contract says. Raises CheckFailed.

        `changed` has the inputs that get another datatype than the example's.
        """
        shapes = {spec.name: shape_at(spec.shape, sizes) for spec in self._contract.inputs}
        if any(size < 0 for shape in shapes.values() for size in shape):  # as `seq-1` is where seq is 0
            self._impossible += 1
            return 0
        specs = [TensorSpec(name=one.name, datatype=one.datatype, shape=shapes[one.name]) for one in self._example]
        if sum(spec.byte_size for spec in specs) > _INPUTS_MAX_BYTES:
            self._too_large += 1
            return 0
        answered = 0
        for number in range(_DRAWS_MAX):
            drawn = random_inputs.draw_sized(self._example, shapes, number, self._rng, self._integer_ranges())
            try:
                inputs = self._contract.accept(cast(one, changed.get(one.name, one.datatype)) for one in drawn).tensors
            except ContractViolation:  # by the values, which are drawn without regard to the contract
                continue
            try:
                self._call(inputs, sizes)
            except CheckFailed as failed:
                raise CheckFailed(failed.what, f"{_describe_call(sizes, changed)}: {failed}") from None
            answered += 1
            if answered == _CALLS:
                break
        self._unacceptable += not answered
        return answered

    def _integer_ranges(self) -> Mapping[str, tuple[int, int]]:
        """Return the ranges of integers to draw from, by the inputs' names."""
        return {spec.name: span for spec in self._contract.inputs if (span := _integer_range(spec)) is not None}

    def _call(self, inputs: Sequence[Tensor], sizes: Sizes) -> None:
        request = Infer(
            method=self._name,
            inputs=[tensor.spec for tensor in inputs],
            answer_max_bytes=_ANSWER_MAX_BYTES,
            arguments=self._contract.arguments,
            returns=self._contract.returns,
        )
        with translate_errors(self._name):
            until = time.monotonic() + self._infer_s
            self._child.channel.send(request.model_dump(mode="json"), *(tensor.data for tensor in inputs), until=until)
            header, _ = self._child.channel.receive(until)
            answer = from_runner.validate_python(header)
        if isinstance(answer, FailureReply):
            raise CheckFailed(self._name, last_line(answer.failure))
        if not isinstance(answer, OutputReply) or answer.returns != self._contract.returns:
            raise CheckFailed(self._name, "what it returns nests otherwise than the contract says")
        datatypes = self._contract.output_datatypes(inputs)
        if wrong := _describe_difference(self._contract.outputs, datatypes, answer.outputs, sizes):
            raise CheckFailed(self._name, wrong)


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Turn whatever goes wrong with a child into CheckFailed."""
    try:
        yield
    except ChannelClosed:
        raise CheckFailed(what, "it ended the process that ran it") from None
    except TimeoutError:
        raise CheckFailed(what, "no answer came in time") from None
    except (MalformedFrame, ValidationError) as error:
        raise CheckFailed(what, f"its answer could not be read: {text_of(error)[:500]}") from None


def _integer_range(spec: InputSpec) -> tuple[int, int] | None:
    if spec.values is None or spec.values.low is None or spec.values.high is None:
        return None
    info = np.iinfo(array(spec.datatype, b"").dtype)
    low, high = max(spec.values.low, int(info.min)), min(spec.values.high, int(info.max))
    return (low, high) if low <= high else None


def _describe_call(sizes: Sizes, changed: Combination) -> str:
    datatypes = "".join(f", {name} {datatype}" for name, datatype in changed.items())
    return (format_sizes(sizes) or "the example's sizes") + datatypes


def _describe_difference(
    expected: Sequence[OutputSpec], datatypes: Mapping[str, Datatype], actual: Sequence[TensorSpec], sizes: Sizes
) -> str | None:
    """Return how the outputs are not what the contract says, or None."""
    by_name = {spec.name: spec for spec in actual}
    if by_name.keys() != {spec.name for spec in expected}:
        return f"it returns {sorted(by_name)}, and not {sorted(spec.name for spec in expected)}"
    for spec in expected:
        one = by_name[spec.name]
        if one.datatype is not datatypes[spec.name]:
            return f"{spec.name!r} is {one.datatype}, not {datatypes[spec.name]}"
        dims = zip(shape_at(spec.shape, sizes), one.shape, strict=False)
        shape = tuple(size if dim == -1 else dim for dim, size in dims)
        if len(one.shape) != len(spec.shape) or shape != one.shape:
            return f"{spec.name!r} is {[*one.shape]}, not {[*shape]}"
    return None
