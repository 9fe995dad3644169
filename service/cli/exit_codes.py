"""Exit codes of `tracehouse trace` and `tracehouse check`.

A shell takes 0 for success: a model that is right for all that was asked for.
"""

from tracehouse.findings.verdict import Verdict

FAILED = 1
REJECTED = 3
RESTRICTED = 4
CANCELLED = 130  # as a shell has it for a command that Ctrl-C ended


def exit_code_of(verdict: Verdict) -> int:
    """Return the exit code for a verdict."""
    return {Verdict.REJECTED: REJECTED, Verdict.RESTRICTED: RESTRICTED}.get(verdict, 0)
