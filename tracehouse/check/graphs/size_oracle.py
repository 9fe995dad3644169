"""The size oracle: whether the eager model accepts a call of other sizes. Each set of sizes is called only once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tracehouse.check.calls import CallResult, call_artifact
from tracehouse.check.graphs.size_relations import Dim
from tracehouse.check.size_groups import Groups, make_symbolic_shape
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.dims import Linear
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.tensors.tensor import TensorSpec
from tracehouse.torch_values import resizing, structure

# The dims whose sizes change, each as a sum of symbols. A dim that is missing keeps its size.
Expressions = dict[Dim, Linear]
_Key = tuple[tuple[str, tuple[int, ...]], ...]  # the shape of each input
_Answers = dict[_Key, tuple[Call, CallResult]]
_KEPT_MAX = 8  # answers that are kept, in case the same is asked again; chosen
_LATEST_MAX = 3  # so many of the calls that eager answered last are kept with their answers; chosen
_AGREED_MAX = 32  # calls that are kept because the artifact was right; chosen


class OutOfTime(Exception):
    """The budget is spent."""


class SizeOracle:
    """Calls the eager model, and the artifact, at other sizes than those of the target's example."""

    def __init__(self, target: Target, budget: Budget) -> None:
        self.target = target
        self.budget = budget
        self.call = target.call  # the call whose sizes are changed
        self._small: Call | None = None  # a call of smaller sizes that stands for the example
        # Inputs of integers, such as lengths, that have to change with a size, and a dim that has the size.
        self.dims_of_lengths: dict[str, Dim] = {}
        self._accepted: dict[_Key, bool] = {}
        self._too_slow: set[_Key] = set()
        self._wrong: dict[_Key, bool] = {}
        self._latest: _Answers = {}  # the calls that eager answered last, the very last one at the end
        self._of_example: _Answers = {}  # the first calls that eager answered, of those that resize the example
        # Calls on which the artifact was found right, with the shapes and datatypes of its outputs.
        self.agreed: list[tuple[Call, Sequence[TensorSpec]]] = []

    @property
    def sizes(self) -> dict[Dim, int]:
        """The size of each dim of the call."""
        return {
            (name, place): size for name, tensor in self.call.tensors.items() for place, size in enumerate(tensor.shape)
        }

    def begin_from(self, call: Call) -> None:
        """Change the sizes of this call from now on."""
        self.call = call
        self._latest.clear()  # what another call becomes at the same sizes has other values

    def begin_from_small(self, call: Call) -> None:
        """Let this call stand for the example: it is smaller, and the artifact is right on it."""
        self.begin_from(call)
        self._small = call

    def from_the_example(self, share: float) -> "SizeOracle":
        """Return an oracle that changes the sizes of the example, or of a smaller call that stands for it.

        It has this share of the budget left.
        """
        oracle = SizeOracle(self.target, self.budget.share(share))
        if self._small is not None:
            oracle.begin_from_small(self._small)
        oracle.dims_of_lengths = {**self.dims_of_lengths}
        oracle.agreed, oracle._of_example = self.agreed, self._of_example
        return oracle

    def accepts(self, expressions: Expressions, sizes: Mapping[str, int]) -> bool:
        """Whether the eager model answers if the symbols have these sizes.

        Sizes that make an input too large, or the call too slow, count as not accepted. Raises OutOfTime if the budget
        is spent.
        """
        groups = self.groups(expressions)
        if not groups.is_affordable(self.target.call, sizes):
            return False
        key = _key(groups, sizes)
        if key not in self._accepted:
            if self.budget.is_spent:
                raise OutOfTime
            try:
                self._accepted[key] = self._call_accepts(groups, sizes)
            except TooSlow:
                self._accepted[key] = False
                self._too_slow.add(key)
        return self._accepted[key]

    def refuses(self, expressions: Expressions, sizes: Mapping[str, int]) -> bool:
        """Whether the eager model was called at these sizes and raised: neither too large nor too slow to tell."""
        groups = self.groups(expressions)
        key = _key(groups, sizes) if groups.is_affordable(self.target.call, sizes) else None
        return key is not None and not self._accepted.get(key, True) and key not in self._too_slow

    def answers_in_full(self, expressions: Expressions, sizes: Mapping[str, int]) -> bool:
        """Whether the eager model answers if the symbols have these sizes, and every output has elements."""
        if not self.accepts(expressions, sizes):
            return False
        _, answer = self._ask(expressions, sizes)
        return all(tensor.numel() for tensor in structure.tensors(answer.outputs, "output").values())

    def groups(self, expressions: Expressions) -> Groups:
        """Return the groups that the expressions make; their example sizes are those of the current call."""
        shapes = {
            name: make_symbolic_shape(expressions, name, [*tensor.shape]) for name, tensor in self.call.tensors.items()
        }
        example = {symbol: self.sizes[dim] for symbol, dim in dims_of_symbols(expressions).items()}
        lengths = {
            leaf: symbol_of(expressions[dim])
            for leaf, dim in self.dims_of_lengths.items()
            if dim in expressions and is_symbol(expressions[dim])
        }
        return Groups(shapes, example, {}, lengths=lengths)

    def artifact_raises(self, expressions: Expressions, sizes: Mapping[str, int]) -> bool:
        """Whether the artifact raises an error if the symbols have these sizes."""
        call = self.call_at(expressions, sizes)
        try:
            call_artifact(self.target.artifact, call, self.target.eager.seed)
        except Exception:  # noqa: BLE001 - TorchScript raises of every kind
            return True
        return False

    def artifact_agrees(self, expressions: Expressions, sizes: Mapping[str, int]) -> bool:
        """Whether the eager model answers if the symbols have these sizes, and the artifact answers the same.

        Raises OutOfTime if the budget is spent.
        """
        if not self.accepts(expressions, sizes):
            return False
        call, answer = self._ask(expressions, sizes)
        return self.target.ask_artifact(call, answer).compared.agrees

    def is_wrong(self, expressions: Expressions, sizes: Mapping[str, int]) -> bool:
        """Whether the eager model answers if the symbols have these sizes, and the artifact answers wrongly.

        Raises OutOfTime if the budget is spent.
        """
        if not self.accepts(expressions, sizes):
            return False
        key = _key(self.groups(expressions), sizes)
        if key not in self._wrong:
            try:
                call, answer = self._ask(expressions, sizes)
                self._wrong[key] = not self.target.ask_artifact(call, answer).compared.agrees
                if not (self._wrong[key] or answer.left_state) and len(self.agreed) < _AGREED_MAX:
                    self.agreed.append((call, answer.output_specs))
            except (ModelRaised, TooSlow):
                self._wrong[key] = False
        return self._wrong[key]

    def call_at(self, expressions: Expressions, sizes: Mapping[str, int]) -> Call:
        """Return the call in which the symbols have these sizes."""
        return self.groups(expressions).resize(self.call, sizes, self.target.seed)

    def find_refusal(self, groups: Groups, sizes: Mapping[str, int]) -> ModelRaised | None:
        """Call the eager model at these sizes, and return the error that it raises; None if it answers.

        Raises TooSlow if the call takes longer than the target's `call_s` seconds or the budget, whichever is less.
        """
        key = _key(groups, sizes)
        resizes_example = self.call is (self._small or self.target.call) and not groups.lengths
        if resizes_example and key in self._of_example:
            self._keep(key, *self._of_example[key])
            return None
        try:
            call = groups.resize(self.call, sizes, self.target.seed)
            within_s = min(self.target.call_s, max(self.budget.left_s, CALL_LIMITS.resized_least_s))
            answer = self.target.eager.answer(call, within_s=within_s)
        except ModelRaised as error:
            return error
        self._keep(key, call, answer)
        if resizes_example and len(self._of_example) < _KEPT_MAX:
            self._of_example[key] = call, answer
        return None

    def _keep(self, key: _Key, call: Call, answer: CallResult) -> None:
        self._latest.pop(key, None)
        self._latest[key] = call, answer
        if len(self._latest) > _LATEST_MAX:
            del self._latest[next(iter(self._latest))]

    def _ask(self, expressions: Expressions, sizes: Mapping[str, int]) -> tuple[Call, CallResult]:
        """Return the call in which the symbols have these sizes, and eager's answer, which may be known still."""
        key = _key(self.groups(expressions), sizes)
        if key not in self._latest:
            call = self.call_at(expressions, sizes)
            self._keep(key, call, self.target.eager.answer(call, within_s=self.target.call_s))
        return self._latest[key]

    def _call_accepts(self, groups: Groups, sizes: Mapping[str, int]) -> bool:
        if self.find_refusal(groups, sizes) is None:
            return True
        for leaf, symbol in self._possible_lengths(groups, sizes):
            if self.find_refusal(replace(groups, lengths={**groups.lengths, leaf: symbol}), sizes) is None:
                self.dims_of_lengths[leaf] = _first_dim(groups, symbol)
                return True
        return False

    def _possible_lengths(self, groups: Groups, sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """Yield inputs of integers that may be lengths along a size that changes, with its symbol.

        The eager model may refuse lengths that do not change with the size.
        """
        for symbol in sizes:
            for leaf, tensor in self.call.tensors.items():
                has_symbol = any(isinstance(dim, str) and symbol in dim for dim in groups.shapes[leaf])
                if (
                    leaf not in groups.lengths
                    and not has_symbol
                    and resizing.may_describe_size(tensor, groups.example[symbol])
                ):
                    yield leaf, symbol


def _key(groups: Groups, sizes: Mapping[str, int]) -> _Key:
    return tuple((name, tuple(shape)) for name, shape in groups.sizes(sizes).items())


def is_symbol(expression: Linear) -> bool:
    """Whether the expression is one symbol alone, such as `n`, and neither `2*n` nor `n+1`."""
    return expression == Linear(((symbol_of(expression), 1),))


def symbol_of(expression: Linear) -> str:
    """Return the first symbol of the expression."""
    return expression.terms[0][0]


def dims_of_symbols(expressions: Expressions) -> dict[str, Dim]:
    """Return for each symbol the first dim that is this symbol alone."""
    dims: dict[str, Dim] = {}
    for dim, expression in expressions.items():
        if is_symbol(expression):
            dims.setdefault(symbol_of(expression), dim)
    return dims


def _first_dim(groups: Groups, symbol: str) -> Dim:
    return next((name, shape.index(symbol)) for name, shape in groups.shapes.items() if symbol in shape)
