"""Case names: what the inputs of a comparison are called, in the check's comparisons, findings and counterexamples."""

EXAMPLE = "example"  # the case with each method's example inputs


def name_check_input(place: int) -> str:
    """Return the case's name of a check input, by its place in the request from 0: `check_inputs[0]`."""
    return f"check_inputs[{place}]"


def name_probe(what: str) -> str:
    """Return the case's name of a probe, by what it changes in the example: `probe: zeros`."""
    return f"probe: {what}"


def name_random_inputs(what: str) -> str:
    """Return the case's name of inputs drawn after the artifact was made: `fresh 1`, or `fresh at batch 3`."""
    return f"fresh {what}"


def name_counterexample(what: str) -> str:
    """Return the case's name of a counterexample, by what it shows: `counterexample: size of batch`."""
    return f"counterexample: {what}"


def name_value_read(file: str, line: int) -> str:
    """Return what a counterexample shows that was found for a value read at this line."""
    return f"value at {file}:{line}"


def shows_value_read(case: str, file: str, line: int) -> bool:
    """Whether the case of that name is the counterexample of a value read at this line."""
    return case == name_counterexample(name_value_read(file, line))
