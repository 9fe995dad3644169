"""A lookup: what a slow read gave is remembered, so that most requests wait for no thread and no database."""

import asyncio
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

Key = ParamSpec("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Remembered(Generic[Value]):
    value: Value
    version: object
    read_at: float


class Lookup(Generic[Key, Value]):
    """Remembers what `read` returns, for the `most` arguments that were asked last.

    What was read is asked for once more if `version` gives another value for the arguments than before that read, or
    after `max_age_s` seconds. So a change is seen at once where it changes the version, and elsewhere after that time.
    All calls come from one event loop.
    """

    def __init__(
        self,
        read: Callable[Key, Value],
        most: int,
        *,
        version: Callable[Key, object] = lambda *_, **__: None,
        max_age_s: float = float("inf"),
        name: Callable[Key, Hashable] | None = None,
    ) -> None:
        """What is read is found by its arguments again, or by the `name` that they give."""
        self._read = read
        self._most = most
        self._version = version
        self._max_age_s = max_age_s
        self._name = name
        self._remembered: dict[Hashable, _Remembered[Value]] = {}
        self._renewing: dict[Hashable, asyncio.Task[None]] = {}

    async def ask(self, *args: Key.args, **kwargs: Key.kwargs) -> Value:
        """Return what the arguments give. Raises what `read` raises, which is not remembered."""
        key = self._key(*args, **kwargs)
        found = self._remembered.get(key)
        if found is None or not self._is_fresh(found, *args, **kwargs):
            try:
                found = await self._read_now(*args, **kwargs)
            except Exception:
                self._remembered.pop(key, None)
                raise
        self._keep(key, found)
        return found.value

    def remembered(self, *args: Key.args, **kwargs: Key.kwargs) -> Value | None:
        """Return what `ask` would return without a read; None if it would read.

        What will be too old soon is read again meanwhile, so that whoever asks often finds it here each time.
        """
        key = self._key(*args, **kwargs)
        found = self._remembered.get(key)
        if found is None or found.version != self._version(*args, **kwargs):
            return None
        age_s = time.monotonic() - found.read_at
        if age_s >= self._max_age_s:
            return None
        self._keep(key, found)
        if age_s > self._max_age_s / 2 and key not in self._renewing:
            self._renewing[key] = asyncio.create_task(self._renew(key, *args, **kwargs))
        return found.value

    def lately(self, *args: Key.args, **kwargs: Key.kwargs) -> Value | None:
        """Return what was last read, though it may be another by now; None if that is forgotten."""
        found = self._remembered.get(self._key(*args, **kwargs))
        return None if found is None else found.value

    async def _renew(self, key: Hashable, *args: Key.args, **kwargs: Key.kwargs) -> None:
        try:
            self._keep(key, await self._read_now(*args, **kwargs))
        except Exception:  # noqa: BLE001 - whoever asks next gets it
            self._remembered.pop(key, None)
        finally:
            del self._renewing[key]

    def _keep(self, key: Hashable, found: _Remembered[Value]) -> None:
        """Remember it as what was asked last, in place of what was asked longest ago."""
        self._remembered.pop(key, None)
        self._remembered[key] = found
        if len(self._remembered) > self._most:
            del self._remembered[next(iter(self._remembered))]

    async def _read_now(self, *args: Key.args, **kwargs: Key.kwargs) -> _Remembered[Value]:
        # Those of before the read: it may miss what comes later.
        version, read_at = self._version(*args, **kwargs), time.monotonic()
        return _Remembered(await asyncio.to_thread(self._read, *args, **kwargs), version, read_at)

    def _key(self, *args: Key.args, **kwargs: Key.kwargs) -> Hashable:
        return (args, tuple(kwargs.items())) if self._name is None else self._name(*args, **kwargs)

    def _is_fresh(self, found: _Remembered[Value], *args: Key.args, **kwargs: Key.kwargs) -> bool:
        return found.version == self._version(*args, **kwargs) and time.monotonic() - found.read_at < self._max_age_s
