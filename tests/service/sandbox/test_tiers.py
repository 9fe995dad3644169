"""What a parent relies on holds in every tier that this machine offers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import service
import tracehouse
import workers
from service.sandbox.channel import ChannelClosed
from service.sandbox.tiers import Tier, readable
from service.sandbox.zygote import Zygote
from tests.conftest import parent_of

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def jailing(offered_tier: Tier) -> Iterator[Zygote]:
    with Zygote(["programs.echo", "programs.ends", "programs.spins"], tier=offered_tier, path=[HERE]) as zygote:
        yield zygote


@pytest.fixture
def mortal(offered_tier: Tier) -> Iterator[Zygote]:
    """One that a test may kill."""
    with Zygote(["programs.echo"], tier=offered_tier, path=[HERE]) as zygote:
        yield zygote


@pytest.mark.parametrize("profile", ["trace", "infer"])
def test_frames_go_both_ways(jailing, limits, until, profile):
    with jailing.fork("programs.echo", limits, profile=profile) as child:
        child.channel.send({"a": 1}, b"x" * 200_000)
        assert child.channel.receive(until) == ({"a": 1}, b"x" * 200_000)


def test_the_parent_knows_a_child_by_the_pid_that_it_has_outside(jailing, limits):
    with jailing.fork("programs.echo", limits) as child:
        ancestor = child.pid
        while ancestor not in (0, os.getpid()):
            ancestor = parent_of(ancestor)
        assert ancestor == os.getpid()


def test_how_a_child_ended_and_what_it_printed_is_told(jailing, limits, until):
    with jailing.fork("programs.echo", limits) as child:
        child.channel.send({"print": "hello"})
        child.channel.receive(until)
        os.kill(child.pid, signal.SIGABRT)
        assert child.wait(until).signal == signal.SIGABRT
        assert "hello" in child.log.text()


def test_a_child_that_is_let_go_of_is_gone(jailing, limits, gone):
    with jailing.fork("programs.echo", limits) as child:
        pass

    assert gone(child.pid)


def test_too_many_threads_end_it(jailing, limits, until):
    with jailing.fork("programs.spins", limits.model_copy(update={"threads": 20})) as child:
        child.channel.send({"threads": 100})
        assert child.wait(until).over == "threads"


def test_a_killed_zygote_takes_its_children_along_and_the_next_fork_has_another(mortal, limits, until, gone):
    with mortal.fork("programs.echo", limits) as child:
        os.kill(parent_of(child.pid), signal.SIGKILL)
        with pytest.raises(ChannelClosed):
            child.channel.receive(until)
        assert gone(child.pid)

    with mortal.fork("programs.echo", limits) as child:
        child.channel.send({"again": True})
        assert child.channel.receive(until)[0] == {"again": True}


def test_a_parent_that_is_killed_takes_everything_with_it(offered_tier, gone):
    parent = subprocess.Popen([sys.executable, HERE / "parent.py", offered_tier.value], stdout=subprocess.PIPE)
    pids = json.loads(parent.stdout.readline())
    parent.kill()
    parent.communicate()

    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


@pytest.mark.slow
def test_a_zygote_that_hangs_is_killed_with_its_children(mortal, limits, gone):
    child = mortal.fork("programs.echo", limits)
    zygote = parent_of(child.pid)
    os.kill(zygote, signal.SIGSTOP)
    mortal.close()

    assert gone(zygote)
    assert gone(child.pid)
    child.close()


def test_packages_can_be_read_and_a_project_beside_them_cannot():
    paths = readable(["workers.programs.runner"])

    assert any(path.endswith("site-packages") for path in paths)
    root = Path(__file__).parents[3]
    for package in (tracehouse, service, workers):
        [place] = package.__path__
        assert any(Path(place).is_relative_to(path) for path in paths), place
    assert not any(root.is_relative_to(path) for path in paths)
    assert str(Path(sys.executable).parent) not in paths


def test_every_tier_says_what_stands_and_what_it_does_not_cover():
    for tier in Tier:
        assert tier.description
        assert tier.not_covered
