"""The options of `tracehouse trace` and `tracehouse check` in groups, and the trace request that they make."""

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import orjson
import typer

from service.cli import image_options, size_options
from service.cli.example_inputs import ShellInputs, Uploads
from service.cli.existing_file import existing_file
from service.cli.given_once import add_once
from service.cli.sample_files import sample_file
from service.cli.sources import NamedSource
from tracehouse.spec.image_reading import is_image
from tracehouse.spec.trace_spec import BudgetName

_NAMED_ARGUMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class CallOptions:
    """What the model is called with."""

    input: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT",
            help="An example input of forward, once for each: 1x3x224x224, ids=2x8:INT64@0..1000 (a keyword "
            "argument), n=scalar:INT64@1..5 (a tensor of no dimensions), x=inputs.npz#x (a tensor in a file). "
            "What is no tensor: scale=0.25, n=int:3, flag=true, mask=null, 'kind=\"mean\"'.",
        ),
    ] = None
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=INPUT,…",
            help="A further method and its inputs, once for each: kernel_sum=1x3,w=4,scale=0.5.",
        ),
    ] = None


@dataclass(frozen=True)
class ModelOptions:
    """What is traced, and in which mode and on which devices."""

    name: Annotated[
        str | None, typer.Option(help="The model's name. Default: the name of the source's file, or of its package.")
    ] = None
    weights: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="State dict: .safetensors, .pt or .pth.")
    ] = None
    weights_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Where in the weights' file the state dict is: state_dict, or state.model."),
    ] = None
    weights_rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW",
            help="How names of weights begin, and how they do in the model: module.= takes module. away.",
        ),
    ] = None
    weights_strict: Annotated[
        bool, typer.Option(help="--no-weights-strict leaves out weights that the model does not have.")
    ] = True
    allow_missing: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Parameters and buffers that may keep the values of the source: '*.relative_position_index'.",
        ),
    ] = None
    init: Annotated[str, typer.Option(help="JSON: the keyword arguments that the entrypoint is called with.")] = "{}"
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE|NAME=VALUE",
            help="An argument that the entrypoint is called with, once for each: resnet18, or num_classes=10. A value "
            "is JSON, or else a string.",
        ),
    ] = None
    stub_missing: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PACKAGE",
            help="A package that the source imports and the model does not use: if it is not installed, a stub is "
            "imported in its place. May be given several times.",
        ),
    ] = None
    environment: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The environment whose packages the source may import; GET /environments lists them."
        ),
    ] = None
    mode: Annotated[
        str,
        typer.Option(
            metavar="trace|script|auto|eager",
            help="auto scripts where a trace is wrong; eager traces nothing, and prints what the model returns.",
        ),
    ] = "trace"
    training: Annotated[
        bool | None,
        typer.Option("--training/--eval", help="Put the model into training mode or eval mode. Default: eval."),
    ] = None
    as_is: Annotated[bool, typer.Option("--as-is", help="Keep the model in the mode that the source leaves it in.")] = (
        False
    )
    precision: Annotated[
        str | None, typer.Option(metavar="float32|bfloat16|float16|float64", help="Cast the model and its inputs.")
    ] = None
    device: Annotated[
        list[str] | None,
        typer.Option(metavar="cpu|cuda", help="A device to trace on, once for each. Default: cpu."),
    ] = None


@dataclass(frozen=True)
class SizeOptions:
    """Which sizes the inputs of forward may have."""

    dynamic: Annotated[
        list[str] | None,
        typer.Option(metavar="LEAF:DIM=SYMBOL", help="A dim of an input of forward that is to vary: ids:1=seq."),
    ] = None
    sizes: Annotated[
        list[str] | None, typer.Option(metavar="SYMBOL=LOW..HIGH", help="The sizes that a symbol may have: seq=1..128.")
    ] = None
    buckets: Annotated[
        str | None,
        typer.Option(
            metavar="SYMBOL=SIZE,…",
            help="If the trace bakes a symbol's size in, make one artifact for each of these sizes: seq=16,32.",
        ),
    ] = None


@dataclass(frozen=True)
class TraceCheckOptions:
    """How the trace is checked, and what its contract lets through."""

    probes: Annotated[str, typer.Option(metavar="auto|off|deep", help="How many inputs the check makes up.")] = "auto"
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="quick|normal|deep|SECONDS",
            help="How long the check may take: a name, of which the model's first call decides the seconds, or seconds "
            "of processor time. Default: normal.",
        ),
    ] = None
    open_contract: Annotated[
        bool, typer.Option("--open", help="Answer sizes that were never tried, with a warning, instead of refusing.")
    ] = False
    gradients: Annotated[bool, typer.Option("--gradients", help="Compare gradients as well.")] = False
    samples: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Real inputs of forward, once for each file: a .npz or .safetensors file with 0/ids, 0/mask, 1/ids "
            "and so on; or a picture, .png or .jpg, which is one sample.",
        ),
    ] = None


@dataclass(frozen=True)
class ImageOptions:
    """How the pictures among the samples become inputs."""

    image_input: Annotated[
        str | None,
        typer.Option(metavar="INPUT", help="The input that a picture is. Default: the only one that is like an image."),
    ] = None
    image_size: Annotated[
        str | None,
        typer.Option(
            metavar="HEIGHTxWIDTH|own",
            help="What pictures are resized to; own keeps the size of each. Default: the example's size.",
        ),
    ] = None
    image_mean: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER,…", help="What is subtracted from the values 0 to 1 of each channel: 0.485,0.456,0.406."
        ),
    ] = None
    image_std: Annotated[
        str | None,
        typer.Option(metavar="NUMBER,…", help="What the values are divided by then: 0.229,0.224,0.225."),
    ] = None
    image_layout: Annotated[
        str | None,
        typer.Option(metavar="NCHW|NHWC", help="Where the channels stand. Default: as the example's sizes show it."),
    ] = None


@dataclass(frozen=True)
class TorchOptions:
    """What torch does with the model, and with what seed."""

    freeze: Annotated[bool, typer.Option("--freeze", help="Serve the model as torch.jit.freeze makes it.")] = False
    optimize_for_inference: Annotated[
        bool,
        typer.Option("--optimize-for-inference", help="Serve the model as torch.jit.optimize_for_inference makes it."),
    ] = False
    exportability: Annotated[bool, typer.Option("--exportability", help="Try torch.export as well.")] = False
    seed: Annotated[int, typer.Option(help="Seed of random inputs and random weights.")] = 0
    strict: Annotated[bool, typer.Option(help="strict of torch.jit.trace.")] = True


@dataclass(frozen=True)
class RequestOptions:
    """What becomes of the result."""

    accept_unsound: Annotated[bool, typer.Option(help="Register the model even if its trace is rejected.")] = False
    promote: Annotated[
        str,
        typer.Option(
            metavar="auto|always|never",
            help="Whether the new version answers requests that name none. auto: if it accepts all that the present "
            "one accepts, and its verdict is as good.",
        ),
    ] = "auto"
    force: Annotated[bool, typer.Option(help="Trace again, even if the same request was traced before.")] = False


def spec_of(
    source: NamedSource,
    call: CallOptions,
    model: ModelOptions,
    sizes: SizeOptions,
    check: TraceCheckOptions,
    images: ImageOptions,
    options: TorchOptions,
    request: RequestOptions,
    uploads: Uploads,
) -> dict[str, Any]:
    """Return the trace request as JSON. Raises typer.BadParameter."""
    if model.as_is and model.training is not None:
        raise typer.BadParameter("--as-is leaves the model's mode as it is: give it without --training and --eval")
    if not call.input and not call.method:
        raise typer.BadParameter("say what the model is called with: --input 1x3x224x224, or --input ids=2x8:INT64")
    inputs = ShellInputs.parse(call.input or [], options.seed, uploads)
    spec: dict[str, Any] = {
        "model": source.model if model.name is None else model.name,
        "source": {**source.source, "init": _init(model), "stub_missing": model.stub_missing or []},
        "environment": model.environment,
        "mode": model.mode,
        "training": "as-is" if model.as_is else bool(model.training),
        "example_inputs": inputs.args,
        "example_kwarg_inputs": inputs.kwargs,
        "methods": _methods(call.method or [], options.seed, uploads),
        "dynamic": size_options.parse_dynamic(sizes.dynamic or []),
        "sizes": size_options.parse_sizes(sizes.sizes or []),
        "buckets": size_options.parse_buckets(sizes.buckets),
        "check": _check(check, images, uploads),
        "options": {
            "seed": options.seed,
            "strict": options.strict,
            "freeze": options.freeze,
            "optimize_for_inference": options.optimize_for_inference,
            "precision": model.precision,
            "exportability": options.exportability,
        },
        "devices": model.device or ["cpu"],
        "accept_unsound": request.accept_unsound,
        "promote": request.promote,
        "force": request.force,
    }
    if weights := _weights(model, uploads):
        spec["weights"] = weights
    return spec


def _weights(model: ModelOptions, uploads: Uploads) -> dict[str, Any]:
    """Return the request's `weights`; empty if there are none."""
    given: dict[str, Any] = {}
    if model.weights_key is not None:
        given["key"] = model.weights_key
    if model.weights_rename:
        given["rename"] = _renames(model.weights_rename)
    if not model.weights_strict:
        given["strict"] = False
    if model.allow_missing:
        given["allow_missing"] = model.allow_missing
    if model.weights:
        return {"file": uploads.add(existing_file(model.weights)), **given}
    if given:
        raise typer.BadParameter("say which file has the weights: --weights FILE")
    return {}


def _renames(texts: list[str]) -> dict[str, str]:
    renames: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"--weights-rename is OLD=NEW, for instance {text}=")
        add_once(renames, old, new, "--weights-rename of")
    return renames


def _check(check: TraceCheckOptions, images: ImageOptions, uploads: Uploads) -> dict[str, Any]:
    samples = _samples(check.samples or [], images, uploads)
    return {
        "gradients": check.gradients,
        "probes": check.probes,
        "contract": "open" if check.open_contract else "closed",
        **({"samples": samples} if samples else {}),
        **({} if check.budget is None else _budget(check.budget)),
    }


def _budget(text: str) -> dict[str, Any]:
    """Return the budget in the request's `check`: seconds, or a name."""
    with suppress(ValueError):
        seconds = float(text)
        if math.isfinite(seconds):  # JSON has no other number, and without one the budget would count as not given
            return {"budget_s": seconds}
    if text not in get_args(BudgetName):
        raise typer.BadParameter(f"--budget is {', '.join(get_args(BudgetName))} or a number of seconds, not {text!r}")
    return {"budget": text}


def _samples(texts: list[str], images: ImageOptions, uploads: Uploads) -> list[dict[str, Any]]:
    """Return the request's `check.samples`."""
    reading = image_options.parse_reading(
        images.image_input, images.image_size, images.image_mean, images.image_std, images.image_layout
    )
    if reading and not any(map(is_image, texts)):
        raise typer.BadParameter("say which pictures are read so: --samples cat.jpg")
    files = [sample_file(text, uploads) for text in texts]
    return [{**file, "image": reading} if reading and is_image(file["file"]) else file for file in files]


def _methods(texts: list[str], seed: int, uploads: Uploads) -> dict[str, Any]:
    """Return the request's `methods`."""
    methods: dict[str, Any] = {}
    for text in texts:
        name, written, given = text.partition("=")
        if not written:
            raise typer.BadParameter(f"{text!r} names no inputs; write {name}=1x3, or {name}=1x3,w=4")
        inputs = ShellInputs.parse_list(given, seed, uploads)
        examples = {"example_inputs": inputs.args, "example_kwarg_inputs": inputs.kwargs}
        add_once(methods, name, examples, "the method")
    return methods


def _init(model: ModelOptions) -> dict[str, Any]:
    """Return the arguments in the request's `source`."""
    args: list[Any] = []
    kwargs = _keyword_arguments(model.init)
    for text in model.arg or []:
        named = _NAMED_ARGUMENT.fullmatch(text)
        if named is None:
            args.append(_json_or_text(text))
        else:
            add_once(kwargs, named[1], _json_or_text(named[2]), "the argument")
    return {"args": args, "kwargs": kwargs}


def _json_or_text(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return text


def _keyword_arguments(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"--init is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise typer.BadParameter("--init is a JSON object of keyword arguments")
    return value
