"""The check of a live model: `tracehouse.check`, in the caller's process, with no service and no files."""

import linecache
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from types import MethodType
from typing import Any

import torch

from tracehouse.artifact.manifest import Versions
from tracehouse.check.caller_process import exits_as_errors, refuse_autocast, restore_process, user_modules
from tracehouse.check.instrumentation.followed_code import set_objects_aside
from tracehouse.check.live_arguments import (
    Given,
    parse_calls,
    parse_check_options,
    parse_dynamic,
    parse_example,
    parse_sizes,
    parse_trace_options,
)
from tracehouse.check.live_counterexamples import as_arrays, find_counterexamples
from tracehouse.check.live_key_orders import find_key_orders
from tracehouse.check.live_layouts import LAYOUTS_SHARE_OF_BUDGET, OwnLayouts, find_own_layouts, judge_own_layouts
from tracehouse.check.model_check import ModelCheck, too_slow
from tracehouse.check.oracle import EagerOracle
from tracehouse.check.pipeline import RequestedSizes
from tracehouse.check.report import Report
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.contract.contract import Contract
from tracehouse.contract.size_coverage import cover_sizes
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import first_call_s
from tracehouse.differential.case_names import EXAMPLE, is_sample, name_check_input, name_sample
from tracehouse.differential.key_order_trials import ORDERS_SHARE_OF_BUDGET
from tracehouse.differential.named_budgets import first_budget_s
from tracehouse.eager import observed_contract
from tracehouse.eager.call import Call, CheckCall, bind
from tracehouse.eager.copies import copy_model, find_uncopyable
from tracehouse.eager.declared_sizes import resize_call
from tracehouse.eager.model import Function, LoadedModel, name_of_method
from tracehouse.eager.submission import LoadedSubmission
from tracehouse.eager.weights import Fit
from tracehouse.errors import ArgumentMismatch, ModelNotCopyable, ModelRaised
from tracehouse.findings.coverage import dict_order_fixed
from tracehouse.findings.finding import Finding
from tracehouse.introspection import user_lines
from tracehouse.introspection.shown_warnings import shown_once
from tracehouse.reproducer.counterexamples import link_findings
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.example_inputs import Dynamic
from tracehouse.spec.trace_spec import BudgetName
from tracehouse.torch_values.layouts import copy_plain, is_plain
from tracehouse.torch_values.tensors import pack, spec_of
from tracehouse.torchscript import archives
from tracehouse.torchscript.fixed_devices import find_fixed_devices

_METHOD = "forward"
# A counterexample's call has ended once already.
_REPEATED_CALL_S = 10.0

# torch and sympy import these when a first size is made a symbol: several seconds that are not to count as the check's.
_IMPORTED_LATE = ("torch.export._trace", "sympy.tensor.tensor")

user_lines.entry_files.add(__file__)


def check_live(
    model: torch.nn.Module | Callable[..., Any],
    example_inputs: Any = (),
    *,
    example_kwarg_inputs: Mapping[str, Any] | None = None,
    check_inputs: Sequence[Any] = (),
    samples: Sequence[Any] = (),
    dynamic: Mapping[str, Mapping[int | str, str]] | None = None,
    sizes: Mapping[str, range | tuple[int, int]] | None = None,
    budget: BudgetName | None = None,
    budget_s: float | None = None,
    tolerance: float | None = None,
    seed: int = 0,
    strict: bool = True,
) -> Report:
    """Trace a model with torch.jit.trace, check the trace against it, and return what was found out.

    - `model`: a module, in the mode in which it is to be traced (`model.eval()` comes first); a function; or a method
      bound to a module. It may be a ScriptModule already.
    - `example_inputs`, `example_kwarg_inputs`: the call that the trace is recorded on, as torch.jit.trace takes them.
    - `check_inputs`: further calls to compare on, each a tuple of positional or a dict of keyword arguments.
    - `samples`: real inputs, given as `check_inputs` are. The check tries their sizes too, and the report says whether
      the contract accepts each of them. A tensor may have another rank than in the example, here and in `check_inputs`:
      then the check finds out whether the trace is right for that rank too.
    - `dynamic`: which dims are to vary, as `{"ids": {1: "seq"}}`; by itself the check finds those that may.
    - `sizes`: by symbol of `dynamic`, the sizes that are wanted: a range, or the first and the last of them.
    - `budget`: how long the check may take beside the trace: "quick", "normal" (the default) or "deep". What that is
      in seconds follows from how long the first call takes. `budget_s`: in its place, seconds of processor time.
    - `tolerance`: the relative tolerance of every comparison. None: the model's own rounding decides, measured against
      its answer in float64. `seed`: the seed of all random generators.
    - `strict`: as torch.jit.trace takes it; false lets dicts and lists be returned.

    The check traces and compares on contiguous copies of the inputs that require no gradient, which is what a service
    gets. If the model answers the inputs otherwise as they were handed in, the report says so and is restricted.

    The verdict is reached in this process alone, beside the model's own code, and no second process verifies it, as a
    Tracehouse service does. The check calls deep copies of the model and of the inputs, and leaves the model, the
    random generators, the warning filters and the settings of torch and NumPy (gradient mode, default dtype and device,
    number of threads, matmul precision, deterministic algorithms, fast paths of attention, what numpy.seterr sets) as
    they were. A function has no copies: what it closes over is called.

    Every call of the model is stopped after a limit: the first one after four times the budget of a small model by the
    clock (a minute by default, or four times `budget_s`), a later one after far longer than the first one took. The
    report says what was stopped. A signal stops a call, and Python handles it only between its own instructions: an
    endless loop inside a ScriptModule is not stopped.

    Raises a TraceError if the model raises on its example, takes too long for it, runs out of memory, calls sys.exit,
    cannot be copied or cannot be traced; ArgumentMismatch if the inputs do not fit it; ValueError or TypeError for
    other arguments that cannot be used; RuntimeError outside of the main thread, inside of a trace, and under
    torch.autocast.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "tracehouse.check runs only in the main thread, because the signal that stops a slow call arrives there: "
            "call it in the main thread, or in a process of its own"
        )
    if torch._C._get_tracing_state() is not None:  # torch crashes the process where one trace is made inside another
        raise RuntimeError("tracehouse.check cannot run inside of a trace: call it outside of the model")
    refuse_autocast()
    declared = parse_dynamic(dynamic)
    requested = RequestedSizes(declared, parse_sizes(sizes, declared))
    options = parse_trace_options(seed=seed, strict=strict)
    check_options = parse_check_options(budget=budget, budget_s=budget_s, tolerance=tolerance)
    example = parse_example(example_inputs, example_kwarg_inputs)
    further = {name_check_input(place): one for place, one in enumerate(parse_calls("check_inputs", check_inputs))}
    further |= {name_sample(place): one for place, one in enumerate(parse_calls("samples", samples))}
    call_s = first_call_s(first_budget_s(check_options))
    with restore_process(), shown_once(), set_objects_aside(), user_modules(model), exits_as_errors():
        for name in _IMPORTED_LATE:
            with suppress(ImportError):  # another release of torch may have it elsewhere
                import_module(name)
        loaded, own_layouts = _load(model, example, further, declared, seed, call_s)
        check = ModelCheck(loaded, Conversion(), options, check_options, {_METHOD: requested}, bounds_first_call=True)
        with _explain_copies(own_layouts.get(EXAMPLE, {})), archives.written_into_memory():
            candidate = check.trace().without_archive()
        checked = check.run(candidate, lambda _: None)
        of_layouts = judge_own_layouts(
            EagerOracle(loaded.model, options.call_seed, measures_rounding=check_options.measures_rounding),
            candidate.traced.module, own_layouts, check.submission.calls[_METHOD], check.submission.check_calls,
            tolerance=check_options.tolerance, within_s=call_s, budget=Budget(check.budget_s * LAYOUTS_SHARE_OF_BUDGET),
        )  # fmt: skip
        found = find_counterexamples(
            loaded, candidate.traced.module, [*checked.offered, *checked.differing], checked.check.findings,
            check_options, seed=options.call_seed, within_s=min(call_s, _REPEATED_CALL_S),
        )  # fmt: skip
        fixed_orders = find_key_orders(
            EagerOracle(loaded.model, options.call_seed), loaded.calls[_METHOD], tolerance=check_options.tolerance,
            seed=seed, within_s=call_s, budget=Budget(check.budget_s * ORDERS_SHARE_OF_BUDGET),
        )  # fmt: skip
        findings = link_findings(checked.check.findings, found)
        findings += [dict_order_fixed(_METHOD, one.order, one.reason) for one in fixed_orders]
        contract = check.contract.with_claims(checked.claims, checked.answers)
        ranks = {method: [one.contract for one in found] for method, found in checked.other_ranks.items()}
        contract = contract.with_other_ranks(ranks)
        contract = contract.with_key_orders({_METHOD: [one.order for one in fixed_orders]})
        contract = contract.with_stochastic(checked.stochastic)
        contract = contract.with_devices(find_fixed_devices(candidate.traced.module))
        refused = _refused_samples(contract, loaded.check_calls)
        wanted = {symbol: [span] for symbol, span in requested.sizes.items()}
        coverage = cover_sizes([contract], {_METHOD: requested.dynamic}, wanted)
        return Report(
            name=_name_of(model),
            check=checked.check.model_copy(update={"findings": findings})
            .with_findings(of_layouts)
            .with_refused_samples(refused)
            .with_coverage(coverage),
            contract=contract,
            counterexamples=[as_arrays(one) for one in found],
            artifact=candidate.traced.module,
            form=candidate.form,
            training=loaded.model.module.training,
            sources=_sources([*findings, *of_layouts]),
            versions=Versions(
                torch=torch.__version__, python=platform.python_version(), tracehouse=version("tracehouse")
            ),
        )


def _load(
    model: torch.nn.Module | Callable[..., Any],
    example_inputs: Given,
    further: Mapping[str, Given],
    declared: Dynamic,
    seed: int,
    call_s: float,
) -> tuple[LoadedSubmission, OwnLayouts]:
    """Return copies of the model and of its inputs, and the layouts of calls that were handed in and are lost in them.

    A call that gives lazy modules their shapes may take `call_s`.
    """
    made = _copy_model(model)
    given = {case: _bind(made, one) for case, one in {EXAMPLE: example_inputs, **further}.items()}
    own_layouts = find_own_layouts(given)
    plain = {case: call.changed(copy_plain) for case, call in given.items()}
    example = plain.pop(EXAMPLE)
    resize_call(example, declared, {})  # raises ArgumentMismatch where the example is not as declared
    observed_contract.check_inputs(example)
    _check_datatypes(example)
    check_calls = [CheckCall(case, call) for case, call in plain.items()]
    try:
        with time_limit(call_s):
            made.initialise([example], seed)
    except TooSlow as slow:
        raise too_slow("the call that gives lazy modules their shapes", slow) from slow
    loaded = LoadedSubmission(made, Fit(), {_METHOD: example}, check_calls)
    return loaded.as_scripted() if made.is_compiled else loaded, own_layouts


@contextmanager
def _explain_copies(own: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Add to an error of the model that it got contiguous copies, if some of its example inputs are not plain."""
    try:
        yield
    except ModelRaised as error:
        if names := [name for name, tensor in own.items() if not is_plain(tensor)]:
            error.add_note(
                "The check calls the model with contiguous copies that require no gradient, as a service does. These "
                f"example inputs are otherwise: {', '.join(names)}"
            )
        raise


def _refused_samples(contract: Contract, calls: Sequence[CheckCall]) -> dict[tuple[str, str], str]:
    """Return by method and case why the contract refuses samples."""
    samples = {(one.call.method, one.name): pack(one.call.tensors) for one in calls if is_sample(one.name)}
    return {
        (method, case): reason
        for (method, case), tensors in samples.items()
        if (reason := contract.method(method).why_refused(tensors)) is not None
    }


def _bind(model: LoadedModel, given: Given) -> Call:
    return bind(model.module, _METHOD, model.method_name(_METHOD), *given)


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
            return LoadedModel(_copy(owner), name_of_method(model))
        case torch._C.ScriptMethod():
            raise TypeError("the model is a method of a ScriptModule: hand in the ScriptModule itself")
    if isinstance(model, type) or not callable(model):
        raise TypeError(f"the model is {model!r}: hand in a module, a function or a bound method")
    return LoadedModel(Function(model))


def _copy(module: torch.nn.Module) -> torch.nn.Module:
    try:
        return copy_model(module, share_parameters=False)
    except Exception as error:
        why = f"{type(error).__name__}: {user_lines.error_text(error)}"
        raise ModelNotCopyable(
            f"the model cannot be copied, and the check calls copies alone ({why})", attributes=find_uncopyable(module)
        ) from error


def _sources(findings: Sequence[Finding]) -> dict[str, str]:
    """Return the text of the files that findings name, as far as Python has it; a library's are left out."""
    named = dict.fromkeys(finding.file for finding in findings if finding.file is not None)
    texts = {file: "".join(linecache.getlines(file)) for file in named}
    return {file: user_lines.clean_text(text) for file, text in texts.items() if text}


def _name_of(model: torch.nn.Module | Callable[..., Any]) -> str:
    if isinstance(model, torch.nn.Module):
        return type(model).__name__
    return getattr(model, "__qualname__", type(model).__name__)
