"""Findings about the fast paths of torch's encoder layers, with which the artifact was not compared."""

from tracehouse.differential.comparison import Difference
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.remedies import BUILD_WITHOUT_NESTED_TENSORS, COMPARE_WITHOUT_FAST_PATHS

# What the model showed with its fast paths, if its answers are the same.
SAME_ELSEWHERE = ". On the inputs that were tried, it gives the same everywhere else, apart from rounding"
NO_PADDING_SEEN = ". No input that was tried has padding, so it is not known whether it gives the same everywhere else"


def fast_paths_off(seen: str = "") -> Finding:
    """Return the finding that the model ran without its fast paths. `seen` says what the model showed with them."""
    return Finding(
        kind=Kind.FAST_PATHS_OFF,
        detail="with its fast path, nn.TransformerEncoder looks at the values of its padding mask to choose its "
        "operators, and a trace keeps one choice. So the model was traced, and called to compare, after "
        "torch.backends.mha.set_fastpath_enabled(False). With fast paths it may give other numbers, such as zeros, at "
        f"padded positions and in rows that are all padding{seen}",
        remedy=COMPARE_WITHOUT_FAST_PATHS,
    )


def fast_paths_differ(method: str, case: str, difference: Difference) -> Finding:
    """Return the finding that the model answers otherwise with its fast paths, and not at padded positions alone."""
    return Finding(
        kind=Kind.FAST_PATHS_DIFFER,
        detail=f"{method} on {case}: {difference.leaf!r} differs: {difference.what}",
        confirmed=True,
        evidence={"method": method, "case": case, "output": difference.leaf, "index": difference.index},
        remedy=BUILD_WITHOUT_NESTED_TENSORS,
    )
