"""The error tree."""

from service.domain.errors import ShapeMismatch, leaves


def test_a_slug_comes_from_the_class_name() -> None:
    assert ShapeMismatch.slug() == "shape-mismatch"


def test_every_error_has_its_own_slug_title_and_fault() -> None:
    errors = leaves()
    assert len({error.__name__ for error in errors.values()}) == len(errors)
    for error in errors.values():
        assert error.__doc__
        assert error.fault in ("caller", "model", "service")


def test_facts_survive_as_data() -> None:
    failure = ShapeMismatch("x is wrong", input="x").failure()
    assert (failure.slug, failure.detail, failure.facts) == ("shape-mismatch", "x is wrong", {"input": "x"})
