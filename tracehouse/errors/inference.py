"""Errors of an inference: the artifact's, and those of the process that runs it."""

from typing import ClassVar

from tracehouse.errors.base import Fault, InferenceError


class GraphRaised(InferenceError):
    """The artifact raised on these inputs

    Send inputs that the model takes. A trace has none of the model's own input checks that the examples passed.
    """


class InferenceTimeout(InferenceError):
    """The artifact did not answer in time"""


class AnswerTooLarge(InferenceError):
    """The artifact's answer is larger than this service sends

    Send fewer inputs at once, trace a model that returns less, or raise the service's limit.
    """


class RunnerLost(InferenceError):
    """The runner ended before it answered"""

    fault: ClassVar[Fault] = "service"


class GoldenCaseFailed(RunnerLost):
    """The artifact no longer gives the answers of its golden cases"""
