"""What a verdict means for whoever uses the artifact."""

from tracehouse.artifact.manifest import Artifact
from tracehouse.findings.verdict import Verdict

_NOT_KNOWN = (
    "It is right within its contract. On other inputs that were asked for, or that the eager model accepts, it is "
    "wrong or not known to be right."
)
_VERDICTS = {
    Verdict.VERIFIED: "It agreed with the eager model on every input that was tried on both. Its contract says for "
    "which inputs that is known; all others are refused.",
    Verdict.SELF_CONSISTENT: "There is no eager model to compare it with. It agreed with itself, in another process, "
    "on every input that was tried. Whether it is right for the model that it was made from is not known.",
    Verdict.RESTRICTED: f"{_NOT_KNOWN} Those are refused, so that no wrong answer leaves the service.",
    Verdict.REJECTED: "It answers wrongly in a way that no boundary on its inputs excludes. Do not serve it.",
}
_OPEN_VERDICTS = _VERDICTS | {
    Verdict.VERIFIED: "It agreed with the eager model on every input that was tried on both. Its contract says for "
    "which inputs that is known, and is open: sizes that were never tried are answered as well, with a warning.",
    Verdict.RESTRICTED: f"{_NOT_KNOWN} Sizes that are known to be wrong are refused. The contract is open: sizes that "
    "were never tried are answered, with a warning.",
}
SIGNS = {Verdict.VERIFIED: "✓", Verdict.SELF_CONSISTENT: "=", Verdict.RESTRICTED: "!", Verdict.REJECTED: "✗"}


def verdict_note(artifact: Artifact) -> str:
    """Return what the artifact's verdict means for whoever uses it."""
    return (_OPEN_VERDICTS if artifact.contract.open else _VERDICTS)[artifact.check.verdict]
