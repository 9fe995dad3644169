"""Each limit by its effect on a child that goes over it, and what a child sees of the world."""

import os
import signal
from pathlib import Path

import pytest

from service.sandbox.channel import Header
from service.sandbox.jail import BARE_ENVIRONMENT
from service.sandbox.limits import Limits
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote

pytestmark = pytest.mark.slow


@pytest.fixture
def seen(zygote, until) -> Header:
    limits = Limits(address_space_mib=512, cpu_s=9, file_size_mib=3, open_files=20)
    with zygote.fork("programs.looks", limits) as child:
        seen, _ = child.channel.receive(until)
        return seen


def test_the_environment_is_bare(seen):
    assert seen["environment"] == BARE_ENVIRONMENT
    assert seen["arguments"] == ["programs.looks"]
    assert seen["directory"] == "/"
    assert seen["stdin"] == ""


def test_what_the_operator_says_of_the_gpus_is_kept(until, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("SECRET", "nobody's business")
    with Zygote(["programs.looks"], tier=Tier.NONE, path=[Path(__file__).parent]) as zygote:
        limits = Limits(address_space_mib=512, cpu_s=9)
        with zygote.fork("programs.looks", limits) as child:
            seen, _ = child.channel.receive(until)

    assert seen["environment"] == BARE_ENVIRONMENT | {"CUDA_VISIBLE_DEVICES": "1"}


def test_there_is_no_limit_on_the_addresses_of_a_child_that_computes_on_cuda():
    limits = Limits(address_space_mib=512, cpu_s=9)

    assert (limits.on("cpu"), limits.on("cuda").address_space_mib) == (limits, None)
    assert limits.on("cuda").cpu_s == 9


def test_only_its_own_descriptors_are_open(seen):
    targets = [target.partition(":")[0] for target in seen["descriptors"].values() if target != "gone"]
    assert sorted(targets) == ["/dev/null", "pipe", "pipe", "socket"]


def test_it_leads_a_group_and_dies_with_the_zygote(seen):
    assert seen["leads_group"]
    assert seen["dies_with_zygote"]
    assert seen["dumpable"] == 0
    assert seen["threads"] == 1
    assert seen["umask"] == 0o077
    assert seen["killed_first"] == 900


def test_the_kernel_holds_it_to_its_limits(seen):
    mib = 1024 * 1024
    assert seen["address_space"] == 512 * mib
    assert seen["cpu"] == [9, 10]
    assert seen["file_size"] == 3 * mib
    assert seen["open_files"] == 20
    assert seen["core"] == 0


def test_none_is_no_limit(zygote, until):
    with zygote.fork("programs.looks", Limits(address_space_mib=None, cpu_s=None, file_size_mib=None)) as child:
        seen, _ = child.channel.receive(until)

    assert seen["address_space"] == seen["file_size"] == -1
    assert seen["cpu"] == [-1, -1]


def test_memory_over_the_limit_is_a_memory_error(zygote, limits, until):
    limits = limits.model_copy(update={"address_space_mib": 512})
    with zygote.fork("programs.devours", limits) as child:
        child.channel.send({"what": "memory", "mib": 600})
        answer, _ = child.channel.receive(until)

    assert 100 < answer["held"] < limits.address_space_mib


def test_cpu_over_the_limit_ends_it(zygote, limits, until):
    with zygote.fork("programs.devours", limits.model_copy(update={"cpu_s": 1})) as child:
        child.channel.send({"what": "cpu"})
        ended = child.wait(until)

    assert ended.signal == signal.SIGXCPU
    assert ended.cpu_s > 0.5  # the kernel counts in ticks, and so may end it a little early
    assert "devours.py" in child.log.text()


def test_a_file_over_the_limit_is_an_error(zygote, limits, until, tmp_path):
    with zygote.fork("programs.devours", limits) as child:
        child.channel.send({"what": "file", "path": str(tmp_path / "file")})
        child.wait(until)

    assert "File too large" in child.log.text()
    assert os.path.getsize(tmp_path / "file") == limits.file_size_mib * 1024 * 1024


def test_descriptors_over_the_limit_are_an_error(zygote, limits, until):
    with zygote.fork("programs.devours", limits) as child:
        child.channel.send({"what": "descriptors"})
        ended = child.wait(until)

    assert ended.code == 1
    assert "Too many open files" in child.log.text()


def test_threads_over_the_limit_end_it_and_the_parent_hears_why(zygote, limits, until):
    with zygote.fork("programs.spins", limits.model_copy(update={"threads": 20})) as child:
        child.channel.send({"threads": 100})
        ended = child.wait(until)

    assert (ended.signal, ended.over) == (signal.SIGKILL, "threads")


def test_threads_within_the_limit_are_let_be(zygote, limits, until):
    with zygote.fork("programs.spins", limits.model_copy(update={"threads": 20})) as child:
        child.channel.send({"threads": 10})
        assert child.channel.receive(until)[0] == {"started": 10}
        child.kill()
        assert child.wait(until).over is None
