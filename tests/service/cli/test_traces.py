"""The age of a trace request, as `tracehouse traces` says it."""

from datetime import timedelta

import pytest

from service.cli.traces import describe_age


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (timedelta(seconds=-3), "0 s"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(minutes=59, seconds=59), "59 min"),
        (timedelta(hours=47), "1 d"),
        (timedelta(hours=23), "23 h"),
        (timedelta(days=400), "400 d"),
    ],
)
def test_an_age_is_said_in_its_largest_whole_unit(age: timedelta, said: str) -> None:
    assert describe_age(age) == said
