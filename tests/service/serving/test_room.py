"""Which runners end for another one: those of tenants over their share, and never in turns without end."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.serving.room import Activity, Holding, Need, Room

SHARE_S = 60.0
NOW = 1000.0
LONG_AGO = NOW - 2 * SHARE_S


def held(
    name: str,
    byte_size: int,
    *,
    admitted: int | None = None,
    free_at: float = NOW - 1,
    activity: Activity = Activity.IDLE,
    is_pinned: bool = False,
    seat: int = 0,
    is_further: bool = False,
) -> Holding:
    """The first letter is the tenant's."""
    admitted_bytes = byte_size if admitted is None else admitted
    return Holding(name[0], name, 1, byte_size, admitted_bytes, free_at, activity, is_pinned, seat, is_further)


def pinned(name: str, byte_size: int, *, free_at: float = LONG_AGO) -> Holding:
    return held(name, byte_size, free_at=free_at, is_pinned=True)


def busy(name: str, byte_size: int, *, admitted: int | None = None, free_at: float = NOW + 20) -> Holding:
    return held(name, byte_size, admitted=admitted, free_at=free_at, activity=Activity.BUSY)


def room(*holdings: Holding, asked_at: float = NOW - 1) -> Room:
    return Room(100, SHARE_S, holdings, {holding.tenant: asked_at for holding in holdings})


def victims(room: Room, tenant: str, byte_size: int) -> list[str] | None:
    chosen = room.victims(Need(tenant, byte_size), NOW)
    return None if chosen is None else [holding.digest for holding in chosen]


def test_what_fits_ends_nothing() -> None:
    assert victims(room(held("a1", 40), held("b1", 20)), "a", 40) == []


def test_a_tenant_alone_ends_its_least_recently_used_runners() -> None:
    three = room(held("a1", 40, free_at=NOW - 3), held("a2", 30, free_at=NOW - 9), held("a3", 30, free_at=NOW - 6))

    assert victims(three, "a", 20) == ["a2"]
    assert victims(three, "a", 50) == ["a2", "a3"]


def test_what_is_larger_than_the_memory_is_alone() -> None:
    assert victims(room(held("a1", 40)), "a", 200) == ["a1"]
    assert victims(room(), "a", 200) == []
    assert victims(room(held("b1", 1)), "a", 200) is None


def test_a_tenant_over_its_share_makes_room_for_one_within() -> None:
    assert victims(room(held("a1", 45), held("a2", 30, free_at=NOW - 9), held("b1", 20)), "b", 25) == ["a2"]


def test_a_tenant_that_asks_for_more_than_its_share_loses_its_own() -> None:
    two = room(held("a1", 30, free_at=NOW - 2), held("b1", 45, free_at=NOW - 9))

    assert victims(two, "a", 40) == ["a1"]
    assert victims(two, "a", 60) is None


def test_a_grown_runner_and_a_second_of_the_same_tenant_end_nobody_elses() -> None:
    assert victims(room(busy("a1", 150, admitted=10), held("b1", 10)), "a", 10) is None


def test_what_has_outgrown_its_admission_goes_before_others_that_do_as_much() -> None:
    idle = room(held("a1", 30, free_at=NOW - 9), held("a2", 50, admitted=40), held("b1", 10))
    working = room(busy("a1", 30), busy("a2", 50, admitted=40), held("b1", 10))

    assert victims(idle, "b", 15) == ["a2"]
    assert victims(working, "b", 15) == ["a2"]


def test_an_answer_is_given_up_only_if_nothing_else_makes_room() -> None:
    loading = held("a2", 30, free_at=NOW + 50, activity=Activity.LOADING)

    assert victims(room(busy("a1", 50, admitted=10), held("a2", 30), held("b1", 10)), "b", 20) == ["a2"]
    assert victims(room(busy("a1", 50, admitted=10), loading, held("b1", 10)), "b", 20) == ["a2"]
    assert victims(room(busy("a1", 80, admitted=10), held("b1", 10)), "b", 20) == ["a1"]


def test_a_tenant_that_has_left_has_no_share() -> None:
    left = Room(100, SHARE_S, [held("a1", 30), held("b1", 40, free_at=LONG_AGO)], {"a": NOW - 1, "b": LONG_AGO})

    assert victims(left, "a", 60) == ["b1"]


def test_what_waits_for_room_itself_has_nothing_to_give() -> None:
    waiting = held("a1", 80, free_at=NOW + 50, activity=Activity.WAITING)

    assert victims(room(waiting, held("b1", 10)), "b", 20) is None


def test_a_pinned_runner_stays_where_its_tenant_needs_memory() -> None:
    two = room(pinned("a1", 40), held("a2", 50))

    assert victims(two, "a", 20) == ["a2"]
    assert victims(two, "a", 60) == ["a2"]
    assert victims(two, "a", 70) is None


def test_a_pinned_runner_within_its_tenants_share_stays_for_others_too_however_long_nobody_asked() -> None:
    left = Room(100, SHARE_S, [pinned("a1", 40), held("a2", 30, free_at=LONG_AGO)], {"a": LONG_AGO, "b": NOW})

    assert victims(left, "b", 50) == ["a2"]
    assert victims(left, "b", 60) == ["a2"]
    assert victims(left, "b", 61) is None


def test_pinned_runners_beyond_the_share_make_room_as_any_other_the_largest_of_them() -> None:
    """Alone, the tenant may pin all the memory; of two, half of it."""
    three = room(pinned("a1", 45), pinned("a2", 15), pinned("a3", 30))

    assert victims(three, "b", 10) == []
    assert victims(three, "b", 11) == ["a1"]
    assert victims(three, "b", 50) == ["a1"]
    assert victims(three, "b", 56) is None


def test_a_pinned_runner_that_is_larger_than_the_share_stays_nowhere() -> None:
    assert victims(room(pinned("a1", 60), pinned("a2", 10)), "b", 40) == ["a1"]
    assert victims(room(pinned("a1", 120)), "a", 10) == ["a1"]


def test_the_first_runner_of_each_pinned_model_stays_before_a_further_one_of_any() -> None:
    further = [held("a1", 10, free_at=LONG_AGO, is_pinned=True, seat=seat, is_further=True) for seat in (1, 2)]
    crowded = room(pinned("a1", 10), *further, pinned("a2", 35))

    found = crowded.victims(Need("b", 45), NOW)

    assert found is not None
    assert [(one.digest, one.seat) for one in found] == [("a1", 1)]


def test_a_further_runner_of_a_pinned_model_makes_room_for_the_first_of_another_one() -> None:
    further = held("a1", 40, free_at=LONG_AGO, is_pinned=True, seat=1, is_further=True)
    full = room(pinned("a1", 40), further)

    assert full.victims(Need("a", 40, is_first=True, is_pinned=True), NOW) == [further]
    assert full.victims(Need("a", 40), NOW) is None
    assert full.victims(Need("a", 70, is_first=True, is_pinned=True), NOW) is None


def test_a_tenant_loses_further_runners_of_its_own_whatever_they_do() -> None:
    """Else a model with many that are always busy would keep its other models away."""
    answer = {"free_at": NOW + 20, "activity": Activity.BUSY}
    first, further = held("a1", 45, **answer), held("a1", 45, seat=1, is_further=True, **answer)

    found = room(first, further).victims(Need("a", 40), NOW)

    assert found == [further]
    assert room(first, further).victims(Need("a", 60), NOW) is None


def further(name: str, byte_size: int, seat: int = 1, **changes: Any) -> Holding:
    return held(name, byte_size, seat=seat, is_further=True, **changes)


def places(chosen: Sequence[Holding] | None) -> list[tuple[str, int]] | None:
    return None if chosen is None else [(one.digest, one.seat) for one in chosen]


def test_a_first_runner_takes_the_place_of_further_ones_of_a_tenant_within_its_share() -> None:
    """The least recently used of them, and as many as it needs; one that is further itself ends nothing."""
    three = room(held("b1", 15), further("b1", 15, 1, free_at=NOW - 3), further("b1", 15, 2, free_at=NOW - 9))

    assert places(three.victims(Need("a", 60, is_first=True), NOW)) == [("b1", 2)]
    assert places(three.victims(Need("a", 80, is_first=True), NOW)) == [("b1", 2), ("b1", 1)]
    assert three.victims(Need("a", 86, is_first=True), NOW) is None
    assert three.victims(Need("a", 60), NOW) is None


def test_a_first_runner_takes_the_place_of_what_loads_beside_others_and_of_nothing_that_answers() -> None:
    loads = further("b1", 15, 1, free_at=NOW + 20, activity=Activity.LOADING)
    answers = further("b1", 15, 2, free_at=NOW + 20, activity=Activity.BUSY)
    three = room(held("b1", 15), loads, answers)

    assert places(three.victims(Need("a", 70, is_first=True), NOW)) == [("b1", 1)]
    assert three.victims(Need("a", 71, is_first=True), NOW) is None
    assert three.free_at(Need("a", 71, is_first=True), NOW) == NOW + 20


def test_a_tenants_own_runners_go_before_further_ones_of_a_tenant_within_its_share() -> None:
    """However long nobody has asked those: they cost the other tenant something."""
    two = room(held("a1", 30), further("a1", 10), held("b1", 20), further("b1", 20, free_at=LONG_AGO))

    assert places(two.victims(Need("a", 40, is_first=True), NOW)) == [("a1", 0)]
    assert places(two.victims(Need("a", 60, is_first=True), NOW)) == [("a1", 0), ("a1", 1)]
    assert places(two.victims(Need("a", 70, is_first=True), NOW)) == [("a1", 0), ("a1", 1), ("b1", 1)]


def test_a_tenants_own_further_runners_make_room_also_while_others_wait_for_theirs() -> None:
    waiting = held("b1", 60, free_at=NOW + 50, activity=Activity.WAITING)

    assert places(room(waiting, held("a1", 20), further("a1", 20)).victims(Need("a", 10, is_first=True), NOW)) == [
        ("a1", 1)
    ]


def test_further_runners_that_are_pinned_within_the_share_stay_for_a_first_one_too() -> None:
    full = room(pinned("b1", 20), further("b1", 20, free_at=LONG_AGO, is_pinned=True))

    assert full.victims(Need("a", 61, is_first=True), NOW) is None
    assert full.victims(Need("a", 61, is_first=True, is_pinned=True), NOW) is None


@pytest.mark.parametrize(
    ("holdings", "byte_size", "stays"),
    [([], 100, True), ([], 101, False), ([held("a1", 90)], 100, True), ([pinned("a1", 60)], 40, True),
     ([pinned("a1", 60)], 41, True), ([pinned("a1", 40)], 61, False), ([pinned("b1", 10)], 51, False)],
)  # fmt: skip
def test_a_pinned_runner_is_started_only_if_it_would_stay(holdings: list[Holding], byte_size: int, stays: bool) -> None:
    """The larger of two that do not fit together is the one that goes."""
    assert Room(100, SHARE_S, holdings, {}).would_stay(pinned("a new one", byte_size), NOW) is stays


def test_who_waits_for_what_pinned_runners_keep_is_told_to_ask_again_when_anything_changes() -> None:
    kept = Room(100, SHARE_S, [pinned("a1", 80), busy("a2", 10, free_at=NOW + 20)], {"a": NOW})

    assert kept.free_at(Need("a", 30), NOW) == NOW + 20 + SHARE_S


@pytest.mark.parametrize(
    ("holdings", "byte_size", "after_s"),
    [
        ([busy("a1", 150, admitted=10)], 10, 20),  # its own answer
        ([held("b1", 45, free_at=NOW - 10)], 60, 50),  # the other tenant leaves
        ([busy("b1", 45, free_at=NOW + 7)], 60, 67),
        ([held("b1", 5), busy("c1", 5)], 95, 59),  # one of two others leaves: what it has is enough
        ([held("b1", 5)], 5, 0),
    ],
)
def test_a_refused_tenant_is_told_when_there_is_room(holdings: Sequence[Holding], byte_size: int, after_s: int) -> None:
    asked_at = {holding.tenant: holding.free_at for holding in holdings}

    assert Room(100, SHARE_S, holdings, asked_at).free_at(Need("a", byte_size), NOW) == NOW + after_s


TENANTS = st.sampled_from("abc")
SIZES = st.integers(0, 120)
HOLDINGS = st.builds(
    Holding,
    tenant=TENANTS,
    digest=st.uuids().map(str),
    threads=st.just(1),
    byte_size=SIZES,
    admitted_bytes=SIZES,
    free_at=st.floats(LONG_AGO, NOW + 100),
    activity=st.sampled_from(Activity),
    is_pinned=st.booleans(),
    is_further=st.booleans(),
)
ROOMS = st.builds(
    Room,
    memory_max_bytes=st.just(100),
    share_s=st.just(SHARE_S),
    holdings=st.lists(HOLDINGS, max_size=8),
    asked_at=st.dictionaries(TENANTS, st.floats(LONG_AGO, NOW)),
)
NEEDS = st.builds(Need, tenant=TENANTS, byte_size=SIZES, is_first=st.booleans(), is_pinned=st.booleans())


def gives_way(victim: Holding, need: Need) -> bool:
    """Whether it is one that others answer beside, which does not answer, and a first runner needs the memory."""
    return need.is_first and victim.is_further and victim.activity_at(NOW) in (Activity.IDLE, Activity.LOADING)


def in_use(room: Room, need: Need) -> set[str]:
    """The tenants that have a share, said in another way than the room says it."""
    recent = {holding.tenant for holding in room.holdings if holding.free_at > NOW - SHARE_S}
    asked = {tenant for tenant, asked_at in room.asked_at.items() if asked_at > NOW - SHARE_S}
    return {need.tenant} | recent | asked


def sharing(room: Room, need: Need) -> set[str]:
    return in_use(room, need) | {holding.tenant for holding in room.holdings if holding.is_pinned}


@given(ROOMS, NEEDS)
def test_a_tenant_within_its_share_loses_only_further_runners_and_those_to_first_ones(room: Room, need: Need) -> None:
    share, using = 100 // len(sharing(room, need)), in_use(room, need)
    used = Counter({need.tenant: need.byte_size})
    for holding in room.holdings:
        used[holding.tenant] += holding.byte_size

    for victim in room.victims(need, NOW) or []:
        assert victim.tenant not in using or used[victim.tenant] > share or gives_way(victim, need)
        used[victim.tenant] -= victim.byte_size


@given(ROOMS, NEEDS)
def test_a_tenant_that_asks_for_more_than_its_share_takes_it_from_no_other(room: Room, need: Need) -> None:
    share, using = 100 // len(sharing(room, need)), in_use(room, need)
    chosen = room.victims(need, NOW) or []
    used = need.byte_size + sum(holding.byte_size for holding in room.holdings if holding.tenant == need.tenant)

    for victim in chosen:
        if victim.tenant == need.tenant:
            used -= victim.byte_size
        elif victim.tenant in using:
            assert used <= share or gives_way(victim, need)


@given(ROOMS, NEEDS)
def test_pinned_runners_that_fit_into_the_share_together_never_end(room: Room, need: Need) -> None:
    share = 100 // len(sharing(room, need))
    pinned_bytes = Counter[str]()
    for holding in room.holdings:
        pinned_bytes[holding.tenant] += holding.byte_size * holding.is_pinned
    if need.is_first and need.is_pinned:
        pinned_bytes[need.tenant] += need.byte_size

    for victim in room.victims(need, NOW) or []:
        assert not victim.is_pinned or pinned_bytes[victim.tenant] > share


@given(ROOMS, NEEDS)
def test_pinned_runners_keep_no_more_than_the_share_from_others(room: Room, need: Need) -> None:
    """Whoever asks within the share while nobody uses the pool loses nothing to what others have pinned."""
    others = [one for one in room.holdings if one.tenant != need.tenant and one.free_at < NOW - SHARE_S]
    alone = Room(100, SHARE_S, others, {})
    share = 100 // len(sharing(alone, need))

    chosen = alone.victims(Need(need.tenant, share), NOW)

    assert chosen is not None
    kept = Counter[str]()
    for holding in others:
        if holding not in chosen:
            kept[holding.tenant] += holding.byte_size
    assert kept.total() + share <= 100


@given(ROOMS, NEEDS)
def test_enough_ends_and_not_one_more_than_is_needed(room: Room, need: Need) -> None:
    chosen = room.victims(need, NOW)
    if chosen is not None:
        kept = [holding for holding in room.holdings if holding not in chosen]
        left = sum(holding.byte_size for holding in kept) + need.byte_size
        assert left <= 100 or not kept
        assert not chosen or left + chosen[-1].byte_size > 100


@given(ROOMS, NEEDS)
def test_a_tenant_within_its_share_is_refused_only_while_others_wait_for_room(room: Room, need: Need) -> None:
    wanted = need.byte_size + sum(holding.byte_size for holding in room.holdings if holding.tenant == need.tenant)
    waiting = any(holding.activity_at(NOW) is Activity.WAITING for holding in room.holdings)
    if wanted <= 100 // len(sharing(room, need)) and not waiting:
        assert room.victims(need, NOW) is not None


@settings(max_examples=500)
@given(ROOMS, NEEDS)
def test_a_first_runner_is_refused_only_where_all_further_ones_that_do_not_answer_are_too_little(
    room: Room, need: Need
) -> None:
    if need.is_first and room.victims(need, NOW) is None:
        kept = [one for one in room.holdings if one.is_pinned or not gives_way(one, need)]
        assert sum(one.byte_size for one in kept) + need.byte_size > 100


@given(ROOMS, NEEDS)
def test_no_further_runner_gives_way_where_there_is_room_without_that(room: Room, need: Need) -> None:
    if need.is_first and (chosen := room.victims(replace(need, is_first=False), NOW)) is not None:
        assert need.is_pinned or room.victims(need, NOW) == chosen


@given(ROOMS, NEEDS)
def test_the_time_that_is_told_is_true(room: Room, need: Need) -> None:
    told = room.free_at(need, NOW)
    if any(holding.is_pinned for holding in room.holdings):  # they may stand in the way for ever
        assert told == NOW or room.victims(need, NOW) is None
        return

    assert room.victims(need, told) is not None
    assert (told == NOW) == (room.victims(need, NOW) is not None)
    sooner = [holding.free_at for holding in room.holdings if NOW < holding.free_at < told]
    assert [time for time in sooner if room.victims(need, time) is not None] == []


SIZED = st.tuples(st.integers(1, 120), st.integers(1, 120))


@given(st.lists(SIZED, min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_requests_in_turn_do_not_end_each_others_runners_for_ever(sizes: list[tuple[int, int]], random: Random) -> None:
    """Each tenant's model is expected to take the first size, and grows to the second while it answers."""
    order = random.sample("abcde"[: len(sizes)], len(sizes))
    expected = {tenant: size[0] for tenant, size in zip("abcde", sizes, strict=False)}
    grown = {tenant: max(size) for tenant, size in zip("abcde", sizes, strict=False)}
    living: dict[str, Holding] = {}
    asked_at: dict[str, float] = {}
    ended = []
    for turn in range(12 * len(order)):
        now = NOW + turn / 10
        tenant = order[turn % len(order)]
        asked_at[tenant] = now
        if tenant not in living:
            chosen = Room(100, SHARE_S, [*living.values()], asked_at).victims(Need(tenant, expected[tenant]), now)
            if chosen is None:
                continue
            for victim in chosen:
                del living[victim.tenant]
            ended += [turn] * len(chosen)
        living[tenant] = Holding(tenant, tenant, 1, grown[tenant], expected[tenant], now)
        expected[tenant] = grown[tenant]  # the pool remembers

    assert all(turn < 4 * len(order) for turn in ended)


@given(
    st.lists(st.tuples(st.integers(1, 120), st.integers(1, 4)), min_size=2, max_size=5),
    st.randoms(use_true_random=False),
)
def test_first_and_further_runners_do_not_take_each_others_place_for_ever(
    models: list[tuple[int, int]], random: Random
) -> None:
    """Each tenant's model has a size, and so many runners: the first starts for a request, the others where there is
    room beside all."""
    tenants = "abcde"[: len(models)]
    used_at: dict[str, list[float]] = {tenant: [] for tenant in tenants}  # of its runners, the first before the others
    order, asked_at, ended = random.sample(tenants, len(tenants)), dict[str, float](), list[int]()
    for turn in range(16 * len(order)):
        now, tenant = NOW + turn / 10, order[turn % len(order)]
        size, most = models[tenants.index(tenant)]
        asked_at[tenant] = now
        holdings = [
            held(one, models[place][0], free_at=free_at, seat=seat, is_further=seat > 0)
            for place, one in enumerate(tenants)
            for seat, free_at in enumerate(used_at[one])
        ]
        full = Room(100, SHARE_S, holdings, asked_at)
        if used_at[tenant]:
            used_at[tenant][0] = now
            if len(used_at[tenant]) < most and full.fits(Need(tenant, size)):
                used_at[tenant].append(now)
        elif (victims := full.victims(Need(tenant, size, is_first=True), now)) is not None:
            for victim in sorted(victims, key=lambda victim: victim.seat, reverse=True):
                del used_at[victim.tenant][victim.seat]
                ended.append(turn)
            used_at[tenant].append(now)

    assert all(turn < 8 * len(order) for turn in ended)
