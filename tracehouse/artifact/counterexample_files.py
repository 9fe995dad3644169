"""Counterexample files: their names when they are downloaded."""


def arrays_file(number: int) -> str:
    """Return the name of the arrays' file."""
    return f"counterexample-{number}.npz"


def test_file(number: int) -> str:
    """Return the name of the test file; pytest finds it by this name."""
    return f"test_counterexample_{number}.py"
