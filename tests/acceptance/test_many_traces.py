"""Hundreds of traces in a row leave nothing behind: no process, no descriptor, no file, no growing memory."""

import os
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil
import pytest

from tests.acceptance.conftest import Service, StartService, ended, linear
from tracehouse.byte_units import MIB

# What the process that children are forked from leaves when it is replaced, tests/service/sandbox/test_zygote.py asks.
TRACES = 200
# By then every cache that fills up once is full: the allocator's, SQLAlchemy's, pydantic's.
WARMING = 60
# Python's and SQLite's caches still grow, by 3 KiB a trace where this was measured, and each further thread has a heap
# of its own; a leak of 60 KiB a trace shows.
GROWTH_MAX_BYTES = 8 * MIB
# What comes and goes with the load: a thread's connection to the database, a process that replaces another one. One
# process, descriptor or file that each trace left behind would be ten times as many.
COMES_AND_GOES = (TRACES - WARMING) // 10


class Left(NamedTuple):
    processes: int
    descriptors: int
    staged_files: int
    temporary_files: int
    resident_bytes: int


def left_by(service: Service, temporary: Path) -> Left:
    process = psutil.Process(service.process.pid)
    return Left(
        processes=len(process.children(recursive=True)),
        descriptors=process.num_fds(),
        staged_files=len(os.listdir(service.state / "blobs" / "tmp")),
        temporary_files=len(os.listdir(temporary)),
        resident_bytes=process.memory_info().rss,
    )


def trace(client: httpx.Client, times: int) -> None:
    # The check's layers run in children, which take with them what they have: without them, more traces a minute.
    submitted = linear(force=True, check={"probes": "off"})
    for _ in range(times):
        assert ended(client, client.post("/trace", json=submitted))["state"] == "succeeded"


@pytest.mark.slow
def test_hundreds_of_traces_leave_nothing_behind(start_service: StartService, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"  # of its own: in the machine's, others come and go
    temporary.mkdir()
    service = start_service(TMPDIR=str(temporary))
    with service.client() as client:
        trace(client, WARMING)
        before = left_by(service, temporary)
        trace(client, TRACES - WARMING)

    after = left_by(service, temporary)
    assert after.processes < before.processes + COMES_AND_GOES
    assert after.descriptors < before.descriptors + COMES_AND_GOES
    assert after.staged_files < before.staged_files + COMES_AND_GOES
    assert after.temporary_files < before.temporary_files + COMES_AND_GOES
    assert after.resident_bytes < before.resident_bytes + GROWTH_MAX_BYTES
