"""The orders of keys on which the answer of a live model depends, found in this process."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from tracehouse.check.calls import CallResult
from tracehouse.check.oracle import EagerOracle
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.key_orders import KeyOrder, key_orders_of
from tracehouse.differential import random_inputs
from tracehouse.differential.budget import Budget
from tracehouse.differential.key_order_trials import (
    ORDER_NAMES,
    ROUNDS_DRAWN,
    ROUNDS_MOST,
    FixedOrder,
    describe_difference,
    describe_refusal,
    find_fixed_orders,
)
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
    answered = [*_answer_calls(eager, call, seed, within_s)]

    def find_change(order: KeyOrder) -> str | None:
        for one, expected in answered:
            try:
                answer = eager.answer(one.with_key_order(order), within_s=within_s)
            except (ModelRaised, TooSlow) as error:
                return describe_refusal(order, error.detail if isinstance(error, ModelRaised) else str(error))
            difference = compare(expected.outputs, answer.outputs, tolerance, sides=ORDER_NAMES).difference
            if difference is not None:
                return describe_difference(order, difference)
        return None

    return find_fixed_orders(orders, find_change, budget)


def _answer_calls(eager: EagerOracle, call: Call, seed: int, within_s: float) -> Iterator[tuple[Call, CallResult]]:
    """Yield the example and a few calls on fresh inputs, each with the eager model's answer."""
    yield call, eager.answer(call, within_s=within_s)
    drawn = islice(random_inputs.draw_rounds(pack(call.tensors), np.random.default_rng(seed)), ROUNDS_DRAWN)
    found = 0
    for inputs in drawn:
        if found == ROUNDS_MOST:
            return
        fresh = call.with_tensors(unpack(inputs))
        try:
            answer = eager.answer(fresh, within_s=within_s)
        except (ModelRaised, TooSlow):
            continue
        found += 1
        yield fresh, answer
