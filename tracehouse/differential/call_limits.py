"""Call limits: how long one call of a model may take while it is checked, in seconds by the clock."""

from dataclasses import dataclass

from tracehouse.differential.budget import PATIENCE


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
    """The limits of the calls and traces that the check makes by itself. `first_call_s` and `later_call` have those
    of the example.

    A value that the model was not made for can make one of its loops very long, so each such call is stopped. All
    numbers are chosen: several times what the example takes, and little of the check's budget (`named_budgets.py`).
    """

    example_least_s: float = 0.5  # a call on the example, however small the budget is
    later_call_s: float = 10.0  # a call on the example, of which one ended at once
    observed_s: float = 30.0  # the example again, or a trace of it, while it is observed: both have ended once before
    observed_least_s: float = 0.25  # such a call, however little of the budget is left
    changed_trace: CallLimit = CallLimit(1.0, 5)  # a trace in which a value that is read was replaced
    second_trace: CallLimit = CallLimit(0.5, 10)  # a trace of the example again, or of other values
    line_trace_s: float = 1.0  # a trace that is made to find the line of a difference
    resized: CallLimit = CallLimit(1.0, 20)  # a call of other sizes or other values than the example's
    resized_least_s: float = 0.1  # such a call, however little of the budget is left
    probe: CallLimit = CallLimit(1.0, 20)  # a call on a probe
    probes: CallLimit = CallLimit(1.0, 20)  # all probes of one method together: the check is to stay small
    layouts: CallLimit = CallLimit(1.0, 20)  # all calls of one method on inputs in other layouts together
    float64: CallLimit = CallLimit(5.0, 20)  # a call again in float64, in a copy that is made for it
    state_trial: CallLimit = CallLimit(1.0, 30)  # a call with another value in the place of the model's state
    state_trials: CallLimit = CallLimit(2.0, 30)  # all such calls of one method together
    # A call with other integers. If it takes far longer, the model's work grows with an integer, and the next call may
    # ask for all memory.
    integers: CallLimit = CallLimit(0.25, 10)
    # Any other call: one on inputs that read another value, or one that finds a cause. What watches it makes it slower.
    single: CallLimit = CallLimit(1.0, 10)
    batched_rows_s: float = 5.0  # a call of several rows at once
    least_s: float = 0.001  # what a call is given when no time is left, because an alarm after 0 s never rings


CALL_LIMITS = CallLimits()

# So many times as long as the first call on the example may take what was submitted with it.
_TIMES = 20


def first_call_s(budget_s: float) -> float:
    """Return how many seconds a first call on the example may take: as long by the clock as the whole check."""
    return max(PATIENCE * budget_s, CALL_LIMITS.example_least_s)


def later_call(budget_s: float) -> CallLimit:
    """Return the limit of a later call on the example."""
    return CallLimit(min(first_call_s(budget_s), CALL_LIMITS.later_call_s), _TIMES)


def submitted_call(budget_s: float) -> CallLimit:
    """Return the limit of a call on a check input, which may be larger than the example, and of the first trace."""
    return CallLimit(first_call_s(budget_s), _TIMES)
