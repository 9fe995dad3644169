"""The check of a live model: `tracehouse.check`, in the caller's process, with no service and no files."""

import linecache
import platform
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from types import MethodType
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter

from tracehouse.artifact.manifest import Versions
from tracehouse.check.calls import call_artifact
from tracehouse.check.check import CheckResult
from tracehouse.check.ledger import OfferedCall
from tracehouse.check.model_check import ModelCheck
from tracehouse.check.oracle import EagerOracle
from tracehouse.check.pipeline import RequestedSizes
from tracehouse.check.report import LiveCounterexample, Report
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.dims import symbols_of
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.comparison import Answer, ComparisonResult, Difference
from tracehouse.differential.differential_run import DifferentialRun, DivergingAnswers
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.eager import observed_contract
from tracehouse.eager.call import Call, CheckCall, bind
from tracehouse.eager.copies import copy_model, find_uncopyable
from tracehouse.eager.declared_sizes import resize_call
from tracehouse.eager.model import Function, LoadedModel
from tracehouse.eager.submission import LoadedSubmission
from tracehouse.eager.weights import Fit
from tracehouse.errors import ArgumentMismatch, ModelExited, ModelNotCopyable, ModelRaised
from tracehouse.findings.finding import Finding
from tracehouse.introspection import paths, user_lines
from tracehouse.reproducer.counterexamples import (
    FoundCounterexample,
    choose_counterexamples,
    link_findings,
    to_numpy,
)
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.example_inputs import Dynamic
from tracehouse.spec.trace_spec import BUDGET_S, CheckOptions, TraceOptions, WantedSizes
from tracehouse.torch_values import structure
from tracehouse.torch_values.compare import compare
from tracehouse.torch_values.tensors import pack, spec_of

_METHOD = "forward"
# A counterexample's call has ended once already.
_CALL_S = 10.0

# torch and sympy import these when a first size is made a symbol: several seconds that are not to count as the check's.
_IMPORTED_LATE = ("torch.export._trace", "sympy.tensor.tensor")

user_lines.entry_files.add(__file__)


def check_live(
    model: torch.nn.Module | Callable[..., Any],
    example_inputs: Any = (),
    *,
    example_kwarg_inputs: Mapping[str, Any] | None = None,
    check_inputs: Sequence[Any] = (),
    dynamic: Mapping[str, Mapping[int | str, str]] | None = None,
    sizes: Mapping[str, range | tuple[int, int]] | None = None,
    budget_s: float = BUDGET_S,
    tolerance: float = 1e-5,
    seed: int = 0,
    strict: bool = True,
) -> Report:
    """Trace a model with torch.jit.trace, check the trace against it, and return what was found out.

    - `model`: a module, in the mode in which it is to be traced (`model.eval()` comes first); a function; or a method
      bound to a module. It may be a ScriptModule already.
    - `example_inputs`, `example_kwarg_inputs`: the call that the trace is recorded on, as torch.jit.trace takes them.
    - `check_inputs`: further calls to compare on, each a tuple of positional or a dict of keyword arguments.
    - `dynamic`: which dims are to vary, as `{"ids": {1: "seq"}}`; by itself the check finds those that may.
    - `sizes`: by symbol of `dynamic`, the sizes that are wanted: a range, or the first and the last of them.
    - `budget_s`: seconds of processor time that the check may take beside the trace.
    - `tolerance`: the relative tolerance of every comparison. `seed`: the seed of all random generators.
    - `strict`: as torch.jit.trace takes it; false lets dicts and lists be returned.

    The verdict is reached in this process alone, beside the model's own code, and no second process verifies it, as a
    Tracehouse service does. The check calls deep copies of the model and of the inputs, and leaves the model, the
    random generators, the warning filters and torch's settings (gradient mode, default dtype, number of threads,
    deterministic algorithms) as they were. A function has no copies: what it closes over is called.

    Raises a TraceError if the model raises on its example, runs out of memory, calls sys.exit, cannot be copied or
    cannot be traced; ArgumentMismatch if the inputs do not fit it; ValueError for other arguments that cannot be used;
    RuntimeError inside of a trace, and outside of the main thread, where no signal can end a slow call.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("tracehouse.check runs in the main thread alone: a signal ends calls that take too long")
    if torch._C._get_tracing_state() is not None:  # torch crashes the process where one trace is made inside another
        raise RuntimeError("tracehouse.check cannot run inside of a trace: call it outside of the model")
    declared = TypeAdapter(Dynamic).validate_python(
        {name: {str(dim): symbol for dim, symbol in dims.items()} for name, dims in (dynamic or {}).items()}
    )
    requested = RequestedSizes(declared, _wanted_sizes(sizes or {}, declared))
    options = TraceOptions(seed=seed, strict=strict)
    check_options = CheckOptions(check_tolerance=tolerance, budget_s=budget_s)
    with _restore_process(), _user_modules(model), _exits_as_errors():
        for name in _IMPORTED_LATE:
            with suppress(ImportError):  # another release of torch may have it elsewhere
                import_module(name)
        loaded = _load(model, example_inputs, example_kwarg_inputs or {}, check_inputs, declared, seed)
        check = ModelCheck(loaded, Conversion(), options, check_options, {_METHOD: requested})
        candidate = check.trace()
        checked = check.run(candidate, lambda _: None)
        found = _counterexamples(loaded, candidate.traced.module, checked, tolerance, seed)
        findings = link_findings(checked.check.findings, found)
        return Report(
            name=_name_of(model),
            check=checked.check.model_copy(update={"findings": findings}),
            contract=check.contract.with_claims(checked.claims, checked.answers),
            counterexamples=[_as_arrays(one) for one in found],
            artifact=candidate.traced.module,
            form=candidate.form,
            training=loaded.model.module.training,
            sources=_sources(findings),
            versions=Versions(
                torch=torch.__version__, python=platform.python_version(), tracehouse=version("tracehouse")
            ),
        )


def _load(
    model: torch.nn.Module | Callable[..., Any],
    example_inputs: Any,
    example_kwarg_inputs: Mapping[str, Any],
    check_inputs: Sequence[Any],
    declared: Dynamic,
    seed: int,
) -> LoadedSubmission:
    made = _copy_model(model)

    def bind_call(given: Any, keywords: Mapping[str, Any]) -> Call:
        args = tuple(given) if isinstance(given, tuple | list) else (given,)
        call = bind(made.module, _METHOD, made.method_name(_METHOD), args, keywords)
        return call.with_tensors({name: tensor.detach().clone() for name, tensor in call.tensors.items()})

    example = bind_call(example_inputs, example_kwarg_inputs)
    resize_call(example, declared, {})  # raises ArgumentMismatch where the example is not as declared
    observed_contract.check_inputs(example)
    _check_datatypes(example)
    check_calls = [
        CheckCall(f"check_inputs[{place}]", bind_call((), given) if isinstance(given, dict) else bind_call(given, {}))
        for place, given in enumerate(check_inputs)
    ]
    made.initialise([example], seed)
    loaded = LoadedSubmission(made, Fit(), {_METHOD: example}, check_calls)
    return loaded.as_scripted() if made.is_compiled else loaded


def _check_datatypes(example: Call) -> None:
    """Raise ArgumentMismatch for a tensor that no contract describes, such as a sparse one."""
    for name, tensor in example.tensors.items():
        if spec_of(name, tensor) is None:
            raise ArgumentMismatch(
                f"input {name!r} is {tensor.dtype}, {tensor.layout}, which has no datatype: hand in a dense tensor of "
                "booleans or of real numbers",
                method=example.method, input=name, actual=f"{tensor.dtype}, {tensor.layout}",
            )  # fmt: skip


def _copy_model(model: torch.nn.Module | Callable[..., Any]) -> LoadedModel:
    match model:
        case torch.nn.Module():
            return LoadedModel(_copy(model))
        case MethodType(__self__=torch.nn.Module() as owner):
            return LoadedModel(_copy(owner), model.__name__)
    if isinstance(model, type) or not callable(model):
        raise ValueError(f"the model is {model!r}: hand in a module, a function or a bound method")
    return LoadedModel(Function(model))


def _copy(module: torch.nn.Module) -> torch.nn.Module:
    try:
        return copy_model(module, share_parameters=False)
    except Exception as error:
        why = f"{type(error).__name__}: {user_lines.error_text(error)}"
        raise ModelNotCopyable(
            f"the model cannot be copied, and the check calls copies alone ({why})", attributes=find_uncopyable(module)
        ) from error


def _wanted_sizes(sizes: Mapping[str, range | tuple[int, int]], declared: Dynamic) -> dict[str, WantedSizes]:
    symbols = {symbol for dims in declared.values() for symbol in symbols_of(dims.values())}
    if unknown := sorted(sizes.keys() - symbols):
        raise ValueError(f"sizes names {unknown[0]!r}, which is no symbol of dynamic")
    wanted = {}
    for symbol, given in sizes.items():
        if isinstance(given, range):
            if not given or given.step < 1:
                raise ValueError(f"the sizes of {symbol!r} are {given}: a range must rise and not be empty")
            wanted[symbol] = WantedSizes(low=given[0], high=given[-1], step=given.step)
        else:
            low, high = given
            wanted[symbol] = WantedSizes(low=low, high=high)
    return wanted


def _counterexamples(
    loaded: LoadedSubmission, artifact: torch.jit.ScriptModule, checked: CheckResult, tolerance: float, seed: int
) -> list[FoundCounterexample]:
    """Return the smallest of the calls that differ, with both answers."""
    eager = EagerOracle(loaded.model, seed)
    examples = {method: _make_bound_call("example", call) for method, call in loaded.calls.items()}
    differing = [one for one in checked.offered if not one.agrees]
    runs = [_run(one, eager, artifact, tolerance, seed) for one in differing]
    return choose_counterexamples([one for one in runs if one is not None], examples, checked.check.findings)


def _run(
    offered: OfferedCall, eager: EagerOracle, artifact: torch.jit.ScriptModule, tolerance: float, seed: int
) -> DifferentialRun | None:
    """Return both answers to a call; None if the eager model refuses it now, or both agree."""
    call = offered.call
    try:
        expected = eager.answer(call, within_s=_CALL_S)
    except (ModelRaised, TooSlow):
        return None
    actual: Answer | str
    try:
        answer = call_artifact(artifact, call, seed)
    except Exception as error:  # noqa: BLE001 - TorchScript raises of every kind
        actual = user_lines.error_text(error).strip()
        compared = ComparisonResult(None, Difference("output", "the artifact raised"))
    else:
        actual = _answer(answer.outputs)
        compared = compare(expected.outputs, answer.outputs, tolerance)
    if compared.agrees:
        return None
    bound = _make_bound_call(offered.name, call)
    diverging = DivergingAnswers(bound.inputs, _answer(expected.outputs), actual)
    return DifferentialRun(bound, offered.name, bound.specs, {}, FormComparisons(compared), [], diverging=diverging)


def _make_bound_call(case: str, call: Call) -> BoundCall:
    return BoundCall(case, call.method, observed_contract.describe_arguments(call), pack(call.tensors))


def _answer(outputs: Any) -> Answer:
    leaves = {tensor.name: tensor for tensor in pack(structure.tensors(outputs, "output"))}
    return Answer(structure.describe(outputs, "output"), leaves)


def _as_arrays(found: FoundCounterexample) -> LiveCounterexample:
    diverging = found.diverging
    return LiveCounterexample(
        method=found.run.method,
        case=found.run.case,
        difference=f"{found.difference.leaf}: {found.difference.what}",
        inputs={one.name: to_numpy(one).copy() for one in diverging.inputs},
        eager={name: to_numpy(leaf).copy() for name, leaf in diverging.eager.leaves.items()},
        artifact=diverging.artifact
        if isinstance(diverging.artifact, str)
        else {name: to_numpy(leaf).copy() for name, leaf in diverging.artifact.leaves.items()},
    )


def _sources(findings: Sequence[Finding]) -> dict[str, str]:
    """Return the text of the files that findings name, as far as Python has it; a library's are left out."""
    named = dict.fromkeys(finding.file for finding in findings if finding.file is not None)
    texts = {file: "".join(linecache.getlines(file)) for file in named}
    return {file: user_lines.clean_text(text) for file, text in texts.items() if text}


def _name_of(model: torch.nn.Module | Callable[..., Any]) -> str:
    if isinstance(model, torch.nn.Module):
        return type(model).__name__
    return getattr(model, "__qualname__", type(model).__name__)


@contextmanager
def _restore_process() -> Iterator[None]:
    """Leave random generators, warning filters and torch's global settings as they were."""
    # To ask CUDA would begin it, where nothing has yet.
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    with warnings.catch_warnings(), torch.set_grad_enabled(torch.is_grad_enabled()):
        try:
            yield
        finally:
            torch.set_rng_state(states[0])
            random.setstate(states[1])
            np.random.set_state(states[2])
            if cuda:
                torch.cuda.set_rng_state_all(cuda)
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)


@contextmanager
def _exits_as_errors() -> Iterator[None]:
    """Raise ModelExited if the model calls sys.exit, which would end the caller's program."""
    try:
        yield
    except SystemExit as error:
        raise ModelExited(
            f"the model code called sys.exit({user_lines.error_text(error)})", **user_lines.error_facts(error)
        ) from error


@contextmanager
def _user_modules(model: torch.nn.Module | Callable[..., Any]) -> Iterator[None]:
    """Treat the modules of the user that define the model as those of a submission: what they hold is watched, put back
    before each call, and preferred for a finding's line."""
    owner = getattr(model, "__self__", model)
    parts = [*owner.modules()] if isinstance(owner, torch.nn.Module) else []
    functions = [getattr(type(part), "forward", None) for part in parts] or [model]
    added = {}
    for function in functions:
        file = str(getattr(getattr(function, "__code__", None), "co_filename", "<none>"))
        name = str(getattr(function, "__module__", None))
        is_own = user_lines.is_user(file) and not paths.SITE_PACKAGES.match(file)
        if is_own and name in sys.modules and file not in user_lines.submitted:
            added[file] = name
    user_lines.submitted.update(added)
    try:
        yield
    finally:
        for file in added:
            user_lines.submitted.pop(file, None)
