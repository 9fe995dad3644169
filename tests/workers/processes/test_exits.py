"""Whose fault it is that a child ended."""

from typing import Any

import pytest

from service.sandbox.cancellation import Cancellation, Reason
from service.sandbox.channel import ChannelClosed
from tests.workers.conftest import LIMITS
from tracehouse.errors import GoldenCaseFailed, ModelCrashed
from workers.processes.exits import AttemptStopped, explain_model_exit, explain_unloadable, translate_errors


class StillEnding:
    """A child that was killed, and whose end takes longer than it is waited for."""

    def wait(self, _: float) -> None:
        raise TimeoutError


STILL_ENDING: Any = StillEnding()


@pytest.mark.parametrize("reason", ["giving way", "stopping", "cancelled"])
def test_a_child_that_takes_long_to_end_when_it_is_stopped_is_not_the_models_fault(reason: Reason) -> None:
    cancellation = Cancellation()
    cancellation.set(reason)

    with (
        pytest.raises(AttemptStopped),
        translate_errors(STILL_ENDING, LIMITS, cancellation, explain_model_exit),
    ):
        raise ChannelClosed


def test_a_child_that_closes_its_channel_and_runs_on_is_the_models_fault() -> None:
    with (
        pytest.raises(ModelCrashed, match="ran on"),
        translate_errors(STILL_ENDING, LIMITS, Cancellation(), explain_model_exit),
    ):
        raise ChannelClosed


def test_golden_cases_that_differ_in_train_mode_are_told_of_eval() -> None:
    """As of a batch norm over few values, of which eager and artifact differ by rounding."""
    failure = GoldenCaseFailed("a golden case differs in 'output': eager gives 1.0, and the artifact 1.1").failure()

    assert "model.eval()" in str(explain_unloadable(failure, may_be_in_train_mode=True).facts["remedy"])
    assert "remedy" not in explain_unloadable(failure).facts
