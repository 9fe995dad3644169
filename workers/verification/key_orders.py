"""The orders of keys on which the eager model's answer depends, found with inputs drawn here."""

from collections.abc import Sequence

import numpy as np

from tracehouse.contract.key_orders import KeyOrder, key_orders_of
from tracehouse.differential import random_inputs
from tracehouse.differential.budget import Budget
from tracehouse.differential.comparison import Difference, compare
from tracehouse.differential.key_order_trials import ORDER_NAMES, FixedOrder, KeyOrderTrials, find_fixed_orders
from tracehouse.errors import Failure
from tracehouse.tensors.tensor import Tensor
from workers.processes.client import EagerAnswer
from workers.verification.examples import ExampleRuns


def verify_key_orders(examples: ExampleRuns, method: str, within_s: float, budget: Budget) -> list[FixedOrder]:
    """Return the orders that the method's contract must fix. `within_s` is the limit of each call."""
    call, eager, spec = examples.examples[method], examples.processes.eager, examples.processes.spec
    orders = [*key_orders_of(call.arguments, call.keywords)]
    if not orders:
        return []

    def ask(inputs: Sequence[Tensor], order: KeyOrder | None) -> EagerAnswer | str:
        eager.ask(call, inputs, seed=spec.options.call_seed, within_s=within_s, key_order=order)
        answer = eager.answer()
        return answer.detail if isinstance(answer, Failure) else answer

    def compare_answers(expected: EagerAnswer, answer: EagerAnswer) -> Difference | None:
        return compare(expected.answer, answer.answer, spec.check.tolerance, ORDER_NAMES).difference

    example = call.inputs, examples.answers[method]
    fresh = random_inputs.draw_rounds(call.inputs, np.random.default_rng())
    return find_fixed_orders(orders, KeyOrderTrials(ask, compare_answers, example, fresh).find_change, budget)
