"""The orders of keys on which the eager model's answer depends, found with inputs drawn here."""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from tracehouse.contract.key_orders import KeyOrder, key_orders_of
from tracehouse.differential import random_inputs
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.budget import Budget
from tracehouse.differential.comparison import compare
from tracehouse.differential.key_order_trials import (
    ORDER_NAMES,
    ROUNDS_DRAWN,
    ROUNDS_MOST,
    FixedOrder,
    describe_difference,
    describe_refusal,
    find_fixed_orders,
)
from tracehouse.errors import Failure
from tracehouse.tensors.tensor import Tensor
from workers.processes.client import EagerAnswer
from workers.processes.eager import EagerProcess
from workers.verification.examples import ExampleRuns


def verify_key_orders(examples: ExampleRuns, method: str, within_s: float, budget: Budget) -> list[FixedOrder]:
    """Return the orders that the method's contract must fix. `within_s` is the limit of each call."""
    call, spec = examples.examples[method], examples.processes.spec
    orders = [*key_orders_of(call.arguments, call.keywords)]
    if not orders:
        return []
    trials = _KeyOrderTrials(
        call,
        examples.processes.eager,
        spec.options.seed,
        spec.check.tolerance,
        within_s,
        examples.answers[method],
    )
    return find_fixed_orders(orders, trials.find_change, budget)


class _KeyOrderTrials:
    """Calls of the eager model with the keys in other orders, on the example and on a few fresh inputs."""

    def __init__(
        self, call: BoundCall, eager: EagerProcess, seed: int, tolerance: float, within_s: float, example: EagerAnswer
    ) -> None:
        self._call = call
        self._eager = eager
        self._seed = seed
        self._tolerance = tolerance
        self._within_s = within_s
        self._answered = [(call.inputs, example), *islice(self._answer_fresh(), ROUNDS_MOST)]

    def find_change(self, order: KeyOrder) -> str | None:
        """Return what another order changes in the eager model's answer; None if it changes nothing."""
        for inputs, expected in self._answered:
            answer = self._ask(inputs, order)
            if isinstance(answer, Failure):
                return describe_refusal(order, answer.detail)
            difference = compare(expected.answer, answer.answer, self._tolerance, ORDER_NAMES).difference
            if difference is not None:
                return describe_difference(order, difference)
        return None

    def _answer_fresh(self) -> Iterator[tuple[list[Tensor], EagerAnswer]]:
        drawn = random_inputs.draw_rounds(self._call.inputs, np.random.default_rng())
        for inputs in islice(drawn, ROUNDS_DRAWN):
            answer = self._ask(inputs, None)
            if isinstance(answer, EagerAnswer):
                yield inputs, answer

    def _ask(self, inputs: Sequence[Tensor], order: KeyOrder | None) -> EagerAnswer | Failure:
        self._eager.ask(self._call, inputs, seed=self._seed, within_s=self._within_s, key_order=order)
        return self._eager.answer()
