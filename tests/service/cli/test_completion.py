"""A shell completes what is written of a command: `tracehouse --install-completion` sets that up."""

import os
import subprocess

from tests.acceptance.conftest import TRACEHOUSE


def test_a_shell_completes_commands_and_options() -> None:
    def complete(words: str, at: int) -> list[str]:
        asked = {"_TRACEHOUSE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        done = subprocess.run([TRACEHOUSE], env=os.environ | asked, capture_output=True, text=True, check=False)
        return done.stdout.split()

    assert complete("tracehouse di", 1) == ["diff"]
    assert complete("tracehouse diff --js", 2) == ["--json"]
