"""Errors of an inference: the artifact, or the process that holds it."""

from typing import ClassVar

from tracehouse.errors.base import Fault, InferenceError


class GraphRaised(InferenceError):
    """The artifact raised on these inputs

    Send inputs that the model takes; a trace knows only the checks that its examples passed.
    """


class InferenceTimeout(InferenceError):
    """The artifact did not answer in time"""


class AnswerTooLarge(InferenceError):
    """The artifact's answer is larger than this service sends

    Send fewer inputs at once, trace a model that returns less, or raise the limit where the service is started.
    """


class RunnerLost(InferenceError):
    """The runner ended before it answered"""

    fault: ClassVar[Fault] = "service"


class GoldenCaseFailed(RunnerLost):
    """The artifact no longer gives the answers it was checked with"""
