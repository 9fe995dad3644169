"""Pytest files: a counterexample as a test that needs only torch. It fails, and passes once the model is corrected.

The file is made from the request as text. Submitted code does not run here; it runs where a person runs the test.
"""

import base64
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from math import isfinite, prod
from textwrap import fill
from typing import Any

from tracehouse.contract.structure import is_traced_as_it_is
from tracehouse.differential.comparison import closeness_bounds
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.reproducer import pytest_templates
from tracehouse.reproducer.counterexamples import FoundCounterexample
from tracehouse.spec.checkpoint_keys import USUAL_NAMES
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.example_inputs import FileTensor, InlineTensor, RandomTensor, TupleInput
from tracehouse.spec.trace_spec import DeviceName, TraceSpec, Weights
from tracehouse.tensors.tensor import Tensor, array

# A tensor with more values than this is written as packed bytes, not as numbers. Chosen, so that a file stays readable.
LITERAL_VALUES_MAX = 64
# An uploaded file with more bytes is not written into the test: a person must put it beside the test. Chosen.
INLINE_BYTES = 256 * 1024
_WIDTH = 116

# Reads the uploaded file of this name; returns None if it has more than this many bytes.
ReadUpload = Callable[[str, int], bytes | None]


def render_test(
    found: FoundCounterexample,
    spec: TraceSpec,
    conversion: Conversion,
    device: DeviceName,
    read: ReadUpload,
    *,
    inlines: bool,
    without_fast_paths: bool = False,
) -> str:
    """Return the text of the pytest file.

    `read` returns the bytes of an uploaded file; `inlines` says whether the trace inlines custom autograd functions;
    `without_fast_paths`, whether the model is to run without torch's fast paths.
    """
    return _PytestFile(
        found, spec, conversion, device, read, inlines=inlines, without_fast_paths=without_fast_paths
    ).text()


class _PytestFile:
    """The text of one file, part by part."""

    def __init__(
        self,
        found: FoundCounterexample,
        spec: TraceSpec,
        conversion: Conversion,
        device: DeviceName,
        read: ReadUpload,
        *,
        inlines: bool,
        without_fast_paths: bool,
    ) -> None:
        self._found = found
        self._spec = spec
        self._conversion = conversion
        self._device = device
        self._read = read
        self._inlines = inlines
        self._without_fast_paths = without_fast_paths
        self._method = found.run.method

    def text(self) -> str:
        parts = self._source_parts() if self._spec.source.archive is None else self._archive_parts()
        body = [part.strip("\n") for part in parts]
        helpers = [pytest_templates.BESIDE.strip("\n")] if any("read_beside(" in part for part in body) else []
        if any("unzip(" in part for part in body):
            helpers.append(pytest_templates.UNZIPPED.strip("\n"))
        if any("unpack(" in part for part in body):
            helpers.append(pytest_templates.UNPACKED.strip("\n"))
        text = "\n\n\n".join([*helpers, *body])
        return f"{self._about()}\n\n{_imports(text)}\n\n{text}\n"

    def _source_parts(self) -> list[str]:
        weights = self._spec.weights
        make = pytest_templates.MAKE.replace("{weights}", "" if weights is None else pytest_templates.LOAD)
        install = pytest_templates.INSTALL
        if self._without_fast_paths:
            install = install.rstrip("\n") + pytest_templates.WITHOUT_FAST_PATHS
        parts = [self._source(), self._settings(), *self._inputs(), install, make]
        if weights is not None:
            parts.append(pytest_templates.SAFETENSORS if _is_safetensors(weights) else pytest_templates.PICKLED)
            parts.append(pytest_templates.RENAME)
        if self._inlines:
            parts.append(pytest_templates.INLINE)
        parts.append(self._artifact())
        state = (
            [pytest_templates.TEST_OF_STATE]
            if any(one.kind == Kind.HIDDEN_STATE for one in self._found.findings)
            else []
        )
        return [*parts, self._served(), pytest_templates.LEAVES, pytest_templates.TEST, *state]

    def _artifact(self) -> str:
        if self._conversion.mode == "script":
            return pytest_templates.SCRIPT
        if not self._returns_tensors_alone():
            return pytest_templates.TRACE_TENSORS
        return pytest_templates.TRACE if self._takes_tensors_alone() else pytest_templates.TRACE_ONE_CALL

    def _archive_parts(self) -> list[str]:
        eager = self._tensors(
            "eager", list(self._found.diverging.eager.leaves.values()), "Return what its model returned."
        )
        parts = [eager, pytest_templates.ARCHIVE, self._served(), pytest_templates.LEAVES]
        return [self._settings(), *self._inputs(), *parts, pytest_templates.TEST_OF_ARCHIVE]

    def _about(self) -> str:
        spec, run = self._spec, self._found.run
        name = spec.source.entrypoint or spec.source.archive
        made = "scripted" if self._conversion.mode == "script" else "traced"
        difference = self._found.difference
        packages = f" and the packages of environment {spec.environment} are" if spec.environment else " is"
        paragraphs = [
            f"{self._method} of {name}, {made}, gives another answer than the model.",
            f"On the case {run.case!r}, {difference.leaf!r} differs: {difference.what}.",
        ]
        # The check's findings about a line say more than torch's warning about it, so they come first.
        causes = sorted(self._found.findings, key=lambda finding: finding.kind == Kind.TRACER_WARNING)
        paragraphs += [_describe(finding) for finding in causes[:1]]
        paragraphs.append(
            f"Run it with pytest where torch{packages} installed. It passes once you have fixed the model in the text "
            "below."
        )
        text = "\n\n".join(fill(_plain(one), _WIDTH) for one in paragraphs if one)
        return f'"""{text}\n"""'

    def _source(self) -> str:
        source = self._spec.source
        files = "\n".join(f"    {_literal(path)}: {_literal(text)}," for path, text in (source.files or {}).items())
        texts = f"{{\n{files}\n}}"
        if source.file is None:
            return f"# The source as it was submitted: fix it here.\nFILES = {texts}"
        data = self._bytes_of(source.file)
        if files:
            return f"# The texts of the source as they were submitted: fix them here.\nFILES = unzip({data}) | {texts}"
        if source.is_zip:
            return f"FILES = unzip({data})"
        return f"FILES = {{{source.python_path!r}: {data}}}"

    def _bytes_of(self, name: str) -> str:
        data = self._read(name, INLINE_BYTES)
        return f"read_beside({name!r})" if data is None else f"base64.b64decode({_wrap(base64.b64encode(data))})"

    def _settings(self) -> str:
        spec = self._spec
        relative, absolute = self._tolerances()
        settings = {"METHOD": repr(self._method), "CALL_SEED": repr(self._call_seed()), "DEVICE": repr(self._device),
                    "RTOL": repr(relative), "ATOL": repr(absolute)}  # fmt: skip
        settings |= self._upload_settings() if spec.source.archive is not None else self._model_settings()
        return "\n".join(f"{name} = {value}" for name, value in settings.items())

    def _call_seed(self) -> int:
        """Return the seed under which both answered the counterexample."""
        seed = self._found.run.seed
        return self._spec.options.call_seed if seed is None else seed

    def _upload_settings(self) -> dict[str, str]:
        return {"ARCHIVE_NAME": repr(self._spec.source.archive)}

    def _model_settings(self) -> dict[str, str]:
        spec, scripted = self._spec, self._conversion.scripted
        precision = spec.options.precision
        settings = {
            "SEED": repr(spec.options.seed),
            "ENTRYPOINT": repr(spec.source.entrypoint),
            "INIT_ARGS": repr(spec.source.init.args),
            "INIT_KWARGS": repr(spec.source.init.kwargs),
            "TRAINING": repr(spec.training),
            "PRECISION": "None" if precision is None else f"torch.{precision}",
        }
        if spec.weights is not None:
            settings |= {
                "WEIGHTS": self._bytes_of(spec.weights.file),
                "WEIGHTS_RENAME": repr(spec.weights.rename),
            }
            if not _is_safetensors(spec.weights):
                settings |= {"WEIGHTS_KEY": repr(spec.weights.key), "USUAL_NAMES": repr(USUAL_NAMES)}
        if self._conversion.mode == "script":
            return settings
        options = {
            "strict": spec.options.strict,
            "_force_outplace": spec.options.force_outplace,
            "check_trace": False,
        }
        return settings | {
            "OPTIONS": repr(options),
            "GRADIENTS": repr(spec.check.gradients),
            "SCRIPTED": repr([part.name for part in scripted if not part.is_function]),
            "SCRIPTED_FUNCTIONS": repr([part.name for part in scripted if part.is_function]),
        }

    def _tolerances(self) -> tuple[float, float]:
        eager, tolerance = self._found.diverging.eager, self._spec.check.tolerance
        assert self._found.run.comparisons is not None  # as it differs
        served = self._found.run.comparisons.served
        leaf = eager.leaves.get(self._found.difference.leaf)
        found = [
            closeness_bounds(one, tolerance, served.relative)
            for one in ([leaf] if leaf is not None else eager.leaves.values())
        ]
        return max((one[0] for one in found), default=tolerance), max((one[1] for one in found), default=0.0)

    def _inputs(self) -> list[str]:
        parts = []
        if self._spec.source.archive is None:
            parts.append(
                self._tensors("example", self._found.example.inputs, "Return the inputs on which the artifact is made.")
            )
        parts.append(
            self._tensors("counterexample", self._found.diverging.inputs, "Return the inputs on which it differs.")
        )
        args, kwargs = self._arguments()
        about = '"""Return args and kwargs of the call with these tensors."""'
        return [*parts, f"def arguments(given):\n    {about}\n    return {args}, {kwargs}"]

    def _tensors(self, name: str, tensors: Sequence[Tensor], says: str) -> str:
        lines = "\n".join(f"        {tensor.name!r}: {_tensor(tensor)}," for tensor in tensors)
        return f'def {name}():\n    """{says}"""\n    return {{\n{lines}\n    }}'

    def _arguments(self) -> tuple[str, str]:
        """Return args and kwargs of the call as the request nests them, its tensors by the contract's names."""
        given = self._spec.calls[self._method]
        names = [tensor.name for tensor in self._found.example.inputs]
        by_keyword = {keyword: [name for name in names if name == keyword or name.startswith(f"{keyword}.")]
                       for keyword in given.example_kwarg_inputs}  # fmt: skip
        taken = {name for found in by_keyword.values() for name in found}
        positional = iter([name for name in names if name not in taken])
        args = [_tree(tree, positional) for tree in given.example_inputs]
        kwargs = [f"{keyword!r}: {_tree(tree, iter(by_keyword[keyword]))}"
                  for keyword, tree in given.example_kwarg_inputs.items()]  # fmt: skip
        return f"[{', '.join(args)}]", f"{{{', '.join(kwargs)}}}"

    def _takes_tensors_alone(self) -> bool:
        given = self._spec.calls[self._method]
        alone = all(isinstance(tree, InlineTensor | RandomTensor | FileTensor) for tree in given.example_inputs)
        return alone and not given.example_kwarg_inputs

    def _returns_tensors_alone(self) -> bool:
        returns = self._found.example.returns
        return returns is None or is_traced_as_it_is(returns, strict=self._spec.options.strict)

    def _served(self) -> str:
        form = self._spec.options.served_form
        return pytest_templates.SERVED.format(
            form="" if form is None else f"\n    module = torch.jit.{form}(module.eval())"
        )


def _is_safetensors(weights: Weights) -> bool:
    return weights.file.lower().endswith(".safetensors")


def _tree(tree: Any, names: Iterator[str]) -> str:
    match tree:
        case InlineTensor() | RandomTensor() | FileTensor():
            return f"given[{next(names, '')!r}]"
        case TupleInput():
            items = [_tree(item, names) for item in tree.tuple]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        case list():
            return f"[{', '.join(_tree(item, names) for item in tree)}]"
        case dict():
            return f"{{{', '.join(f'{key!r}: {_tree(item, names)}' for key, item in tree.items())}}}"
    return repr(tree)


def _tensor(tensor: Tensor) -> str:
    dtype = f"torch.{tensor.datatype.dtype_name}"
    if prod(tensor.shape) > LITERAL_VALUES_MAX:
        packed = base64.b64encode(zlib.compress(bytes(tensor.data), 9))
        return f"unpack({dtype}, {tuple(tensor.shape)!r}, {_wrap(packed)}).to(DEVICE)"
    if not prod(tensor.shape):
        return f"torch.zeros({tuple(tensor.shape)!r}, dtype={dtype}, device=DEVICE)"
    values = array(tensor.datatype, tensor.data).reshape(tensor.shape).tolist()
    return f"torch.tensor({_numbers(values)}, dtype={dtype}, device=DEVICE)"


def _numbers(values: Any) -> str:
    if isinstance(values, list):
        return f"[{', '.join(map(_numbers, values))}]"
    if isinstance(values, float) and not isfinite(values):
        return f"float({str(values)!r})"
    return repr(values)


def _wrap(encoded: bytes) -> str:
    text = encoded.decode()
    if len(text) <= _WIDTH // 2:
        return repr(text)
    lines = "\n".join(f"        {text[place : place + 88]!r}" for place in range(0, len(text), 88))
    return f"(\n{lines}\n    )"


def _literal(text: str) -> str:
    """Return the text as a Python literal, line by line where it has several."""
    if "\n" not in text:
        return repr(text)
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    escaped = re.sub(r'"\Z', '\\"', escaped)
    escaped = "".join(char if char == "\n" or char.isprintable() else repr(char)[1:-1] for char in escaped)
    return f'"""\\\n{escaped}"""'


def _plain(text: str) -> str:
    """Return the text such that it cannot end the docstring that it is put in, or hide anything in it."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return shown.replace("\\", "/").replace('"""', "'''")


def _describe(finding: Finding) -> str:
    place = f" ({finding.file}, line {finding.line}: {(finding.source or '').strip()})" if finding.file else ""
    remedy = f" What to write instead: {finding.remedy}." if finding.remedy else ""
    mend_also = finding.evidence.get("mend_also")
    beside = f" Mend these lines too: {', '.join(map(str, mend_also))}." if isinstance(mend_also, list) else ""
    return f"{finding.kind}{place}.{remedy}{beside}"


_STANDARD = ("base64", "dataclasses", "importlib", "inspect", "io", "random", "sys", "zipfile", "zlib")
_OTHERS = ("numpy", "safetensors.torch", "torch")


def _imports(text: str) -> str:
    """Return the imports that the text needs."""
    standard = [f"import {module}" for module in _STANDARD if re.search(rf"\b{module}\.", text)]
    if "Path(" in text:
        standard.append("from pathlib import Path")
    others = [f"import {module}" for module in _OTHERS if f"{module}." in text]
    return "\n".join([*standard, "", *others])
