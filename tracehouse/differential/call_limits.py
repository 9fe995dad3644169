"""Call limits: how long one call of a model may take while it is checked."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CallLimit:
    """A number of seconds, or a multiple of what a known call took if that is longer."""

    seconds: float
    times: float

    def after(self, measured_s: float) -> float:
        """Return the limit in seconds, given that the known call took `measured_s` seconds."""
        return max(self.seconds, self.times * measured_s)


@dataclass(frozen=True)
class CallLimits:
    """The limits of the calls that the check makes by itself. The example and the check inputs have none.

    A value that the model was not made for can make one of its loops very long, so each such call is stopped. The
    numbers are chosen, not measured: generous beside the example, small beside the check's budget.
    """

    resized: CallLimit = CallLimit(1.0, 20)  # a call of other sizes or other values than the example's
    state_trial: CallLimit = CallLimit(1.0, 30)  # a call with another value in the place of the model's state
    state_trials: CallLimit = CallLimit(2.0, 30)  # all such calls of one method together
    # A call with other integers. One that takes far longer works in proportion to an integer, and may ask for all
    # memory next.
    integers: CallLimit = CallLimit(0.25, 10)
    read_search_s: float = 1.0  # a call on inputs that are to read another value
    batched_rows_s: float = 5.0  # a call of several rows at once
    least_s: float = 0.001  # what a call is given when no time is left, because an alarm after 0 s never rings


CALL_LIMITS = CallLimits()
