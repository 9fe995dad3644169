"""A trace spec: what a person submits."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
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
from tracehouse.frozen import Frozen
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.example_inputs import Arguments, CheckInput, Dynamic, KeywordArguments, MethodInputs
from tracehouse.spec.model_name import ModelName

BUDGET_S = 15.0

BUCKETS_MAX = 32

# Each is open in the tracing child: the kernel hands over no more than 253 descriptors at once.
FILES_MAX = 50

_PYTHON_NAME = r"[A-Za-z_][A-Za-z0-9_]*"

_ENTRYPOINT = re.compile(rf"{_PYTHON_NAME}(\.{_PYTHON_NAME})*:{_PYTHON_NAME}(\.{_PYTHON_NAME})*")

_SOURCE_PATH = re.compile(rf"({_PYTHON_NAME}/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")

_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,199}")


def _entrypoint(value: str) -> str:
    if not _ENTRYPOINT.fullmatch(value):
        raise PydanticCustomError("entrypoint", "write it as module:name, for instance net:Net")
    return value


def _source_path(value: str) -> str:
    if len(value) > 200 or not _SOURCE_PATH.fullmatch(value):
        raise PydanticCustomError("source_path", "a source file's name is a relative path such as net.py or pkg/net.py")
    return value


def _file_name(value: str) -> str:
    if not _FILE_NAME.fullmatch(value):
        raise PydanticCustomError(
            "file_name", "a file's name is a plain name without slashes, such as weights.safetensors"
        )
    return value


def _method_name(value: str) -> str:
    if not re.fullmatch(_PYTHON_NAME, value):
        raise PydanticCustomError("method_name", "a method's name is a Python name")
    return value


def _training(value: Any, parse: ValidatorFunctionWrapHandler) -> Any:
    try:
        return parse(value)
    except ValidationError as error:
        raise PydanticCustomError("training", 'training is true, false or "as-is"') from error


def _at(location: tuple[int | str, ...], kind: str, message: str) -> ValidationError:
    """What a validator of the whole raises about one of its members: pydantic keeps the place."""
    error = InitErrorDetails(
        type=PydanticCustomError(kind, "{message}", {"message": message}), loc=location, input=None
    )
    return ValidationError.from_exception_data(kind, [error])


def _each_once(devices: list[str]) -> list[str]:
    if len(set(devices)) < len(devices):
        raise PydanticCustomError("device_twice", "a device is named twice")
    return devices


def _each_size_once(sizes: list[int]) -> list[int]:
    if not 0 < len(sizes) <= BUCKETS_MAX or len(set(sizes)) < len(sizes) or min(sizes) < 1:
        raise PydanticCustomError("buckets", f"list 1 to {BUCKETS_MAX} sizes from 1 on, each once")
    return sizes


FileName = Annotated[str, AfterValidator(_file_name)]

SourcePath = Annotated[str, AfterValidator(_source_path)]

Entrypoint = Annotated[str, AfterValidator(_entrypoint)]

MethodName = Annotated[str, AfterValidator(_method_name)]

Mode = Literal["trace", "script", "auto", "eager"]

Training = Annotated[bool | Literal["as-is"], WrapValidator(_training)]

Precision = Literal["float32", "bfloat16", "float16", "float64"]

DeviceName = Literal["cpu", "cuda"]

ServedForm = Literal["freeze", "optimize_for_inference"]


def served_form(*, freeze: bool, optimize_for_inference: bool) -> ServedForm | None:
    """What is made of the archive where it is served; None where that is the archive as it is."""
    if optimize_for_inference:
        return "optimize_for_inference"
    return "freeze" if freeze else None


class WantedSizes(Span):
    """For which sizes of a symbol an artifact is wanted: the check answers for just these."""

    low: int = Field(1, ge=0, le=SIZE_MAX)


class Init(Frozen):
    """The arguments that a class or a factory is called with."""

    args: list[JsonValue] = []
    kwargs: dict[str, JsonValue] = {}


class ModelSource(Frozen):
    """The submitted Python text: inline files, or one uploaded `.py` or `.zip`. Or, in its place, an archive."""

    files: dict[SourcePath, str] | None = Field(None, min_length=1, max_length=1000)
    file: FileName | None = Field(None, description="An uploaded `.py` or `.zip`.")
    archive: FileName | None = Field(
        None, description="An uploaded TorchScript archive, as torch.jit.save writes it: there is no eager model then."
    )
    entrypoint: Entrypoint | None = Field(
        None,
        description="`module:name` of an nn.Module class, a factory, an instance or a function; an archive has none.",
    )
    init: Init = Init()

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if [self.files, self.file, self.archive].count(None) != 2:
            raise PydanticCustomError("source", "give one of files, file and archive")
        if (self.entrypoint is None) != (self.archive is not None):
            raise _at(("entrypoint",), "entrypoint", "source code needs an entrypoint, and an archive has none")
        if self.archive is not None and self.init != Init():
            raise _at(("init",), "init", "an archive is a model already: it takes no init")
        return self


class Weights(Frozen):
    """An uploaded state dict, `.safetensors`, `.pt` or `.pth`; `strict` as in `load_state_dict`."""

    file: FileName
    strict: bool = True


class CheckOptions(Frozen):
    """How the trace is checked. Our own comparison with the eager model always runs."""

    check_trace: bool = Field(True, description="Run torch's own check as well, and report what it says.")
    check_inputs: list[CheckInput] = Field([], max_length=100, description="Further calls to compare on.")
    check_tolerance: float = Field(1e-5, gt=0, le=1, description="Relative tolerance, as torch.jit.trace takes it.")
    probes: Literal["auto", "off", "deep"] = Field(
        "auto",
        description="Vary the examples' values and sizes, compare on those too, and open the contract to the sizes "
        "that come out right. `deep` tries far more, `off` nothing: the contract is the example's.",
    )
    budget_s: float = Field(
        BUDGET_S,
        gt=0,
        le=3600,
        description="How many seconds of processor time the check may take beside the trace, and at most four times as "
        "many by the clock; what it cuts is in the artifact's `check.layers`.",
    )
    contract: Literal["closed", "open"] = Field(
        "closed",
        description="Whether sizes that were never tried are refused, or answered with a warning. Those that are known "
        "to be answered wrongly are refused in both.",
    )
    gradients: bool = Field(
        False, description="Compare the gradients of inputs and parameters as well, as torch.jit.verify does."
    )


class TraceOptions(Frozen):
    """Handed to torch.jit.trace, and how the artifact is served."""

    strict: bool = Field(True, description="As torch.jit.trace takes it: false lets dicts and lists be returned.")
    force_outplace: bool = Field(False, description="Record operators in place as those that are not.")
    store_inputs: bool = Field(
        True,
        description="As torch.jit.trace takes it: the archive holds how the examples nest, their datatypes and shapes, "
        "and not their values.",
    )
    freeze: bool = Field(False, description="Serve the form that torch.jit.freeze makes; the archive stays as traced.")
    optimize_for_inference: bool = Field(
        False, description="Serve the form that torch.jit.optimize_for_inference makes, which freezes as well."
    )
    precision: Precision | None = Field(
        None, description="Cast the model's floating-point parameters and buffers, and its inputs, to this first."
    )
    exportability: bool = Field(
        False, description="Try torch.export as well, and say how ready the model is for life after TorchScript."
    )
    optimize: bool | None = Field(
        None,
        deprecated=True,
        description="torch.jit.trace takes and ignores it; so does this, and says so.",
    )
    seed: int = Field(0, ge=0, lt=2**63, description="For random weights, and whatever else the source draws.")

    @property
    def served_form(self) -> ServedForm | None:
        return served_form(freeze=self.freeze, optimize_for_inference=self.optimize_for_inference)


class TraceSpec(Frozen):
    """What a person submits."""

    model_config = ConfigDict(title="Trace request")

    model: ModelName = Field(description="The name under which the artifact is registered.")
    source: ModelSource
    weights: Weights | None = None
    mode: Mode = Field(
        "trace",
        description="`trace` and `script` are torch.jit's. `auto` traces, and scripts where a trace is wrong. `eager` "
        "runs the model on its inputs and keeps what it returns: nothing is traced.",
    )
    training: Training = Field(
        False, description="Train mode, eval mode, or `as-is`: the mode in which the source leaves the model."
    )
    methods: dict[MethodName, MethodInputs] = Field({}, max_length=32)
    dynamic: Dynamic = Field(
        {},
        description='Which dims of forward\'s inputs are to vary: `{"ids": {"0": "batch", "1": "seq"}}`, each by its '
        "number, from 0 on. Dims of one symbol have one size; `2*seq` or `past+new` may stand for a symbol. Left out: "
        "the check finds them. Stands for methods.forward.dynamic.",
    )
    sizes: dict[Symbol, WantedSizes] = Field(
        {},
        max_length=16,
        description='The sizes that are wanted of symbols: `{"seq": {"low": 1, "high": 128}}`. A symbol is one of '
        "`dynamic` or, where that is left out, one that the check names: the contract of an earlier trace has them.",
    )
    buckets: dict[Symbol, Annotated[list[int], AfterValidator(_each_size_once)]] = Field(
        {},
        max_length=1,
        description='Sizes of a symbol of `dynamic`, as in `{"seq": [16, 32]}`: where no one artifact takes all of '
        "them, one is made for each, and a request is answered by the one of its size.",
    )
    example_inputs: Arguments = Field([], description="Stands for methods.forward.example_inputs.")
    example_kwarg_inputs: KeywordArguments = Field({}, description="Stands for methods.forward.example_kwarg_inputs.")
    check: CheckOptions = CheckOptions()
    options: TraceOptions = TraceOptions()
    devices: Annotated[list[DeviceName], AfterValidator(_each_once)] = Field(
        ["cpu"],
        min_length=1,
        max_length=2,
        description="One artifact for each, traced there; `cuda` needs a GPU worker.",
    )
    accept_unsound: bool = Field(False, description="Register and serve the artifact even if its verdict is rejected.")
    force: bool = Field(False, description="Trace again, although the same content was traced before.")

    @model_validator(mode="after")
    def _inputs_once(self) -> Self:
        at_the_top = bool(self.example_inputs or self.example_kwarg_inputs)
        if at_the_top and "forward" in self.methods:
            raise _at(("methods", "forward"), "inputs_twice", "forward has inputs both at the top and in methods")
        if not self.calls:
            raise PydanticCustomError("no_inputs", "give example_inputs, example_kwarg_inputs or methods")
        for index, check in enumerate(self.check.check_inputs):
            if check.method not in self.calls:
                place = "check", "check_inputs", index, "method"
                raise _at(place, "unknown_method", f"check_inputs name {check.method}, which is not traced")
        return self

    @model_validator(mode="after")
    def _options_agree(self) -> Self:
        if self.mode == "eager":
            self._check_of_eager()
        served_frozen = self.options.served_form is not None
        if served_frozen and self.training is not False:
            raise _at(
                ("training",), "frozen_training", "torch freezes models in eval mode alone: let training be false"
            )
        if served_frozen and self.check.gradients:
            raise _at(
                ("check", "gradients"),
                "frozen_gradients",
                "a frozen model has no parameters left to compare gradients of",
            )
        if self.source.archive is not None:
            self._check_of_archive()
        return self

    @model_validator(mode="after")
    def _symbols_are_declared(self) -> Self:
        declared = self._declared()
        for symbol in self.buckets:
            if symbol not in declared:
                example = '{"ids": {"1": "' + symbol + '"}}'
                message = f"dynamic has no {symbol}: say which dims it is the size of, as in {example}"
                raise _at(("buckets", symbol), "bucket_symbol", message)
        if not all(call.dynamic for call in self.calls.values()):
            return self  # the check names those of the others
        for symbol in self.sizes:
            if symbol not in declared:
                raise _at(("sizes", symbol), "size_symbol", f"dynamic has no {symbol}: it has {', '.join(declared)}")
        return self

    def _declared(self) -> dict[str, None]:
        """The symbols of all methods' `dynamic`, in their order."""
        expressions = [dim for call in self.calls.values() for dims in call.dynamic.values() for dim in dims.values()]
        return {symbol: None for dim in expressions for symbol, _ in parse_dim(dim).terms}

    def _check_of_eager(self) -> None:
        if len(self.devices) > 1:
            raise _at(("devices",), "eager_devices", "mode eager runs on one device")
        asked = {
            ("check", "gradients"): self.check.gradients,
            ("options", "freeze"): self.options.freeze,
            ("options", "optimize_for_inference"): self.options.optimize_for_inference,
            ("options", "exportability"): self.options.exportability,
            ("accept_unsound",): self.accept_unsound,
            ("buckets",): bool(self.buckets),
        }
        for place, is_asked in asked.items():
            if is_asked:
                raise _at(
                    place, "eager_option", f"mode eager traces nothing: leave out {place[-1]}, or choose another mode"
                )

    def _check_of_archive(self) -> None:
        if self.mode not in ("trace", "auto"):
            raise _at(("mode",), "archive_mode", "an archive was traced or scripted before: let mode be trace")
        if self.weights is not None:
            raise _at(("weights",), "archive_weights", "an archive has its weights in it")
        if self.options.precision is not None:
            raise _at(
                ("options", "precision"), "archive_precision", "an archive is served as it is: leave out precision"
            )
        if self.buckets:
            raise _at(("buckets",), "archive_buckets", "an archive was made before, for one size: leave out buckets")
        if self.training is True:
            raise _at(("training",), "archive_training", "an archive is served in the mode in which it was saved")

    @property
    def calls(self) -> dict[str, MethodInputs]:
        """Which methods are traced, on what: `methods`, with the inputs at the top as `forward`."""
        if not (self.example_inputs or self.example_kwarg_inputs):
            return self.methods
        forward = MethodInputs(
            example_inputs=self.example_inputs, example_kwarg_inputs=self.example_kwarg_inputs, dynamic=self.dynamic
        )
        return {"forward": forward, **self.methods}

    @property
    def conversion(self) -> Conversion:
        """How the artifact is made; mode auto begins with this."""
        return Conversion(mode="script" if self.mode == "script" else "trace")

    @property
    def pool(self) -> str:
        """The workers that can take it: those with a GPU take all of a request's devices."""
        return "gpu" if "cuda" in self.devices else "cpu"
