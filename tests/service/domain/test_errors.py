"""The error tree."""

from tracehouse.errors import CallerError, ServiceError, ShapeMismatch, TraceError, by_slug


def all_of(family: type[ServiceError]) -> list[type[ServiceError]]:
    return [family, *(error for child in family.__subclasses__() for error in all_of(child))]


def test_a_slug_comes_from_the_class_name() -> None:
    assert ShapeMismatch.slug() == "shape-mismatch"


def test_every_error_has_its_own_slug_title_and_fault() -> None:
    errors = all_of(ServiceError)
    assert len(by_slug()) == len({error.title() for error in errors}) == len(errors)
    for error in errors:
        assert error.__doc__
        assert error.fault in ("caller", "model", "service")


def test_every_mistake_of_a_caller_says_what_to_do_about_it() -> None:
    for family in CallerError.__subclasses__():
        for error in family.__subclasses__() or [family]:
            assert error.remedy() is not None, error


def test_every_error_of_a_model_says_what_to_do_about_it() -> None:
    for family in TraceError.__subclasses__():
        for error in all_of(family):
            assert error.remedy() is not None or error.fault == "service", error


def test_facts_survive_as_data() -> None:
    failure = ShapeMismatch("x is wrong", input="x").failure()
    assert (failure.slug, failure.detail, failure.facts) == ("shape-mismatch", "x is wrong", {"input": "x"})
