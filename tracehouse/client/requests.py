"""Trace requests: a model is submitted with its inputs, and watched until it has been traced."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from tracehouse.client.arguments import (
    bounded_depth,
    check_finite,
    describe_value,
    is_whole,
    read_dict,
    read_list,
    read_number,
    read_whole,
)
from tracehouse.client.documents import write_document
from tracehouse.client.errors import NotSendable, ServiceUnreachable, UnexpectedReply
from tracehouse.client.event_lines import EventLines
from tracehouse.client.example_inputs import ExampleInputs
from tracehouse.client.flow import IDEMPOTENCY_KEY, Ask, Flow, get_json, get_list
from tracehouse.client.forms import TraceRequestForm, TraceRequestPage
from tracehouse.client.paths import trace_path
from tracehouse.client.progress import Progress, Shown, show_progress
from tracehouse.client.submission import Submission
from tracehouse.client.upload_limits import byte_size_of, check_sizes
from tracehouse.spec.model_name import NAME_RULE, is_name

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]

_FINAL = {"succeeded", "failed", "cancelled"}
# So often a stream of events may be cut while the service answers, as a proxy does that waits for each reply's end.
_CUTS_MAX = 20
_BUCKETS = 'give the sizes, as buckets={"seq": [32, 128]}'
_KEPT = "The service keeps the trace request, and goes on with it: client.get_trace({id!r})"


@dataclass(frozen=True)
class Submitted:
    """What the service said of a trace request when it took it, and what was sent."""

    request: dict[str, Any]
    submission: Submission


def trace(
    model: Any,
    example_inputs: Any = (),
    *,
    name: str | None = None,
    example_kwarg_inputs: Mapping[str, Any] | None = None,
    methods: Mapping[str, Any] | None = None,
    check_inputs: Sequence[Any] = (),
    dynamic: Mapping[str, Mapping[int | str, str]] | None = None,
    sizes: Mapping[str, range | tuple[int, int]] | None = None,
    buckets: Mapping[str, int | Sequence[int]] | None = None,
    made_by: str | Callable[..., Any] | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    weights: Any = None,
    include: str | Path | Sequence[str | Path] = (),
    imports: str | Sequence[str] = (),
    mode: Literal["trace", "script", "auto", "eager"] = "trace",
    training: bool | None = None,
    environment: str | None = None,
    stub_missing: str | Sequence[str] = (),
    devices: Literal["cpu", "cuda"] | Sequence[Literal["cpu", "cuda"]] = ("cpu",),
    budget: Literal["quick", "normal", "deep"] | None = None,
    budget_s: float | None = None,
    tolerance: float | None = None,
    gradients: bool = False,
    options: Mapping[str, Any] | None = None,
    accept_unsound: bool = False,
    promote: Literal["auto", "always", "never"] = "auto",
    force: bool = False,
) -> Flow[Submitted]:
    """Have a model traced. This returns once the service has it: `wait()`, or a look at the result, waits for the end.

    - `model`: a live module, in the mode in which it is to be traced (`model.eval()` comes first), a method bound to
      one, or a function. The source of its classes goes along. Or a text that names a source: `"net.py:Net"`,
      `"project:package.net:Net"` (a folder), `"source.zip:net:Net"`, `"net.pt"`, `"timm:create_model"`.
    - `example_inputs`, `example_kwarg_inputs`: the call that the trace is recorded on, with tensors or arrays.
      `methods`: further methods, each with its inputs: a tuple of positional or a dict of keyword arguments.
      `check_inputs`: further calls to compare on, given in the same way.
    - `name`: what the model is called on the service. By default, as its class, in lower case; a named source as its
      file, or as its package.
    - `dynamic`, `sizes`: which dims vary, as `{"ids": {1: "seq"}}`, and the sizes that are wanted, as
      `{"seq": (1, 128)}` or a range. Left out, the check finds which do. `buckets`: sizes that are traced one by one.
    - `made_by`, `args`, `kwargs`: how the live module is built: a class, a function, or `"module:name"`. Then the
      service builds it and gives it the weights, and no pickle is sent. Of a named source, `args` and `kwargs` are the
      arguments of what is named.
    - `weights`: the weights of a named source: a file, or a state dict. `include`: files that the code opens.
      `imports`: modules to import first, for what that does, such as registering operators.
    - `mode`: "auto" scripts what a trace cannot keep, and "eager" runs the model without tracing it.
    - `training`: the mode of the model; by default as it is, or eval for a named source.
    - `environment`: the environment of the service whose packages are needed; `stub_missing`: packages that the source
      imports and does not use.
    - `budget`, `budget_s`, `tolerance`, `gradients`: how the trace is checked. `options`: those of torch.jit.trace and
      of serving, as a trace request has them: `{"freeze": True, "precision": "bfloat16"}`.
    - `accept_unsound`: serve it even if it is rejected. `promote`: whether it answers under the bare name at once.
      `force`: trace it again although the same was traced before.

    Raises NotSendable before anything is sent, and ServiceRefused, ServiceUnreachable.
    """
    submission = _submission_of(model, made_by, args, kwargs, weights, include, imports)
    stubs = read_list("stub_missing", stub_missing, 'name packages, as stub_missing=["cv2"]', (str,))
    calls = read_list("check_inputs", check_inputs, "give a list of calls, as check_inputs=[x, y]")
    seconds = read_number("budget_s", budget_s, "give seconds, above 0 and at most 3600")
    inputs = ExampleInputs()
    request = {
        "model": submission.name if name is None else _checked_name(name),
        "source": {**submission.source, **({"stub_missing": stubs} if stubs else {})},
        "weights": submission.weights,
        "environment": environment,
        "mode": mode,
        "training": training if training is not None else submission.training,
        **_inputs_of(inputs, example_inputs, example_kwarg_inputs, methods),
        "dynamic": _dims_as_text(dynamic),
        "sizes": {
            symbol: _span(f"sizes[{symbol!r}]", wanted)
            for symbol, wanted in read_dict("sizes", sizes, 'give a dict, as sizes={"seq": (1, 128)}').items()
        },
        "buckets": {
            symbol: [
                read_whole(f"buckets[{symbol!r}][{place}]", size, _BUCKETS)
                for place, size in enumerate(read_list(f"buckets[{symbol!r}]", of, _BUCKETS, (Integral,)))
            ]
            for symbol, of in read_dict("buckets", buckets, _BUCKETS).items()
        },
        "check": {
            "check_inputs": [inputs.further_call(f"check_inputs[{place}]", one) for place, one in enumerate(calls)],
            "check_tolerance": read_number("tolerance", tolerance, "give a number above 0 and at most 1"),
            "gradients": gradients,
            **({} if budget is None else {"budget": budget}),
            **({} if seconds is None else {"budget_s": seconds}),
        },
        "options": _options(options),
        "devices": read_list("devices", devices, 'name devices, as devices=["cpu", "cuda"]', (str,)),
        "accept_unsound": accept_unsound,
        "promote": promote,
        "force": force,
    }
    given = {member: value for member, value in request.items() if value is not None}
    reply = yield from _send(given, {**submission.uploads, **inputs.uploads()})
    return Submitted(reply, submission)


def read(request_id: str) -> Flow[dict[str, Any]]:
    """Return a trace request as it is now."""
    request: dict[str, Any] = yield from get_json(trace_path(request_id), TraceRequestForm)
    return request


def read_newest(limit: int, state: State | None, model: str | None) -> Flow[list[dict[str, Any]]]:
    """Return the newest trace requests as they are now, the newest first, without their findings."""
    wanted = {"state": state, "model": model}
    given = {name: value for name, value in wanted.items() if value is not None}
    requests: list[dict[str, Any]] = yield from get_list(
        "/trace", "trace_requests", TraceRequestPage, given, most=limit
    )
    return requests


def submitted_earlier(request: dict[str, Any]) -> Submitted:
    """Return a trace request of which nobody knows here what was sent."""
    return Submitted(request, Submission(name=str(request["id"])[:8], source={}))


def watch(request_id: str, progress: Progress) -> Flow[dict[str, Any]]:
    """Wait until a trace request has ended, and return it. Raises ServiceUnreachable, which says how to go on."""
    try:
        with show_progress(progress) as shown:
            request = yield from _follow(request_id, shown)
    except ServiceUnreachable as error:
        error.add_note(_KEPT.format(id=request_id))
        raise
    return request


def _follow(request_id: str, shown: Shown) -> Flow[dict[str, Any]]:
    cuts_left = _CUTS_MAX
    request = yield from read(request_id)
    while request["state"] not in _FINAL:
        events = _Events(shown)
        cut: ServiceUnreachable | None = None
        try:
            yield Ask("GET", f"{trace_path(request_id)}/events", on_line=events.take)
        except ServiceUnreachable as error:
            cut = error
        if cut is not None or not events.count:  # the service sends all of them each time
            cuts_left -= 1
        if cuts_left == 0:
            raise cut or UnexpectedReply(f"what answers has no events of {request_id}: is it a Tracehouse service?")
        request = yield from read(request_id)
    return request


def cancel(request_id: str) -> Flow[dict[str, Any]]:
    """Cancel a trace request that waits or runs."""
    reply = yield Ask("POST", f"{trace_path(request_id)}/cancel")
    request: dict[str, Any] = reply.json(TraceRequestForm)
    return request


def delete(request_id: str) -> Flow[None]:
    """Delete a trace request that has ended."""
    yield Ask("DELETE", trace_path(request_id))


class _Events:
    """Takes the lines of a stream of events, shows the events, and counts them."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._lines = EventLines()
        self.count = 0

    def take(self, line: str) -> None:
        if (event := self._lines.read(line)) is not None:
            self.count += 1
            self._shown.take(*event)


def _submission_of(
    model: Any,
    made_by: str | Callable[..., Any] | None,
    args: Any,
    kwargs: Any,
    weights: Any,
    include: Any,
    imports: Any,
) -> Submission:
    args = read_list("args", args, "give a list of arguments, as args=[4, 2]")
    kwargs = read_dict("kwargs", kwargs, 'give a dict of arguments, as kwargs={"bias": False}')
    include = read_list(
        "include", include, 'name files and folders, as include=["words.txt", "configs"]; "." is all', (str, PathLike)
    )
    imports = read_list("imports", imports, 'name modules, as imports=["my_operators"]', (str,))
    # Loaded here, because a live model needs torch and nothing else does.
    if isinstance(model, str | Path):
        if made_by is not None:
            raise NotSendable(f"made_by is how a live module is built, and {str(model)!r} names a source: leave it out")
        named: Submission = import_module("tracehouse.client.sources.named").send_named(
            model, args, kwargs, weights, include, imports
        )
        return named
    if weights is not None:
        raise NotSendable("a live model has its own weights, which are sent: leave out weights")
    live = import_module("tracehouse.client.sources.live_model")
    submission: Submission
    if made_by is None:
        if args or kwargs:
            raise NotSendable("args and kwargs are the arguments of made_by: say what they are for, as made_by=Net")
        submission = live.send_live(model, include, imports)
    else:
        submission = live.send_state(model, made_by, args, kwargs, include, imports)
    return submission


def _inputs_of(
    inputs: ExampleInputs, args: Any, kwargs: Mapping[str, Any] | None, methods: Mapping[str, Any] | None
) -> dict[str, Any]:
    further = read_dict("methods", methods, 'give a dict of the inputs by method, as methods={"encode": (x,)}')
    members = {
        "methods": {method: inputs.further_call(f"methods[{method!r}]", given) for method, given in further.items()}
        or None
    }
    is_left_out = kwargs is None and isinstance(args, tuple | list) and not args
    return members if is_left_out and further else {**members, **inputs.call("example_inputs", args, kwargs)}


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not is_name(name):
        raise NotSendable(f"name is {describe_value(name)}: {NAME_RULE}. Leave name out, and the model's own is taken")
    return name


def _options(options: Any) -> dict[Any, Any]:
    given = read_dict("options", options, 'give a dict, as options={"freeze": True}')
    with bounded_depth("options"):
        check_finite("options", given)
    return given


def _dims_as_text(dynamic: Mapping[str, Mapping[int | str, str]] | None) -> dict[str, dict[str, str]]:
    remedy = "write dynamic as {'input name': {dim: 'symbol'}}, with dims counted from 0"
    return {
        name: {_dim(name, dim, remedy): symbol for dim, symbol in read_dict(f"dynamic[{name!r}]", dims, remedy).items()}
        for name, dims in read_dict("dynamic", dynamic, remedy).items()
    }


def _dim(name: str, dim: Any, remedy: str) -> str:
    """Return a dim as a trace request names it. Raises NotSendable, also for one that is counted from the end."""
    text = str(dim) if is_whole(dim) or isinstance(dim, str) else ""
    if re.fullmatch("[0-9]+", text) is None:
        raise NotSendable(f"dynamic[{name!r}] has {describe_value(dim)} as a dim: {remedy}, from the left")
    return text


def _span(path: str, wanted: Any) -> dict[str, int]:
    match wanted:
        case range() if wanted and wanted.step > 0:
            return {"low": wanted[0], "high": wanted[-1], "step": wanted.step}
        case (low, high) if is_whole(low) and is_whole(high):
            return {"low": int(low), "high": int(high)}
    raise NotSendable(
        f"{path} is {describe_value(wanted)}: give the first and the last size, as (1, 128), or a range that rises"
    )


def _send(request: dict[str, Any], uploads: Mapping[str, bytes | Path]) -> Flow[dict[str, Any]]:
    text = write_document(request)
    yield from check_sizes(len(text), {name: byte_size_of(content) for name, content in uploads.items()})
    with ExitStack() as opened:
        parts: list[tuple[str, Any]] = [("request", ("request.json", text, "application/json"))]
        for name, content in uploads.items():
            # Bytes as a file too: httpx sends a file in pieces, and copies the rest of bytes each time a part is gone.
            part = opened.enter_context(content.open("rb") if isinstance(content, Path) else BytesIO(content))
            parts.append(("files", (name, part, "application/octet-stream")))
        reply = yield Ask("POST", "/trace", headers={IDEMPOTENCY_KEY: uuid4().hex}, files=parts)
    taken: dict[str, Any] = reply.json(TraceRequestForm)
    return taken
