"""What commands import is left alone by the garbage collector, which goes on for all else."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from service.cli.quick_imports import import_quickly


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_the_collector_pauses_for_the_imports_and_goes_on() -> None:
    gc.enable()
    with import_quickly():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_one_that_was_off_stays_off() -> None:
    gc.disable()
    with import_quickly():
        pass

    assert not gc.isenabled()


def test_what_the_command_imports_is_never_looked_through() -> None:
    asked = "import gc, service.cli; print(gc.isenabled(), gc.get_freeze_count(), gc.get_stats()[2]['collections'])"
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)

    is_enabled, frozen, collections = ran.stdout.split()
    assert (is_enabled, collections) == ("True", "0")
    assert int(frozen) > 10_000
