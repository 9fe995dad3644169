"""Trial rules: which artifacts are tried in another way than they were saved, in another form or with other threads."""

from tracehouse.artifact.manifest import Artifact
from tracehouse.findings.verdict import Verdict


def why_no_trial(artifact: Artifact) -> str | None:
    """Return why the manifest rules out that the artifact is computed in another way; None if it does not."""
    check = artifact.check
    if artifact.device != "cpu":
        return f"only artifacts for the CPU are tried, and it is for {artifact.device}"
    if check.verdict not in (Verdict.VERIFIED, Verdict.RESTRICTED):
        return f"its verdict is {check.verdict.value}: nobody knows which answers are right"
    if check.tolerance == 0:
        return "its request wants equal answers, bit by bit: check.check_tolerance is 0"
    if artifact.form != "traced" or artifact.training:
        return "only what was traced in eval mode as a whole runs the same operators in each call"
    if [*artifact.contract.methods] != ["forward"]:
        return "it has other methods than forward"
    return None
