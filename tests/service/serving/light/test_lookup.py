"""What is remembered of a slow read, and until when."""

import asyncio

import pytest

from service.serving.lookup import Lookup

pytestmark = pytest.mark.anyio


class Shelf:
    """Something that changes, and says how often it was read."""

    def __init__(self) -> None:
        self.value = "old"
        self.reads = 0
        self.version = 0

    def read(self, name: str) -> str:
        self.reads += 1
        if name == "missing":
            raise KeyError(name)
        return f"{self.value} {name}"


async def test_what_was_read_is_not_read_again() -> None:
    shelf = Shelf()
    lookup = Lookup(shelf.read, 8)

    assert [await lookup.ask("book") for _ in range(3)] == ["old book"] * 3
    assert shelf.reads == 1


async def test_another_version_is_read_at_once() -> None:
    shelf = Shelf()
    lookup = Lookup(shelf.read, 8, version=lambda _: shelf.version)
    await lookup.ask("book")
    shelf.value, shelf.version = "new", 1

    assert await lookup.ask("book") == "new book"


async def test_a_change_without_a_version_is_seen_after_the_age() -> None:
    shelf = Shelf()
    lookup = Lookup(shelf.read, 8, max_age_s=0.0)
    await lookup.ask("book")
    shelf.value = "new"

    assert await lookup.ask("book") == "new book"


async def test_a_change_during_the_read_is_seen_by_the_next() -> None:
    shelf = Shelf()

    def read(name: str) -> str:
        found = shelf.read(name)
        if shelf.reads == 1:  # it changes right after it was read
            shelf.value, shelf.version = "new", 1
        return found

    lookup = Lookup(read, 8, version=lambda _: shelf.version)

    assert [await lookup.ask("book"), await lookup.ask("book")] == ["old book", "new book"]


async def test_an_error_is_not_remembered() -> None:
    shelf = Shelf()
    lookup = Lookup(shelf.read, 8)
    for _ in range(2):
        with pytest.raises(KeyError):
            await lookup.ask("missing")

    assert shelf.reads == 2


async def test_what_was_asked_last_is_kept() -> None:
    shelf = Shelf()
    lookup = Lookup(shelf.read, 2)
    for name in ("a", "b", "a", "c", "a", "b"):
        await lookup.ask(name)

    assert shelf.reads == 4  # a, b, c, and b once more


async def test_what_is_remembered_is_had_without_a_read() -> None:
    shelf = Shelf()
    lookup = Lookup(shelf.read, 8, version=lambda _: shelf.version)

    assert lookup.remembered("book") is None
    await lookup.ask("book")
    assert lookup.remembered("book") == "old book"
    assert shelf.reads == 1
    shelf.version = 1
    assert lookup.remembered("book") is None


async def test_what_is_asked_often_is_read_again_before_it_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("service.serving.lookup.time.monotonic", lambda: now)
    shelf = Shelf()
    lookup = Lookup(shelf.read, 8, max_age_s=1.0)
    await lookup.ask("book")
    shelf.value, now = "new", 100.6

    assert lookup.remembered("book") == "old book"
    await asyncio.gather(*lookup._renewing.values())
    now = 101.5
    assert lookup.remembered("book") == "new book"
    now = 102.0
    assert lookup.remembered("book") is None


async def test_what_is_gone_is_forgotten_when_it_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("service.serving.lookup.time.monotonic", lambda: now)
    there = True

    def read(name: str) -> str:
        if not there:
            raise KeyError(name)
        return name

    lookup = Lookup(read, 8, max_age_s=1.0)
    await lookup.ask("book")
    there, now = False, 100.6
    lookup.remembered("book")
    await asyncio.gather(*lookup._renewing.values())

    assert lookup.remembered("book") is None


async def test_what_was_read_lately_is_there_until_it_is_gone() -> None:
    shelf = Shelf()
    lookup = Lookup(shelf.read, 8, version=lambda _: shelf.version)
    assert lookup.lately("book") is None
    await lookup.ask("book")
    shelf.version += 1

    assert lookup.remembered("book") is None
    assert lookup.lately("book") == "old book"

    def gone(name: str) -> str:
        raise KeyError(name)

    lookup._read = gone
    with pytest.raises(KeyError):
        await lookup.ask("book")
    assert lookup.lately("book") is None


async def test_what_is_read_is_found_again_by_its_name() -> None:
    shelf = Shelf()
    lookup = Lookup(shelf.read, 8, name=str.lower)
    await lookup.ask("Book")

    assert lookup.remembered("BOOK") == "old Book"
    assert "Book" not in str(lookup._remembered.keys())


async def test_what_is_had_without_a_read_counts_as_asked() -> None:
    lookup = Lookup(Shelf().read, 2)
    await lookup.ask("book")
    await lookup.ask("map")
    lookup.remembered("book")
    await lookup.ask("globe")

    assert (lookup.remembered("book"), lookup.remembered("map")) == ("old book", None)


async def test_what_is_renewed_takes_the_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("service.serving.lookup.time.monotonic", lambda: now)
    lookup = Lookup(Shelf().read, 2, max_age_s=1.0)
    await lookup.ask("book")
    await lookup.ask("map")
    now = 100.6
    lookup.remembered("book")
    renewing = [*lookup._renewing.values()]
    for name in ("globe", "pen"):
        await lookup.ask(name)
    await asyncio.gather(*renewing)

    assert sum(lookup.remembered(name) is not None for name in ("book", "map", "globe", "pen")) == 2
