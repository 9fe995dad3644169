"""A plugin for pytest: the fixture `check_trace`, by which a test fails if a model's trace would answer wrongly.

    def test_net(check_trace):
        check_trace(Net().eval(), [torch.randn(1, 3, 224, 224)], dynamic={"x": {0: "batch"}})

The check runs in the test's own process. A child could not do it soundly: a live module can often not be pickled, as a
spawned child needs it, and a process that is forked after torch has started its threads may hang. Here, the model is
code that pytest runs anyway, and `tracehouse.check` calls copies of it, stops calls that take too long, and puts random
generators, warning filters, settings and the caller's alarm, which pytest-timeout sets, back as they were.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:  # torch takes seconds to load, and most tests need none
    from tracehouse.check.report import Report


class CheckTrace(Protocol):
    """Check a model as `tracehouse.check` does, which has all options; fail the test unless the trace is right.

    A trace that is right within its contract only, and not for all that was asked for, fails too, unless
    `allow_restricted` is true. Returns the report.
    """

    def __call__(
        self, model: Any, example_inputs: Any = (), *, allow_restricted: bool = False, **options: Any
    ) -> "Report": ...


@pytest.fixture(scope="session")
def check_trace() -> CheckTrace:
    """Check the trace of a live model: check_trace(model, example_inputs, **options of tracehouse.check)."""
    return _check_trace


def _check_trace(model: Any, example_inputs: Any = (), *, allow_restricted: bool = False, **options: Any) -> "Report":
    __tracebackhide__ = True  # what failed is the line of the test
    from tracehouse.check.live import check_live
    from tracehouse.errors import ServiceError
    from tracehouse.findings.verdict import Verdict
    from tracehouse.report.failure_text import failure_lines

    try:
        with _without_trace_log():
            report = check_live(model, example_inputs, **options)
    except ServiceError as error:
        raise AssertionError("\n".join(failure_lines(error.failure()))) from None
    refused = {Verdict.REJECTED} if allow_restricted else {Verdict.REJECTED, Verdict.RESTRICTED}
    if report.verdict in refused:
        raise AssertionError(report.explain())
    return report


@contextmanager
def _without_trace_log() -> Iterator[None]:
    """Switch torch's structured log off: pytest would show hundreds of its empty lines for a test that fails."""
    log = logging.getLogger("torch.__trace")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
