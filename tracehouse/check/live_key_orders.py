"""The orders of keys on which the answer of a live model depends, found in this process."""

import numpy as np

from tracehouse.check.calls import CallResult
from tracehouse.check.oracle import EagerOracle
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.key_orders import KeyOrder, key_orders_of
from tracehouse.differential import random_inputs
from tracehouse.differential.budget import Budget
from tracehouse.differential.comparison import Difference
from tracehouse.differential.key_order_trials import ORDER_NAMES, FixedOrder, KeyOrderTrials, find_fixed_orders
from tracehouse.eager import observed_contract
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.torch_values.compare import compare
from tracehouse.torch_values.tensors import pack, unpack


def find_key_orders(
    eager: EagerOracle, call: Call, *, tolerance: float, seed: int, within_s: float, budget: Budget
) -> list[FixedOrder]:
    """Return the orders that the contract must fix. `within_s` is the limit of each call of the model."""
    orders = [*key_orders_of(observed_contract.describe_arguments(call), call.keywords)]
    if not orders:
        return []

    def ask(one: Call, order: KeyOrder | None) -> CallResult | str:
        try:
            return eager.answer(one if order is None else one.with_key_order(order), within_s=within_s)
        except ModelRaised as error:
            return error.detail
        except TooSlow as slow:
            return str(slow)

    def compare_answers(expected: CallResult, answer: CallResult) -> Difference | None:
        return compare(expected.outputs, answer.outputs, tolerance, sides=ORDER_NAMES).difference

    example = call, eager.answer(call, within_s=within_s)
    drawn = random_inputs.draw_rounds(pack(call.tensors), np.random.default_rng(seed))
    fresh = (call.with_tensors(unpack(inputs)) for inputs in drawn)
    return find_fixed_orders(orders, KeyOrderTrials(ask, compare_answers, example, fresh).find_change, budget)
