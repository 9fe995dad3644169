"""Cached functions: the user's functions whose results `functools.lru_cache` keeps, called with symbols for sizes.

A symbol has no hash, so that no cache can look it up. The function is called in the cache's place, which is right where
its result follows from its arguments alone: then it does not matter which call was the first with these arguments.
"""

import functools
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any

import sympy
import torch

from tracehouse.check.instrumentation.followed_code import is_followed
from tracehouse.check.prove.model_copies import ModelCopies
from tracehouse.check.prove.recorder import Recorder
from tracehouse.check.prove.symbols import SYMBOLIC, Symbols, expression_of
from tracehouse.check.prove.value_numbers import ValueNumbers
from tracehouse.eager.shared_state import SharedState, find_cached_function

NOT_FOLLOWED = object()
# Of an argument of these, an equal one of the same type is the same to every function.
_ALIKE_IF_EQUAL = (int, bool, str, type(None), torch.dtype, torch.device)
_TEXTS = (str, bytes, type(None), torch.dtype, torch.device)
_IMPURE = "a function whose results are kept does not give the same again for the same arguments"
_DEPENDS_ON_MORE = "what a function gives whose results are kept follows from more than its arguments"
_WRITTEN = "the model writes into a result that a function's cache keeps"


class CachedFunctions:
    """The cached functions of a model in all runs of one proof."""

    def __init__(self, shared: SharedState, copies: ModelCopies) -> None:
        self.history_matters = ""  # why calls before may change what a cache gives; empty if none was seen to
        self._caches = shared.caches
        self._copies = copies
        self._kinds: dict[tuple[int, int, int], type] = {}

    def find(self, function: Any) -> tuple[Any, Any, tuple[Any, ...]] | None:
        """Return the cache that a call of this function asks, the function behind it, and the object that the method
        is bound to, as a tuple; None for any other function."""
        owner: tuple[Any, ...] = ()
        if type(function) is MethodType:
            owner, function = (function.__self__,), function.__func__
        if type(function) is not functools._lru_cache_wrapper or not any(function is one for one in self._caches):
            return None
        cached = find_cached_function(function)
        return (function, cached, owner) if is_followed(getattr(cached, "__code__", None)) else None

    def has_fresh_state(self) -> bool:
        """Whether the model's state is as it was before the run, except for what caches keep."""
        return self._copies.is_unchanged_but_for_caches()

    def note_keys(self) -> None:
        """Take note of what real calls have asked the caches for."""
        for cache in self._caches:
            own = vars(cache)
            for content in gc.get_referents(cache):
                if type(content) is dict and content is not own:
                    for key in [*content]:
                        self.note_kinds(cache, key if isinstance(key, tuple) else ())

    def note_kinds(self, cache: Any, key: Sequence[Any]) -> None:
        """Take note of the types of the numbers in a key: 1, 1.0 and True are one key, and may have three results."""
        for place, value in enumerate(key):
            if isinstance(value, (*_TEXTS, torch.Tensor)) or _is_known_by_identity(value):
                continue
            kind = int if isinstance(value, torch.SymInt) else type(value)
            if self._kinds.setdefault((id(cache), len(key), place), kind) is not kind:
                self.history_matters = "a function's cache takes numbers of different types for the same"


class CachedCalls:
    """The calls of cached functions in one run on symbols."""

    def __init__(self, functions: CachedFunctions, numbers: ValueNumbers, symbols: Symbols, recorder: Recorder) -> None:
        self._functions = functions
        self._numbers = numbers
        self._symbols = symbols
        self._recorder = recorder
        self._results: dict[Any, tuple[Any, Any]] = {}  # what each call gave, and the value numbers in it
        self._asks_again = False

    @property
    def has_results(self) -> bool:
        return bool(self._results)

    def call(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], caught: list[str]) -> Any:
        """Return what the function's cache would give, or NOT_FOLLOWED. `caught` are the errors caught so far.

        Stops the run if the result does not follow from the arguments alone.
        """
        found = self._functions.find(function)
        if found is None:
            return NOT_FOLLOWED
        cache, cached, owner = found
        args = (*owner, *args)
        keys = [*map(_key_of, args), *((name, _key_of(value)) for name, value in kwargs.items())]
        if None in keys or not all(one[1] is not None for one in keys[len(args) :]):
            return NOT_FOLLOWED
        if not self._functions.has_fresh_state():
            return NOT_FOLLOWED
        if len(args) > 1 or kwargs:
            marked = (None, *(item for pair in kwargs.items() for item in pair)) if kwargs else ()
            self._functions.note_kinds(cache, (*args, *marked))
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.SymInt)]
        run = functools.partial(self._run, cached, args, kwargs, {one for size in given for one in self._roots(size)})
        key = (id(cache), *keys)
        if key not in self._results:
            result, numbers = run()
            if numbers is None or not self._functions.has_fresh_state():
                self._stop(_IMPURE)
            self._results[key] = result, numbers
        elif self._asks_again:
            return self._results[key][0]
        result, numbers = self._results[key]
        with self._aside(caught):
            if run()[1] != numbers:
                self._stop(_IMPURE)
        return result

    def check_results(self) -> None:
        """Stop the run if something was written into what a cache keeps."""
        for result, numbers in self._results.values():
            if self._describe(result) != numbers:
                self._stop(_WRITTEN)

    def _stop(self, why: str) -> None:
        self._functions.history_matters = why
        self._recorder.stop(why)

    @contextmanager
    def _aside(self, caught: list[str]) -> Iterator[None]:
        """In the body, what runs is forgotten: with a cache, it does not run."""
        operators, errors, before = len(self._recorder.operators), len(caught), self._asks_again
        self._asks_again = True
        try:
            yield
        finally:
            self._asks_again = before
            del self._recorder.operators[operators:]
            del caught[errors:]

    def _run(
        self, cached: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], sizes: set[sympy.Symbol]
    ) -> tuple[Any, Any]:
        """Return what the function gives, and its value numbers. Stops the run if other than these sizes decide it."""
        guards, reads = len(self._symbols.environment.guards), self._recorder.reads
        result = cached(*args, **kwargs)
        asked = {one for guard in self._symbols.environment.guards[guards:] for one in guard.expr.free_symbols}
        numbers = self._describe(result)
        follows = all(self._follows(one, sizes) for one in asked) and self._follow_all(result, sizes)
        if self._recorder.reads != reads or not follows:
            self._stop(_DEPENDS_ON_MORE)
        return result, numbers

    def _describe(self, result: Any) -> Any:
        """Return what tells one result from another; None if it has what the model may change unseen."""
        if isinstance(result, torch.Tensor):
            return "tensor", self._recorder.number(result)
        if type(result) in (tuple, torch.Size):
            items = [self._describe(one) for one in result]
            return None if None in items else (type(result), *items)
        if isinstance(result, SYMBOLIC):
            return type(result), expression_of(result)
        return (type(result), repr(result)) if type(result) in (*_ALIKE_IF_EQUAL, float) else None

    def _follow_all(self, result: Any, sizes: set[sympy.Symbol]) -> bool:
        """Whether a result follows from these sizes and from constants alone."""
        if isinstance(result, torch.Tensor):
            return self._made_of_sizes(self._recorder.number(result), sizes)
        if isinstance(result, SYMBOLIC):
            return all(self._follows(one, sizes) for one in expression_of(result).free_symbols)
        return not isinstance(result, tuple) or all(self._follow_all(one, sizes) for one in result)

    def _made_of_sizes(self, number: int, sizes: set[sympy.Symbol]) -> bool:
        """Whether the value with this number was computed of these sizes and of constants alone."""
        left, seen = [number], {number}
        while left:
            key = self._numbers.key(left.pop())
            if key[0] == "held":
                continue
            if key[0] in ("input", "unknown") or "drawn after" in key:
                return False
            operands = key[1:2] if key[0] in ("result", "cat") else key[1:3] if key[0] == "write" else key[1:]
            for one in _flatten(operands):
                if isinstance(one, sympy.Basic):
                    if not all(self._follows(symbol, sizes) for symbol in one.free_symbols):
                        return False
                elif type(one) is int and one not in seen:
                    seen.add(one)
                    left.append(one)
        return True

    def _follows(self, symbol: sympy.Symbol, sizes: set[sympy.Symbol]) -> bool:
        """Whether a symbol is one of these, or a float that is computed of them."""
        return self._roots_of(symbol) <= sizes

    def _roots(self, size: torch.SymInt) -> set[sympy.Symbol]:
        return {root for symbol in expression_of(size).free_symbols for root in self._roots_of(symbol)}

    def _roots_of(self, symbol: sympy.Symbol) -> set[sympy.Symbol]:
        computation = self._symbols.computations.get(symbol)
        if computation is None:
            return {symbol}
        return {
            root for operand in computation.operands for one in operand.free_symbols for root in self._roots_of(one)
        }


def _flatten(operands: Any) -> Iterator[Any]:
    """Yield the value numbers and the expressions in operands' keys, and not the numbers that are constants there."""
    for one in operands:
        if not isinstance(one, tuple):
            yield one
        elif one[0] in ("list", "converted"):
            yield from _flatten(one[1:])
        else:
            yield from (part for part in one if isinstance(part, sympy.Basic))


def _key_of(value: Any) -> Any:
    """Return what tells an argument from another one; None if that is not known."""
    if isinstance(value, torch.SymInt):
        return int, expression_of(value)
    if type(value) in _ALIKE_IF_EQUAL:
        return type(value), value
    return ("object", id(value)) if _is_known_by_identity(value) else None


def _is_known_by_identity(value: Any) -> bool:
    """Whether no other object is equal to this one: a class, a module of torch's, or a bare object."""
    kind: Any = type(value)
    if not issubclass(kind, type | torch.nn.Module) and kind is not object:
        return False
    return all(getattr(kind, name) is getattr(object, name) for name in ("__eq__", "__hash__"))
