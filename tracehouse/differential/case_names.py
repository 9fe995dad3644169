"""Case names: what the inputs of a comparison are called, in the check's comparisons, findings and counterexamples."""

from collections.abc import Sequence

EXAMPLE = "example"  # the case with each method's example inputs


def name_check_input(place: int) -> str:
    """Return the case's name of a check input, by its place in the request from 0: `check_inputs[0]`."""
    return f"check_inputs[{place}]"


def name_sample(place: int) -> str:
    """Return the case's name of a sample, by its place among all samples from 0: `samples[0]`."""
    return f"samples[{place}]"


def is_sample(case: str) -> bool:
    """Whether a case of this name is a sample."""
    return case.startswith("samples[") and case.endswith("]")


def name_probe(what: str) -> str:
    """Return the case's name of a probe, by what it changes in the example: `probe: zeros`."""
    return f"probe: {what}"


def name_random_inputs(what: str) -> str:
    """Return the case's name of inputs drawn after the artifact was made: `fresh 1`, or `fresh at batch 3`."""
    return f"fresh {what}"


def name_for_ranks_of(case: str, of: str) -> str:
    """Return the name of a case that is drawn like a check input or sample of other ranks than the example."""
    return f"{case}, in the ranks of {of}"


def name_draw(case: str, number: int) -> str:
    """Return the case's name of the same inputs under other random numbers: `example, other random numbers 1`."""
    return f"{case}, other random numbers {number}"


def name_counterexample(what: str) -> str:
    """Return the case's name of a counterexample, by what it shows: `counterexample: size of batch`."""
    return f"counterexample: {what}"


def name_value_read(file: str, line: int) -> str:
    """Return what a counterexample shows that was found for a value read at this line."""
    return f"value at {file}:{line}"


def name_sizes(symbols: Sequence[str]) -> str:
    """Return what a counterexample shows that was found for sizes of these symbols: `size of batch`."""
    return f"size of {', '.join(symbols)}"


def is_counterexample(case: str) -> bool:
    """Whether the case of that name is a counterexample that was shrunk for one cause."""
    return case.startswith(name_counterexample(""))


def shows_sizes(case: str, symbols: Sequence[str]) -> bool:
    """Whether the case of that name is the counterexample of sizes of these symbols."""
    return case == name_counterexample(name_sizes(symbols))


def shows_value_read(case: str, file: str, line: int) -> bool:
    """Whether the case of that name is the counterexample of a value read at this line."""
    return case == name_counterexample(name_value_read(file, line))
