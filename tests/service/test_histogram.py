"""What a histogram counts."""

from service.histogram import Histogram


def test_a_value_is_counted_under_the_first_bound_that_it_does_not_exceed() -> None:
    counted = Histogram([1, 10])
    for value in (0, 1, 2, 10, 11, 1000):
        counted.add(value)

    assert counted.counts == [2, 2, 2]
    assert counted.total == 1024
