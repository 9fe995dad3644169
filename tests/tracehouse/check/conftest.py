import pytest

from tracehouse.check import datatypes


@pytest.fixture
def without_other_datatypes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check asks of no datatypes but the example's.

    What is proven is proven anew for each other one, which takes most of the time where a proof is long. That it is,
    test_datatypes.py shows, and tests/corpus checks all its models so.
    """
    monkeypatch.setattr(datatypes, "_OTHERS", {})
