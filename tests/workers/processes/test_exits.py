"""Whose fault it is that a child ended."""

from typing import Any

import pytest

from service.sandbox.cancellation import Cancellation, Reason
from service.sandbox.channel import ChannelClosed
from tests.workers.conftest import LIMITS
from tracehouse.errors import ModelCrashed
from workers.processes.exits import AttemptStopped, explain_model_exit, translate_errors


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
