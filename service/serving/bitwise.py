"""Bitwise: which requests may share a call so that each gets the bytes that it gets without the others, here.

The results of trials are files in a directory, one for each artifact, kind of machine and version of torch, so that the
next start takes them up.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from service.domain.bitwise import BitwiseRows, RowTrial
from service.serving.machine_files import FilesByThreads
from service.serving.pending_call import Joining
from service.serving.served_method import Accepted

# Makes the trials of an artifact.
MakeTrials = Callable[[], Awaitable[Sequence[RowTrial]]]
# Artifacts whose numbers of rows are at hand.
_REMEMBERED_MAX = 1000

_log = logging.getLogger(__name__)


class Sharing(NamedTuple):
    """How a call may be joined with others, and the numbers of rows that it may have, if these are given."""

    joining: Joining | None = None
    row_counts: Sequence[int] = ()


ALONE = Sharing()


class Bitwise:
    """The results of trials, and those that are being made. All but `find` belongs to the event loop."""

    def __init__(self, directory: Path, *, machine: Callable[[int], str], torch_version: str) -> None:
        self._files = FilesByThreads(directory, BitwiseRows, machine=machine, torch_version=torch_version)
        self._row_counts: dict[tuple[str, int], dict[Hashable, Sequence[int]]] = {}
        self._trying: dict[tuple[str, str, int], asyncio.Task[None]] = {}

    def find(self, digest: str, threads: int) -> BitwiseRows | None:
        """Return what is known of the artifact's rows on this kind of machine with so many threads.

        It may read a file, on any thread.
        """
        return self._files.of(threads).find(digest)

    def is_known(self, digest: str, threads: int) -> bool:
        """Whether `share` can be asked about the artifact."""
        return self._files.of(threads).remembered(digest) is not None

    async def find_out(self, tenant: str, digest: str, threads: int, make: MakeTrials) -> None:
        """Return when the artifact's rows are known: after its trials, if no file knows them. Raises what they raise.

        The trials of a tenant's artifact are made once, however many ask.
        """
        key = tenant, digest, threads
        if key not in self._trying:
            task = self._trying[key] = asyncio.create_task(self._find_out(digest, threads, make))
            task.add_done_callback(lambda task: self._end_trial(key, task))
        # Shielded: others wait for it too, also when the one that began it is cancelled.
        await asyncio.shield(self._trying[key])

    def share(self, digest: str, threads: int, method: str, accepted: Accepted) -> Sharing:
        """Return how a call of the artifact, which is known, may be answered."""
        joining = accepted.joining
        if joining is None:
            return ALONE
        counts = self._counts_of(digest, threads).get((method, _shape_of(accepted)), ())
        if not counts or joining.rows > counts[-1]:
            return ALONE
        most = counts[-1]
        return Sharing(Joining(("bitwise", joining.key), joining.rows, lambda rows: rows <= most), counts)

    async def _find_out(self, digest: str, threads: int, make: MakeTrials) -> None:
        files = self._files.of(threads)
        if await asyncio.to_thread(files.take_up, digest) is not None:
            return
        trials = [*await make()]
        found = BitwiseRows(
            digest=digest,
            machine=files.machine,
            torch=files.torch_version,
            found_at=datetime.now(UTC),
            trials=trials,
        )
        await asyncio.to_thread(files.keep, found)
        levels = [f"{one.method}: {one.level}" for one in trials]
        _log.info("rows tried", extra={"artifact": digest, "levels": levels})

    def _end_trial(self, key: tuple[str, str, int], task: "asyncio.Task[None]") -> None:
        del self._trying[key]
        if not task.cancelled() and (error := task.exception()) is not None:  # whoever waits gets it, if somebody does
            _log.info("rows could not be tried", extra={"artifact": key[1], "reason": str(error)})

    def _counts_of(self, digest: str, threads: int) -> dict[Hashable, Sequence[int]]:
        """Return the numbers of rows that calls may have, by method and shape."""
        known = self._row_counts.get((digest, threads))
        if known is None:
            found = self._files.of(threads).remembered(digest)
            trials = [] if found is None else found.trials
            known = self._row_counts[digest, threads] = {
                (one.method, tuple((spec.name, spec.datatype, spec.shape[1:]) for spec in one.inputs)): one.rows
                for one in trials
            }
            if len(self._row_counts) > _REMEMBERED_MAX:
                del self._row_counts[next(iter(self._row_counts))]
        return known


def _shape_of(accepted: Accepted) -> Hashable:
    return tuple((one.name, one.datatype, one.shape[1:]) for one in accepted.tensors)
