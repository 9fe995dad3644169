"""The arguments of `tracehouse.check`, parsed by the types of the trace spec.

A value that cannot be used raises ValueError, and one of a wrong type TypeError, in one sentence that names the
argument and says what to give.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError

from tracehouse.contract.dims import symbols_of
from tracehouse.spec.example_inputs import Dynamic
from tracehouse.spec.trace_spec import BudgetName, CheckOptions, TraceOptions, WantedSizes

# The arguments of one call: positional and keyword ones.
Given = tuple[tuple[Any, ...], Mapping[str, Any]]

_DYNAMIC = 'write dynamic as {"input name": {dim: "symbol"}}, with dims counted from 0, as in {"ids": {1: "seq"}}'
_SIZES = 'write sizes as {"symbol": (first, last)} or {"symbol": range(...)}, with whole numbers from 0 on'
_CALLS = "give a list of calls, each a tuple of positional or a dict of keyword arguments"
# What to give, by the argument's name here, and its name in the spec.
_OPTIONS = {
    "budget": ("budget", 'give "quick", "normal" or "deep", or seconds as budget_s'),
    "budget_s": ("budget_s", "give seconds, above 0 and at most 3600"),
    "tolerance": ("check_tolerance", "give a number above 0 and at most 1"),
    "seed": ("seed", "give a whole number from 0 on, below 2**63"),
    "strict": ("strict", "give True or False"),
}
_VALUE_MAX_CHARACTERS = 80


def parse_check_options(*, budget: BudgetName | None, budget_s: float | None, tolerance: float | None) -> CheckOptions:
    """Return the options of the check. Raises ValueError and TypeError."""
    if budget is not None and budget_s is not None:
        raise ValueError(f"budget is {budget!r}, and budget_s is {budget_s!r}: give only one of them")
    given = {"budget": budget, "budget_s": budget_s, "check_tolerance": tolerance}
    with _argument_errors():
        return CheckOptions.model_validate(given, strict=True)


def parse_trace_options(*, seed: int, strict: bool) -> TraceOptions:
    """Return the options of torch.jit.trace. Raises ValueError and TypeError."""
    with _argument_errors():
        return TraceOptions.model_validate({"seed": _plain(seed), "strict": strict}, strict=True)


def parse_example(example_inputs: Any, example_kwarg_inputs: Any) -> Given:
    """Return the call that the trace is recorded on. Raises TypeError."""
    if example_kwarg_inputs is not None and not isinstance(example_kwarg_inputs, Mapping):
        _refuse_type("example_kwarg_inputs", example_kwarg_inputs, "give a dict from parameter names to values")
    keywords = example_kwarg_inputs or {}
    positional = () if example_inputs is None else example_inputs
    given = (tuple(positional) if isinstance(positional, tuple | list) else (positional,)), keywords
    _check_leaves(given[0], "example_inputs")
    _check_leaves(keywords, "example_kwarg_inputs")
    return given


def parse_calls(argument: str, given_calls: Any) -> list[Given]:
    """Return the further calls to compare on, which this argument gives. Raises TypeError."""
    if not isinstance(given_calls, list | tuple):
        _refuse_type(argument, given_calls, _CALLS)
    calls: list[Given] = []
    for place, given in enumerate(given_calls):
        _check_leaves(given, f"{argument}[{place}]")
        if isinstance(given, dict):
            calls.append(((), given))
        else:
            calls.append((tuple(given) if isinstance(given, tuple | list) else (given,), {}))
    return calls


def parse_dynamic(dynamic: Any) -> Dynamic:
    """Return which dims vary. Raises ValueError and TypeError."""
    if dynamic is None:
        return {}
    if not isinstance(dynamic, Mapping):
        _refuse_type("dynamic", dynamic, _DYNAMIC)
    for name, dims in dynamic.items():
        if not isinstance(dims, Mapping):
            _refuse_type(f"dynamic[{name!r}]", dims, _DYNAMIC)
    by_text = {name: {str(dim): symbol for dim, symbol in dims.items()} for name, dims in dynamic.items()}
    with _argument_errors("dynamic", _DYNAMIC):
        return TypeAdapter[Dynamic](Dynamic).validate_python(by_text)


def parse_sizes(sizes: Any, dynamic: Dynamic) -> dict[str, WantedSizes]:
    """Return the wanted sizes by symbol of `dynamic`. Raises ValueError and TypeError."""
    if sizes is None:
        return {}
    if not isinstance(sizes, Mapping):
        _refuse_type("sizes", sizes, _SIZES)
    symbols = {symbol for dims in dynamic.values() for symbol in symbols_of(dims.values())}
    wanted = {}
    for symbol, given in sizes.items():
        if symbol not in symbols:
            example = f'dynamic={{"input name": {{0: "{symbol}"}}}}'
            raise ValueError(
                f"sizes names {symbol!r}, which is no symbol of dynamic: say which dims have this size, as in {example}"
            )
        wanted[symbol] = _parse_span(f"sizes[{symbol!r}]", given)
    return wanted


def _parse_span(argument: str, given: Any) -> WantedSizes:
    match given:
        case range() if given and given.step > 0:
            span = {"low": given[0], "high": given[-1], "step": given.step}
        case range():
            raise ValueError(f"{argument} is {given}: a range of sizes must rise, and must not be empty")
        case (low, high):
            span = {"low": _plain(low), "high": _plain(high)}
        case _:
            _refuse_type(argument, given, _SIZES)
    with _argument_errors(argument, _SIZES, whole=given):
        return WantedSizes.model_validate(span, strict=True)


def _check_leaves(value: Any, argument: str) -> None:
    """Raise TypeError for an array of NumPy, whose values a trace would keep, and for what is nested without end."""
    try:
        _check_leaf(value, argument)
    except RecursionError:  # its traceback has a thousand lines
        raise TypeError(
            f"{argument} is nested without end, or far too deeply: give lists and dicts that do not hold themselves"
        ) from None


def _check_leaf(value: Any, argument: str) -> None:
    match value:
        case np.ndarray():
            raise TypeError(f"{argument} is a NumPy array: hand in a tensor, as torch.from_numpy makes one")
        case Mapping():
            for name, item in value.items():
                _check_leaf(item, f"{argument}[{name!r}]")
        case list() | tuple():
            for place, item in enumerate(value):
                _check_leaf(item, f"{argument}[{place}]")


@contextmanager
def _argument_errors(argument: str = "", how: str = "", whole: Any = None) -> Iterator[None]:
    """Turn what pydantic says into a TypeError or a ValueError about the argument, or about an option without one."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        kind = TypeError if first["type"].endswith("_type") else ValueError
        if whole is not None:
            raise kind(f"{argument} is {_describe(whole)}: {how}") from None
        if argument:
            path = "".join(f"[{part!r}]" for part in first["loc"] if part != "[key]")
            raise kind(f"{argument}{path} is {_describe(first['input'])}: {how}") from None
        option, (_, how) = next(one for one in _OPTIONS.items() if one[1][0] == first["loc"][0])
        raise kind(f"{option} is {_describe(first['input'])}: {how}") from None


def _plain(number: Any) -> Any:
    """Return a whole number of NumPy as one of Python, and everything else as it is."""
    return int(number) if type(number) is not bool and isinstance(number, Integral) else number


def _refuse_type(argument: str, value: Any, how: str) -> NoReturn:
    raise TypeError(f"{argument} is {_describe(value)}: {how}")


def _describe(value: Any) -> str:
    """Return the value as the middle of a sentence; of a tensor, only that it is one."""
    if isinstance(value, torch.Tensor | torch.nn.Module):
        return f"a {type(value).__name__}"
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # Python writes no numbers of thousands of digits
        text = ""
    return text if 0 < len(text) <= _VALUE_MAX_CHARACTERS else f"a {type(value).__name__}"
