"""How many runners a load is worth: a model of a machine says what each number of them answers, and no clock runs."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.replica_count import Look, ReplicaCount

MOST = 8


class Machine:
    """Runners of one model, and any number of callers. `answers` says how many a second so many runners give."""

    def __init__(self, answers: Callable[[int], int], idle: float = 8.0, threads: int = 1, most: int = MOST) -> None:
        self.model = ReplicaCount()
        self.answers = answers
        self.idle = idle
        self.threads = threads
        self.most = most
        self.ready: int | None = None  # as many as there are to be

    @property
    def count(self) -> int:
        return self.model.count

    def run(self, seconds: int, callers: int = 100, *, in_the_way: bool = False) -> list[int]:
        """Let so many callers ask for so long; return the numbers of runners after each second."""
        counts = []
        for _ in range(seconds):
            ready = min(self.count, self.ready or self.count)
            busy = min(callers, ready)
            look = Look(
                elapsed_s=1.0, answers=self.answers(busy) if busy else 0, busy_s=busy, waits=callers > ready,
                ready=ready, idle=self.idle, in_the_way=in_the_way,
            )  # fmt: skip
            self.model.look(look)
            wanted = self.model.next_count(self.threads, self.most)
            if wanted != self.count:
                self.model.begin(wanted)
            counts.append(self.count)
        return counts


def each_answers(number: int) -> int:
    return 100 * number


def they_answer_no_more(_: int) -> int:
    return 100


def test_more_are_tried_as_long_as_they_answer_so_many_more_requests() -> None:
    machine = Machine(each_answers)

    counts = machine.run(40)

    assert (counts[0], counts[-1]) == (1, 8)
    assert sorted({*counts}) == [1, 2, 4, 8]
    assert machine.model.why == "8 processes answered 2.00 times as many requests as 4"
    assert {*machine.run(1_000)} == {8}


def test_more_that_do_not_answer_more_end_and_are_not_tried_again_for_ten_minutes() -> None:
    machine = Machine(they_answer_no_more)

    counts = machine.run(20)
    assert max(counts) == 2
    assert machine.count == 1
    assert machine.model.why == "2 processes answered only 1.00 times as many requests as 1"

    assert {*machine.run(550)} == {1}
    assert 2 in machine.run(100)


@pytest.mark.parametrize(("with_two", "count"), [(124, 1), (125, 2)])
def test_they_stay_from_one_and_a_quarter_times_as_many_answers_on(with_two: int, count: int) -> None:
    machine = Machine(lambda number: 100 if number == 1 else with_two, most=2)

    machine.run(20)

    assert machine.count == count


@pytest.mark.parametrize(
    ("idle", "threads", "count"), [(0.4, 1, 1), (0.5, 1, 2), (0.9, 2, 1), (1.0, 2, 2), (8.0, 2, 2)]
)
def test_they_are_tried_only_on_processors_that_were_idle(idle: float, threads: int, count: int) -> None:
    machine = Machine(lambda number: 100 if number == 1 else 150, idle=idle, threads=threads, most=2)

    machine.run(20)

    assert machine.count == count


def test_a_few_idle_processors_get_a_few_more_runners() -> None:
    machine = Machine(each_answers, idle=1.4)

    assert sorted({*machine.run(60)}) == [1, 2, 3, 4]  # a fifth one could not answer more than 1.25 times as many


@pytest.mark.parametrize("callers", [0, 1])
def test_one_stays_alone_where_nobody_waits_for_it(callers: int) -> None:
    """However busy it is."""
    assert {*Machine(each_answers).run(200, callers)} == {1}


def test_two_callers_that_never_wait_for_two_runners_keep_them() -> None:
    machine = Machine(each_answers)

    machine.run(20, callers=2)

    assert {*machine.run(1_000, callers=2)} == {2}
    assert machine.run(70, callers=1)[-1] == 2  # one of two is still busy: it would be as much as one can do
    assert machine.run(120, callers=0)[-1] == 1
    assert machine.model.why == "for 60 s, fewer requests came than 2 processes are for"


def test_a_load_that_goes_away_during_the_trial_says_nothing() -> None:
    machine = Machine(each_answers)
    machine.run(4)
    assert machine.model.is_trying

    counts = machine.run(70, callers=0)

    assert counts[-1] == 1
    assert machine.model.why == "2 processes were tried, and too few requests came meanwhile to compare them"
    machine.run(50)
    assert machine.count == 1
    machine.run(60)
    assert machine.count > 1


def test_answers_of_a_slow_model_are_counted_for_longer() -> None:
    """One a second, or two: three seconds of them say little."""
    machine = Machine(lambda number: number, most=2)

    counts = machine.run(30)

    assert counts.index(2) == 10  # at the first look nobody knows whether somebody waited before
    assert machine.model.why == "2 processes answered 2.00 times as many requests as 1"


def test_as_many_are_tried_as_could_be_started() -> None:
    machine = Machine(each_answers, most=4)
    machine.run(10)
    machine.ready = 3

    machine.run(16)

    assert machine.count == 3
    assert machine.model.why == "3 processes answered 1.50 times as many requests as 2"


def test_where_none_could_be_started_the_next_trial_is_ten_minutes_later() -> None:
    machine = Machine(each_answers)
    machine.ready = 1

    counts = machine.run(30)

    assert max(counts) == 2
    assert machine.count == 1
    assert machine.model.why == "2 processes were to be tried, and no more could be started"
    assert {*machine.run(500)} == {1}


def test_while_one_loads_nobody_gives_up() -> None:
    model = Machine(each_answers)
    model.run(4)

    for _ in range(1_000):
        model.model.look(Look(elapsed_s=1.0, answers=100, busy_s=1.0, waits=True, ready=1, is_loading=True))

    assert model.count == 2


def test_a_trial_ends_in_which_runners_are_lost_as_soon_as_they_are_ready() -> None:
    """No other model has one meanwhile."""
    machine = Machine(each_answers)
    machine.run(4)

    for ready in (2, 1) * 31:
        machine.model.look(
            Look(elapsed_s=1.0, answers=100, busy_s=ready, waits=True, ready=ready, is_loading=ready < 2)
        )

    assert (machine.count, machine.model.is_trying) == (1, False)


def test_further_ones_go_one_after_the_other_where_they_are_in_the_way() -> None:
    machine = Machine(each_answers, most=4)
    machine.run(40)
    assert machine.count == 4

    counts = machine.run(40, in_the_way=True)

    assert [counts.index(count) for count in (3, 2, 1)] == [9, 19, 29]
    assert machine.model.why == "the processors were busy, and requests of another tenant waited"
    assert {*machine.run(500)} == {1}


def test_a_trial_that_is_in_the_way_ends() -> None:
    machine = Machine(lambda number: number)
    machine.run(11)
    assert machine.model.is_trying
    machine.ready = 1

    assert machine.run(10, in_the_way=True)[-2:] == [2, 1]
    assert machine.model.why == "the processors were busy, and requests of another tenant waited"


looks = st.builds(
    Look,
    elapsed_s=st.sampled_from([0.5, 1.0, 1.5, 20.0]),
    answers=st.sampled_from([0, 1, 9, 40, 60]),
    busy_s=st.sampled_from([0.0, 0.5, 1.0, 2.0, 100.0]),
    waits=st.sampled_from([True, True, True, False]),
    ready=st.integers(0, MOST),
    is_loading=st.booleans(),
    idle=st.sampled_from([0.0, 1.0, 8.0]),
    in_the_way=st.sampled_from([False, False, True]),
)
# Loads that last, so that trials come to an end.
phases = st.lists(st.tuples(looks, st.booleans(), st.integers(1, 40)), max_size=20)


@given(phases, st.integers(1, MOST), st.integers(1, 4))
def test_no_load_has_more_than_there_may_be_or_starts_and_ends_runners_all_the_time(
    phases: list[tuple[Look, bool, int]], most: int, threads: int
) -> None:
    model, now = ReplicaCount(), 0.0
    rises, fell_since = [], False
    for look, all_ready, times in phases:
        for _ in range(times):
            before = model.count
            ready = model.count if all_ready else look.ready
            model.look(Look(**{name: getattr(look, name) for name in Look.__slots__} | {"ready": ready}))
            now += look.elapsed_s
            assert 1 <= model.count <= before
            fell_since = fell_since or model.count < before
            wanted = model.next_count(threads, most)
            if wanted != model.count:
                model.begin(wanted)
                if rises and fell_since:
                    assert now - rises[-1] >= 60.0
                rises.append(now)
                fell_since = False
            assert model.count <= most

    for _ in range(200):  # nobody asks any more
        model.look(Look(elapsed_s=1.0, ready=model.count))
        assert model.next_count(threads, most) == model.count
    assert (model.count, model.is_trying) == (1, False)
