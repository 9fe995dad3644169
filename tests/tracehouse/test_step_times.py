"""Step times: each step counts for itself, without the steps inside it."""

from tracehouse.step_times import StepTimes, record, step


def test_a_step_counts_without_the_steps_inside_it() -> None:
    clock = iter([0.0, 1.0, 4.0, 9.0])
    times = StepTimes(lambda: next(clock))

    with record(times), step("outer"), step("inner"):
        pass

    assert {one.name: one.seconds for one in times.steps} == {"inner": 3.0, "outer": 6.0}


def test_steps_of_one_name_are_added_up() -> None:
    clock = iter([0.0, 1.0, 5.0, 7.0])
    times = StepTimes(lambda: next(clock))

    with record(times):
        for _ in range(2):
            with step("again"):
                pass

    assert [(one.name, one.seconds) for one in times.steps] == [("again", 3.0)]


def test_a_step_that_raises_is_measured_and_nothing_is_recorded_outside() -> None:
    clock = iter([0.0, 2.0])
    times = StepTimes(lambda: next(clock))

    try:
        with record(times), step("raises"):
            raise ValueError
    except ValueError:
        pass
    with step("outside"):
        pass

    assert [(one.name, one.seconds) for one in times.steps] == [("raises", 2.0)]
