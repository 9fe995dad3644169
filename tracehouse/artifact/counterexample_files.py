"""Counterexample files: what they are named where they are downloaded."""


def arrays_file(number: int) -> str:
    """As it is named where it is downloaded."""
    return f"counterexample-{number}.npz"


def test_file(number: int) -> str:
    """As it is named where it is downloaded; pytest finds it by that."""
    return f"test_counterexample_{number}.py"
