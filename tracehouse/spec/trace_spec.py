"""A trace spec: what a person submits for tracing."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from tracehouse.contract.dims import SIZE_MAX, Symbol, parse_dim
from tracehouse.contract.regions import Span
from tracehouse.frozen import Frozen, at_most
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.environment_name import EnvironmentName
from tracehouse.spec.example_inputs import (
    INPUT_VALUES_MAX,
    INPUTS_LIMIT,
    METHOD_NAME_MAX,
    REQUEST_SAMPLES_MAX,
    Arguments,
    CheckInput,
    Dynamic,
    KeywordArguments,
    MethodInputs,
    SampleFile,
    count_values,
)
from tracehouse.spec.model_name import ModelName
from tracehouse.spec.tensor_values import TensorValues
from tracehouse.tensors.json_text import levels

_CALL_SEED = 0x5851_F42D_4C95_7F2D
# The relative tolerance of comparisons where no other is given: torch.jit.trace's.
TOLERANCE = 1e-5

# Chosen: each bucket is traced and stored by itself.
BUCKETS_MAX = 32

# All files are open in the tracing child, and the kernel passes at most 253 descriptors at once (SCM_MAX_FD).
FILES_MAX = 50

RENAMES_MAX = 100

SOURCE_FILES_MAX = 1000

METHODS_MAX = 32

SYMBOLS_MAX = 16

CHECK_INPUTS_MAX = 100

# In characters. Chosen: no module and class have longer names.
ENTRYPOINT_MAX = 500

# Of lists, objects and other values together. Chosen: more than any vocabulary that a model is made with.
INIT_VALUES_MAX = 100_000

_PYTHON_NAME = r"[A-Za-z_][A-Za-z0-9_]*"

_ENTRYPOINT = re.compile(rf"{_PYTHON_NAME}(\.{_PYTHON_NAME})*:{_PYTHON_NAME}(\.{_PYTHON_NAME})*")

# The file of a module, as it may stand before the colon.
_MODULE_FILE = re.compile(rf"(({_PYTHON_NAME}/)*{_PYTHON_NAME})\.py(:.*)")

_SOURCE_PATH = re.compile(rf"({_PYTHON_NAME}/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")

_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,199}")


def _check_entrypoint(value: str) -> str:
    """Return the entrypoint as `module:name`, also if it was written as `folder/module.py:name`."""
    if file := _MODULE_FILE.fullmatch(value):
        value = file[1].removesuffix("/__init__").replace("/", ".") + file[3]
    if not _ENTRYPOINT.fullmatch(value):
        raise PydanticCustomError(
            "entrypoint", "write it as module:name or file:name, for instance net:Net or models/net.py:Net"
        )
    return value


def _check_package_name(value: str) -> str:
    if len(value) > 100 or not re.fullmatch(_PYTHON_NAME, value):
        raise PydanticCustomError(
            "package_name", "name a package as it is imported, without its modules: cv2, and not opencv-python"
        )
    return value


def is_source_path(text: str) -> bool:
    """Whether a file of an inline source may be called so."""
    return len(text) <= 200 and _SOURCE_PATH.fullmatch(text) is not None


def _check_source_path(value: str) -> str:
    if not is_source_path(value):
        raise PydanticCustomError("source_path", "a source file's name is a relative path such as net.py or pkg/net.py")
    return value


def _check_file_name(value: str) -> str:
    if not _FILE_NAME.fullmatch(value):
        raise PydanticCustomError(
            "file_name", "a file's name is a plain name without slashes, such as weights.safetensors"
        )
    return value


def _check_method_name(value: str) -> str:
    if not re.fullmatch(_PYTHON_NAME, value):
        raise PydanticCustomError("method_name", "a method's name is a Python name")
    return value


def _parse_training(value: Any, parse: ValidatorFunctionWrapHandler) -> Any:
    try:
        return parse(value)
    except ValidationError as error:
        raise PydanticCustomError("training", 'training is true, false or "as-is"') from error


def _error_at(location: tuple[int | str, ...], kind: str, message: str) -> ValidationError:
    """Return an error at the location of one member, for a validator of the whole model to raise."""
    error = InitErrorDetails(
        type=PydanticCustomError(kind, "{message}", {"message": message}), loc=location, input=None
    )
    return ValidationError.from_exception_data(kind, [error])


def _check_devices_differ(devices: list[str]) -> list[str]:
    if len(set(devices)) < len(devices):
        raise PydanticCustomError("device_twice", "a device is named twice")
    return devices


def _check_bucket_sizes(sizes: list[int]) -> list[int]:
    if not 0 < len(sizes) <= BUCKETS_MAX or len(set(sizes)) < len(sizes) or min(sizes) < 1:
        raise PydanticCustomError("buckets", f"list 1 to {BUCKETS_MAX} sizes from 1 on, each once")
    return sizes


FileName = Annotated[str, AfterValidator(_check_file_name)]

WeightName = Annotated[str, Field(min_length=1, max_length=500)]

NamePrefix = Annotated[str, Field(max_length=500)]

SourcePath = Annotated[str, AfterValidator(_check_source_path)]

PackageName = Annotated[str, AfterValidator(_check_package_name)]

Entrypoint = Annotated[str, Field(max_length=ENTRYPOINT_MAX), AfterValidator(_check_entrypoint)]

MethodName = Annotated[str, Field(max_length=METHOD_NAME_MAX), AfterValidator(_check_method_name)]

BucketSizes = Annotated[list[int], Field(max_length=BUCKETS_MAX), AfterValidator(_check_bucket_sizes)]

Mode = Literal["trace", "script", "auto", "eager"]

Training = Annotated[bool | Literal["as-is"], WrapValidator(_parse_training)]

Precision = Literal["float32", "bfloat16", "float16", "float64"]

DeviceName = Literal["cpu", "cuda"]

Promote = Literal["auto", "always", "never"]

# What each of them is in seconds, `tracehouse/differential/named_budgets.py` says.
BudgetName = Literal["quick", "normal", "deep"]

ServedForm = Literal["freeze", "optimize_for_inference"]


def served_form(*, freeze: bool, optimize_for_inference: bool) -> ServedForm | None:
    """Return the form that is made of the archive for serving; None if the archive is served as it was saved."""
    if optimize_for_inference:
        return "optimize_for_inference"
    return "freeze" if freeze else None


class WantedSizes(Span):
    """The sizes of a symbol that are wanted. The check and the contract cover these and no others."""

    low: int = Field(1, ge=0, le=SIZE_MAX)


class Init(Frozen):
    """The arguments for the class or factory that makes the model: at most 100,000 values, those in lists counted."""

    args: list[JsonValue] = []
    kwargs: dict[str, JsonValue] = {}

    @model_validator(mode="before")
    @classmethod
    def _check_size(cls, document: Any) -> Any:
        """Count the values before each of them is checked."""
        count = sum(len(each) for containers in levels(document) for each in chain.from_iterable(containers))
        if count > INIT_VALUES_MAX:
            message = f"args and kwargs have at most {INIT_VALUES_MAX} values: put more into a file of the source"
            raise PydanticCustomError("init_too_large", "{message}", {"message": message})
        return document


class ModelSource(Frozen):
    """The submitted Python source: inline files, or one uploaded `.py` or `.zip`; or, instead, an archive."""

    files: Annotated[dict[SourcePath, str] | None, at_most(SOURCE_FILES_MAX)] = Field(
        None,
        min_length=1,
        max_length=SOURCE_FILES_MAX,
        description="Texts by their paths. Beside a `.zip` in `file`, they come in addition to what is in it, and in "
        "place of what has the same path.",
    )
    file: FileName | None = Field(None, description="An uploaded `.py` or `.zip`.")
    archive: FileName | None = Field(
        None, description="An uploaded TorchScript archive, as torch.jit.save writes it. It has no eager model."
    )
    entrypoint: Entrypoint | None = Field(
        None,
        description="`module:name` of an nn.Module class, a factory, an instance or a function; the module may be "
        "written as a file: `models/net.py:Net` is `models.net:Net`. Not for an archive.",
    )
    init: Init = Init()
    stub_missing: list[PackageName] = Field(
        [],
        max_length=100,
        description="Packages that the source imports and the model does not use, as they are imported. Those that are "
        "not installed can be imported all the same; a use of them raises `stubbed-package-used`.",
    )

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if [None if self.is_zip else self.files, self.file, self.archive].count(None) != 2:
            raise PydanticCustomError("source", "give exactly one of files, file and archive, or files beside a .zip")
        if (self.entrypoint is None) != (self.archive is not None):
            raise _error_at(("entrypoint",), "entrypoint", "source code needs an entrypoint, and an archive has none")
        if self.archive is not None and self.init != Init():
            raise _error_at(("init",), "init", "an archive is already a model: leave out init")
        if self.archive is not None and self.stub_missing:
            raise _error_at(("stub_missing",), "stub_missing", "an archive imports nothing: leave out stub_missing")
        return self

    @property
    def is_zip(self) -> bool:
        """Whether the uploaded file is a `.zip`."""
        return self.file is not None and self.file.lower().endswith(".zip")

    @property
    def python_path(self) -> str | None:
        """The path that an uploaded `.py` has as the entrypoint's module, whatever its name; None if there is none."""
        if self.file is None or self.is_zip or self.entrypoint is None:
            return None
        return self.entrypoint.partition(":")[0].replace(".", "/") + ".py"


class Weights(Frozen):
    """An uploaded state dict, and how its names become the model's.

    A parameter or buffer that gets no value from it speaks against the trace, unless `allow_missing` names it.
    """

    file: FileName = Field(description="A `.safetensors`, `.pt` or `.pth` file.")
    key: WeightName | None = Field(
        None,
        description="Where the state dict is in a `.pt` file that has more in it: `state_dict`, or `state.model` for "
        "one that is inside another dict. Left out: the only one under a usual name, and a finding says which.",
    )
    rename: Annotated[dict[NamePrefix, NamePrefix], at_most(RENAMES_MAX)] = Field(
        {},
        max_length=RENAMES_MAX,
        description='What names begin with in the file, and in the model instead: `{"module.": ""}`. If several fit a '
        "name, the longest is taken. Other names are kept.",
    )
    strict: bool = Field(
        True,
        description="True: the request fails if the file lacks a weight of the model, or has one that the model "
        "lacks. False: what the model lacks is left out, and what the file lacks rejects the trace as "
        "`weights-missing`.",
    )
    allow_missing: list[WeightName] = Field(
        [],
        max_length=100,
        description="Parameters and buffers that may keep the values that the source gives them, by name or by a "
        "pattern such as `*.relative_position_index`.",
    )


class CheckBudget(Frozen):
    """How long a check may take: a name, or seconds in its place."""

    budget: BudgetName | None = Field(
        "normal",
        description="How long the check may take, by how long the model's first call on the example took: `quick` is "
        "3 s and 20 such calls, `normal` 15 s and 100, `deep` 120 s and 1,000; at most a third of what is left of the "
        "request's time, of which `quick` has less than `normal`, and `deep` more. `POST /artifacts/{digest}/check` "
        "goes on later with more. Null if `budget_s` is given.",
    )
    budget_s: float | None = Field(
        None,
        gt=0,
        le=3600,
        description="In place of `budget`: the check's limit in seconds of processor time, and at most four times as "
        "many by the clock. The artifact's `check.layers` list what the limit cut.",
    )

    @model_validator(mode="before")
    @classmethod
    def _choose_budget(cls, document: Any) -> Any:
        """Let seconds stand in place of a name. Neither of them is the default name."""
        if not isinstance(document, dict):
            return document
        if document.get("budget_s") is None:
            return {name: value for name, value in document.items() if (name, value) != ("budget", None)}
        if document.get("budget") is not None:
            message = "give budget or budget_s, and not both: budget is a name, and budget_s the same in seconds"
            raise _error_at(("budget",), "budget_twice", message)
        return {**document, "budget": None}


class CheckOptions(CheckBudget):
    """How the trace is checked. The comparison with the eager model always runs."""

    check_trace: bool = Field(True, description="Run torch's own check too, and report its result.")
    check_inputs: list[CheckInput] = Field([], max_length=CHECK_INPUTS_MAX, description="Further calls to compare on.")
    samples: list[SampleFile] = Field(
        [],
        max_length=FILES_MAX,
        description="Files with real inputs. Each sample is compared in the check and in the verification, and a size "
        "that a sample has is tried. Without them, all inputs but the example and the check inputs are drawn.",
    )
    check_tolerance: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Relative tolerance, as torch.jit.trace takes it: where it is given, it alone decides whether two "
        "numbers are the same. By default the eager model's own rounding decides, measured against its answer in "
        "float64, and 1e-5 where that cannot be had.",
    )
    probes: Literal["auto", "off", "deep"] = Field(
        "auto",
        description="Vary the examples' values and sizes, compare on these inputs too, and let the contract accept the "
        "sizes that agree. `deep` tries far more. `off` tries nothing: the contract accepts the example's sizes only.",
    )
    contract: Literal["closed", "open"] = Field(
        "closed",
        description="`closed` refuses sizes that were never tried; `open` answers them with a warning. Both refuse "
        "sizes that are known to be wrong.",
    )
    gradients: bool = Field(
        False, description="Compare the gradients of inputs and parameters too, as torch.jit.verify does."
    )

    @model_validator(mode="after")
    def _check_number_of_samples(self) -> Self:
        if (number := sum(file.count for file in self.samples)) > REQUEST_SAMPLES_MAX:
            message = f"a request has at most {REQUEST_SAMPLES_MAX} samples, and not {number}"
            raise _error_at(("samples",), "samples", message)
        return self

    @property
    def sample_places(self) -> list[tuple[SampleFile, int]]:
        """The file of each sample, and the sample's number in it."""
        return [(file, number) for file in self.samples for number in range(file.count)]

    @property
    def tolerance(self) -> float:
        """The relative tolerance of each comparison that the eager model's rounding does not decide."""
        return TOLERANCE if self.check_tolerance is None else self.check_tolerance

    @property
    def measures_rounding(self) -> bool:
        """Whether the eager model's own rounding decides, as no tolerance was given."""
        return self.check_tolerance is None


class TraceOptions(Frozen):
    """The options of torch.jit.trace, and how the artifact is served."""

    strict: bool = Field(
        True,
        description="torch.jit.trace's `strict`. True: the archive returns tensors in tuples, and the contract says "
        "how they stand in the dicts and lists that the model returns. False: the archive itself returns dicts and "
        "lists, whose values must all be of one type.",
    )
    force_outplace: bool = Field(False, description="Record in-place operators as their out-of-place versions.")
    store_inputs: bool = Field(
        True,
        description="torch.jit.trace's `_store_inputs`: the archive holds the structure, datatypes and shapes of the "
        "examples, not their values.",
    )
    freeze: bool = Field(False, description="Serve the form that torch.jit.freeze makes. The archive stays as traced.")
    optimize_for_inference: bool = Field(
        False, description="Serve the form that torch.jit.optimize_for_inference makes; it freezes too."
    )
    precision: Precision | None = Field(
        None, description="Cast the model's floating-point parameters and buffers, and its inputs, to this dtype first."
    )
    exportability: bool = Field(
        False, description="Try torch.export too, and report how ready the model is to leave TorchScript."
    )
    optimize: bool | None = Field(
        None,
        deprecated=True,
        description="torch.jit.trace accepts and ignores it. So does Tracehouse, with a notice.",
    )
    seed: int = Field(0, ge=0, lt=2**63, description="The seed for random weights and all else that the source draws.")

    @property
    def call_seed(self) -> int:
        """The seed of each call that the check makes: a number that nobody writes into a model.

        A model that seeds torch itself, with the very seed of the call, would seem to draw what its artifact draws.
        """
        return (self.seed + _CALL_SEED) % 2**63

    @property
    def served_form(self) -> ServedForm | None:
        """The form that is served; None if the archive is served as it was saved."""
        return served_form(freeze=self.freeze, optimize_for_inference=self.optimize_for_inference)


class TraceSpec(Frozen):
    """One submission: source, weights, example inputs and options."""

    model_config = ConfigDict(title="Trace request")

    model: ModelName = Field(description="The name under which the artifact is registered.")
    source: ModelSource
    weights: Weights | None = None
    environment: EnvironmentName | None = Field(
        None,
        description="The environment whose packages the source may import, besides those of the service itself. "
        "`GET /environments` lists them. Left out: none.",
    )
    mode: Mode = Field(
        "trace",
        description="`trace` and `script` are torch.jit's. `auto` traces, and scripts where a trace is wrong. `eager` "
        "runs the model on its inputs and keeps its outputs, without tracing.",
    )
    training: Training = Field(
        False, description="True: train mode. False: eval mode. `as-is`: the mode in which the source leaves the model."
    )
    methods: Annotated[dict[MethodName, MethodInputs], at_most(METHODS_MAX)] = Field({}, max_length=METHODS_MAX)
    dynamic: Dynamic = Field(
        {},
        description='Which dims of forward\'s inputs vary, by number from 0 on: `{"ids": {"0": "batch", "1": "seq"}}`. '
        "Dims with the same symbol have the same size; expressions such as `2*seq`, `past+new` or `(seq+1)//2` are "
        "allowed. Left out: the check finds them. Short for methods.forward.dynamic.",
    )
    sizes: Annotated[dict[Symbol, WantedSizes], at_most(SYMBOLS_MAX)] = Field(
        {},
        max_length=SYMBOLS_MAX,
        description='The wanted sizes of symbols: `{"seq": {"low": 1, "high": 128}}`. The symbols are those of '
        "`dynamic` or, if that is left out, those that the check names: the contract of an earlier trace lists them.",
    )
    buckets: Annotated[dict[Symbol, BucketSizes], at_most(1)] = Field(
        {},
        max_length=1,
        description='Sizes of a symbol of `dynamic`, as in `{"seq": [16, 32]}`. If one artifact handles every '
        "listed size, it is used for all. Otherwise each size gets its own artifact, and a request goes to the "
        "one of its size.",
    )
    example_inputs: Arguments = Field([], description=f"Short for methods.forward.example_inputs. {INPUTS_LIMIT}")
    example_kwarg_inputs: KeywordArguments = Field({}, description="Short for methods.forward.example_kwarg_inputs.")
    check: CheckOptions = CheckOptions()
    options: TraceOptions = TraceOptions()
    devices: Annotated[list[DeviceName], AfterValidator(_check_devices_differ)] = Field(
        ["cpu"],
        min_length=1,
        max_length=2,
        description="One artifact is traced on each device; `cuda` needs a GPU worker.",
    )
    accept_unsound: bool = Field(False, description="Register and serve the artifact even if its verdict is rejected.")
    promote: Promote = Field(
        "auto",
        description="Whether the new version becomes the model's default version, which `/infer/{model}` answers with. "
        "`auto`: if its contract accepts all that the present default version's accepts, and its verdict is as good. "
        "`always`, `never`: whatever they are. `POST /models/{name}/promote` changes it later.",
    )
    force: bool = Field(False, description="Trace again even if the same content was traced before.")

    @model_validator(mode="before")
    @classmethod
    def _check_number_of_inputs(cls, document: Any) -> Any:
        """Count the inputs of all calls before each of them becomes an object."""
        left = INPUT_VALUES_MAX
        for place, tree in _input_trees(document):
            left -= count_values(tree, left)
            if left < 0:
                raise _error_at(place, "too_many_inputs", f"{INPUTS_LIMIT} Write numbers as the data of a tensor.")
        return document

    @model_validator(mode="after")
    def _check_inputs_given_once(self) -> Self:
        at_the_top = bool(self.example_inputs or self.example_kwarg_inputs)
        if at_the_top and "forward" in self.methods:
            raise _error_at(
                ("methods", "forward"), "inputs_twice", "forward has inputs both at the top level and in methods"
            )
        if not self.calls:
            raise PydanticCustomError("no_inputs", "give example_inputs, example_kwarg_inputs or methods")
        for index, check in enumerate(self.check.check_inputs):
            if check.method not in self.calls:
                place = "check", "check_inputs", index, "method"
                raise _error_at(
                    place, "unknown_method", f"check_inputs name the method {check.method}, which is not traced"
                )
        for index, sample in enumerate(self.check.samples):
            if sample.method not in self.calls:
                place = "check", "samples", index, "method"
                raise _error_at(
                    place, "unknown_method", f"samples name the method {sample.method}, which is not traced"
                )
        return self

    @model_validator(mode="after")
    def _check_options_agree(self) -> Self:
        if self.mode == "eager":
            self._check_of_eager()
        served_frozen = self.options.served_form is not None
        if served_frozen and self.training is not False:
            raise _error_at(
                ("training",), "frozen_training", "torch freezes models in eval mode only: set training to false"
            )
        if served_frozen and self.check.gradients:
            raise _error_at(
                ("check", "gradients"),
                "frozen_gradients",
                "a frozen model has no parameters, so no gradients can be compared",
            )
        if self.source.archive is not None:
            self._check_of_archive()
        return self

    @model_validator(mode="after")
    def _check_symbols_are_declared(self) -> Self:
        declared = self._declared_symbols()
        for symbol in self.buckets:
            if symbol not in declared:
                example = '{"ids": {"1": "' + symbol + '"}}'
                message = f"dynamic has no {symbol}: say which dims it is the size of, as in {example}"
                raise _error_at(("buckets", symbol), "bucket_symbol", message)
        if not all(call.dynamic for call in self.calls.values()):
            return self  # the check names the symbols of the other methods
        for symbol in self.sizes:
            if symbol not in declared:
                raise _error_at(
                    ("sizes", symbol), "size_symbol", f"dynamic has no {symbol}: it has {', '.join(declared)}"
                )
        return self

    def _declared_symbols(self) -> dict[str, None]:
        """Return the symbols of all methods' `dynamic`, in order."""
        expressions = [dim for call in self.calls.values() for dims in call.dynamic.values() for dim in dims.values()]
        return {symbol: None for dim in expressions for symbol, _ in parse_dim(dim).terms}

    def _check_of_eager(self) -> None:
        if len(self.devices) > 1:
            raise _error_at(("devices",), "eager_devices", "mode eager runs on one device")
        asked = {
            ("check", "gradients"): self.check.gradients,
            ("options", "freeze"): self.options.freeze,
            ("options", "optimize_for_inference"): self.options.optimize_for_inference,
            ("options", "exportability"): self.options.exportability,
            ("accept_unsound",): self.accept_unsound,
            ("buckets",): bool(self.buckets),
            ("promote",): self.promote != "auto",
        }
        for place, is_asked in asked.items():
            if is_asked:
                raise _error_at(
                    place, "eager_option", f"mode eager does not trace: leave out {place[-1]}, or choose another mode"
                )

    def _check_of_archive(self) -> None:
        if self.mode not in ("trace", "auto"):
            raise _error_at(("mode",), "archive_mode", "an archive is already traced or scripted: set mode to trace")
        if self.weights is not None:
            raise _error_at(("weights",), "archive_weights", "an archive contains its weights: leave out weights")
        if self.options.precision is not None:
            raise _error_at(
                ("options", "precision"),
                "archive_precision",
                "an archive is served in its own precision: leave out precision",
            )
        if self.environment is not None:
            raise _error_at(
                ("environment",), "archive_environment", "an archive imports nothing: leave out environment"
            )
        if self.buckets:
            raise _error_at(("buckets",), "archive_buckets", "an archive was made for its own sizes: leave out buckets")
        if self.training is True:
            raise _error_at(
                ("training",),
                "archive_training",
                "an archive is served in the mode in which it was saved: leave out training",
            )

    @property
    def calls(self) -> dict[str, MethodInputs]:
        """The methods to trace with their inputs: `methods`, and the inputs at the top level as `forward`."""
        if not (self.example_inputs or self.example_kwarg_inputs):
            return self.methods
        # Without validation: each tensor would be packed again.
        forward = MethodInputs.model_construct(
            example_inputs=self.example_inputs, example_kwarg_inputs=self.example_kwarg_inputs, dynamic=self.dynamic
        )
        return {"forward": forward, **self.methods}

    @property
    def conversion(self) -> Conversion:
        """How the artifact is made first; mode auto may try others."""
        return Conversion(mode="script" if self.mode == "script" else "trace")

    @property
    def pool(self) -> str:
        """The pool whose workers take this request."""
        return pool_of(self.devices)


def json_text(document: BaseModel, *, exclude: set[str] | None = None, exclude_defaults: bool = False) -> bytes:
    """Return a model that has a trace spec in it, or is one, as JSON: tensors' values are written as they were sent."""
    members = document.model_dump(exclude=exclude, exclude_defaults=exclude_defaults)
    return orjson.dumps(members, default=_values_of)


def _values_of(value: Any) -> JsonValue:
    if isinstance(value, TensorValues):
        return value.data
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _input_trees(document: Any) -> Iterator[tuple[tuple[int | str, ...], Any]]:
    """Yield the inputs in a request that is not validated yet, each with its place; none of a call too many."""
    yield from _trees_of(document, ())
    methods = _member(document, "methods")
    for name, call in islice(methods.items(), METHODS_MAX) if isinstance(methods, dict) else ():
        yield from _trees_of(call, ("methods", name))
    further = _member(_member(document, "check"), "check_inputs")
    for index, call in enumerate(further[:CHECK_INPUTS_MAX] if isinstance(further, list) else ()):
        place = "check", "check_inputs", index
        if isinstance(call, list):  # the positional arguments of `forward`
            yield place, call
        yield from _trees_of(call, place)


def _trees_of(call: Any, place: tuple[int | str, ...]) -> Iterator[tuple[tuple[int | str, ...], Any]]:
    for name in ("example_inputs", "example_kwarg_inputs"):
        if (tree := _member(call, name)) is not None:
            yield (*place, name), tree


def _member(document: Any, name: str) -> Any:
    return document.get(name) if isinstance(document, dict) else None


def pool_of(devices: Sequence[DeviceName]) -> str:
    """Return the pool whose workers take what runs on these devices: `gpu` if one of them is `cuda`, else `cpu`."""
    return "gpu" if "cuda" in devices else "cpu"
