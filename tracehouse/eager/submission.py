"""A submission is loaded: its source is imported, its model is made and gets its weights, and its calls are bound.

Every program that needs the eager model loads it here, in the same order and with the same seed, so that all of them
have the same model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

import torch

from tracehouse.differential.case_names import name_check_input, name_sample
from tracehouse.eager import inputs, model, observed_contract, precision, uploaded_archive, weights
from tracehouse.eager.call import Call, CheckCall, bind
from tracehouse.eager.declared_sizes import resize_call
from tracehouse.eager.image_samples import read_image_sample
from tracehouse.eager.source import Source
from tracehouse.eager.stubbed_packages import StubbedPackages
from tracehouse.errors import ArgumentMismatch
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.example_inputs import CallInputs, FileTensor, SampleFile
from tracehouse.spec.trace_spec import DeviceName, TraceSpec


@dataclass(frozen=True)
class LoadedSubmission:
    """The model, how the submitted weights fitted it, and its calls by method.

    If an archive was submitted in place of source, it is the model, and `uploaded` returns its bytes.
    """

    model: model.LoadedModel
    fit: weights.Fit
    calls: dict[str, Call]
    check_calls: list[CheckCall]
    uploaded: Callable[[], bytes] | None = None

    def as_scripted(self) -> "LoadedSubmission":
        """Return the same submission with its calls as calls of scripted methods: nothing is baked into them."""
        calls = {method: call.as_scripted() for method, call in self.calls.items()}
        check_calls = [CheckCall(check.name, check.call.as_scripted()) for check in self.check_calls]
        return replace(self, calls=calls, check_calls=check_calls)


class SubmissionLoader:
    """Loads one submission into this process.

    `files` has the descriptors of the uploaded files by their names. `source_max_bytes` limits the unpacked source.
    """

    def __init__(
        self,
        spec: TraceSpec,
        conversion: Conversion,
        device: DeviceName,
        files: Mapping[str, int],
        *,
        source_max_bytes: int,
    ) -> None:
        self._spec = spec
        self._conversion = conversion
        self.device = device
        self._files = files
        self._source_max_bytes = source_max_bytes
        self._installed: Source | None = None
        self._stubs = StubbedPackages(spec.source.stub_missing)

    def load(self) -> LoadedSubmission:
        """Load the submission. Raises a TraceError, with the user's line where submitted code is at fault."""
        spec, seed = self._spec, self._spec.options.seed
        loaded = self._from_source() if spec.source.archive is None else self._from_archive(spec.source.archive)
        fit = self._weights(loaded.module)
        loaded.cast(precision.dtype_of(spec.options.precision))
        loaded.move(self.device)
        calls, check_calls = self._calls(loaded)
        loaded.initialise(calls.values(), seed)
        name = spec.source.archive
        uploaded = None if name is None else lambda: self._open(name).read()
        submission = LoadedSubmission(loaded, fit, calls, check_calls, uploaded)
        is_scripted = self._conversion.mode == "script" or loaded.is_compiled
        return submission.as_scripted() if is_scripted else submission

    def uninstall_source(self) -> None:
        """Uninstall the loaded source, so that this process can load another one."""
        if self._installed is not None:
            self._stubs.uninstall()
            self._installed.uninstall()

    @property
    def stubbed(self) -> list[str]:
        """The packages that were missing, and that the source imported as stubs."""
        return self._stubs.imported

    def _from_source(self) -> model.LoadedModel:
        spec = self._spec
        self._installed = source = self._source()
        source.install()
        self._stubs.install()
        assert spec.source.entrypoint is not None  # the parser makes sure of it
        return model.load(source, spec.source.entrypoint, spec.source.init, spec.options.seed, spec.training)

    def _from_archive(self, name: str) -> model.LoadedModel:
        with self._open(name) as file:
            return uploaded_archive.load(file, name)

    def _source(self) -> Source:
        source = self._spec.source
        if source.file is None:
            assert source.files is not None  # the parser makes sure of it
            return Source.from_text(source.files)
        assert source.entrypoint is not None
        module = source.entrypoint.partition(":")[0]
        with self._open(source.file) as file:
            return Source.from_upload(file, source.file, module, self._source_max_bytes, texts=source.files or {})

    def _weights(self, module: torch.nn.Module) -> weights.Fit:
        spec, wanted = self._spec, self._spec.weights
        if spec.source.archive is not None:
            return weights.Fit()  # it has its own
        if wanted is None:
            return weights.none_sent(module, spec.options.seed)
        # Mode eager has no verdict that could say it.
        refuse_missing = wanted.strict or spec.mode == "eager"
        with self._open(wanted.file) as file:
            return weights.load(module, file, wanted, refuse_missing=refuse_missing)

    def _calls(self, loaded: model.LoadedModel) -> tuple[dict[str, Call], list[CheckCall]]:
        uploaded = inputs.InputFiles(self._open)

        def bind_call(method: str, given: CallInputs) -> Call:
            args = [inputs.materialise(tree, uploaded, self.device) for tree in given.example_inputs]
            kwargs = {
                name: inputs.materialise(tree, uploaded, self.device)
                for name, tree in given.example_kwarg_inputs.items()
            }
            call = bind(loaded.module, method, loaded.method_name(method), args, kwargs)
            return precision.cast(call, self._spec.options.precision)

        sizes = self._conversion.sizes
        calls = {
            method: resize_call(bind_call(method, given), given.dynamic, sizes)
            for method, given in self._spec.calls.items()
        }
        for call in calls.values():
            observed_contract.check_inputs(call)
        check_calls = []
        for index, given in enumerate(self._spec.check.check_inputs):
            case = name_check_input(index)
            try:
                check_calls.append(CheckCall(case, bind_call(given.method, given)))
            except ArgumentMismatch as error:
                raise ArgumentMismatch(f"{case}: {error.detail}", **error.facts, case=case) from error
        for place, (file, number) in enumerate(self._spec.check.sample_places):
            check_calls.append(
                CheckCall(name_sample(place), _read_sample(calls[file.method], file, number, uploaded, self.device))
            )
        return calls, check_calls

    def _open(self, name: str) -> BinaryIO:
        """Open an uploaded file at its start. Closing it leaves the descriptor open for the next reader."""
        file = open(self._files[name], "rb", closefd=False)  # noqa: SIM115 - the caller's to close
        file.seek(0)
        return file


def _read_sample(example: Call, file: SampleFile, number: int, uploaded: inputs.InputFiles, device: str) -> Call:
    """Return the example's call with the tensors of a sample.

    Raises InputsUnreadable if the file lacks one, and ArgumentMismatch if one has another datatype.
    """
    if file.image_reading is not None:
        return read_image_sample(example, file.file, file.image_reading, uploaded, device)
    tensors = {}
    for name, tensor in example.tensors.items():
        given = uploaded.tensor(FileTensor(file=file.file, key=f"{number}/{name}")).to(device)
        if tensor.is_floating_point() and given.is_floating_point():
            given = given.to(tensor.dtype)  # what options.precision asks for
        if given.dtype != tensor.dtype:
            raise ArgumentMismatch(
                f"sample {number} of {file.file!r} has {name!r} as {given.dtype}, and the example as {tensor.dtype}",
                method=example.method, input=name, case=f"{number}/{name}",
            )  # fmt: skip
        tensors[name] = given
    return example.with_tensors(tensors)
