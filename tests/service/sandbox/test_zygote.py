"""A zygote: it starts or says why not, outlives its children, and neither outlives the service."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from service.domain.errors import SandboxUnavailable
from service.sandbox.channel import ChannelClosed
from service.sandbox.limits import Limits
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote, ZygoteFailed
from tests.conftest import parent_of, wait_until

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


def zygote_pid(zygote: Zygote, limits, until) -> int:
    with zygote.fork("programs.looks", limits) as child:
        seen, _ = child.channel.receive(until)
        return seen["zygote"]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_module_that_cannot_be_imported_is_named():
    with pytest.raises(ZygoteFailed, match="No module named 'no_such_module'"):
        Zygote(["no_such_module"], tier=Tier.NONE).start()


def test_a_zygote_that_cannot_start_leaves_the_sandbox_unavailable(limits):
    with pytest.raises(SandboxUnavailable):
        Zygote(["no_such_module"], tier=Tier.NONE).fork("no_such_module", limits)


def test_a_zygote_that_takes_too_long_fails(tmp_path):
    (tmp_path / "forever.py").write_text("import signal; signal.pause()")
    with pytest.raises(ZygoteFailed, match=r"within 0\.1 s"):
        Zygote(["forever"], path=[tmp_path], start_timeout_s=0.1, tier=Tier.NONE).start()


def test_a_zygote_that_dies_at_its_start_is_said_to_have_died(tmp_path):
    (tmp_path / "dies.py").write_text("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(ZygoteFailed, match="died while it started"):
        Zygote(["dies"], path=[tmp_path], tier=Tier.NONE).start()


def test_the_operators_preload_is_there_in_every_child(tmp_path, limits, until):
    preload = tmp_path / "preload.py"
    preload.write_text("import sys, types; sys.modules['timm'] = types.ModuleType('timm')")
    (tmp_path / "asks.py").write_text(
        "def main(channel, files):\n    import timm\n    channel.send({'name': timm.__name__})"
    )
    with Zygote(["asks"], preload, path=[tmp_path], tier=Tier.NONE) as zygote, zygote.fork("asks", limits) as child:
        assert child.channel.receive(until) == ({"name": "timm"}, b"")
        assert zygote.warnings == []


@pytest.mark.parametrize("visible", [None, "1"])
def test_gpus_are_hidden_from_imports_and_shown_to_children(tmp_path, limits, until, monkeypatch, visible):
    """Whoever asks CUDA for a GPU before the fork leaves a thread behind, and its children without a GPU."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    (tmp_path / "looks.py").write_text(
        "import os\nseen = [os.environ.get('CUDA_VISIBLE_DEVICES')]\n"
        "def main(channel, files):\n    channel.send({'seen': [*seen, os.environ.get('CUDA_VISIBLE_DEVICES')]})"
    )
    with Zygote(["looks"], path=[tmp_path], tier=Tier.NONE) as zygote, zygote.fork("looks", limits) as child:
        assert child.channel.receive(until) == ({"seen": ["", visible]}, b"")


@pytest.mark.parametrize("failing", ["import no_such_module", "raise SystemExit('no')", "1 +"])
def test_a_preload_that_fails_is_a_warning(tmp_path, limits, until, failing):
    preload = tmp_path / "preload.py"
    preload.write_text(failing)
    with Zygote(["programs.echo"], preload, path=[HERE], tier=Tier.NONE) as zygote:
        assert [str(preload) in warning for warning in zygote.warnings] == [True]
        with zygote.fork("programs.echo", limits) as child:
            child.channel.send({"fine": True})
            assert child.channel.receive(until) == ({"fine": True}, b"")


def test_a_preload_that_leaves_a_thread_running_is_refused(tmp_path):
    preload = tmp_path / "preload.py"
    preload.write_text("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()")
    with pytest.raises(ZygoteFailed, match="2 threads"):
        Zygote(["programs.echo"], preload, path=[HERE], tier=Tier.NONE).start()


@pytest.mark.parametrize("files", [50, 200])
def test_a_child_has_all_of_many_files(zygote, limits, until, files):
    with open(HERE / "parent.py") as file, zygote.fork("programs.looks", limits, [file.fileno()] * files) as child:
        seen, _ = child.channel.receive(until)

    assert len(seen["files"]) == files


def test_more_files_than_can_be_handed_over_are_refused_and_harm_nothing(zygote, limits, until):
    pid = zygote_pid(zygote, limits, until)
    with open(HERE / "parent.py") as file, pytest.raises(SandboxUnavailable):
        zygote.fork("programs.looks", limits, [file.fileno()] * 300)

    assert zygote_pid(zygote, limits, until) == pid


def test_a_zygote_without_descriptors_for_a_childs_files_says_so(new_zygote, limits, until):
    pid = zygote_pid(new_zygote, limits, until)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (40, 40))
    with open(HERE / "parent.py") as file, pytest.raises(SandboxUnavailable, match="too many descriptors"):
        new_zygote.fork("programs.looks", limits, [file.fileno()] * 50)

    assert zygote_pid(new_zygote, limits, until) == pid


def test_only_the_programs_that_were_named_run(zygote, limits):
    with pytest.raises(SandboxUnavailable, match="antigravity"):
        zygote.fork("antigravity", limits)


def test_many_threads_fork_at_once(zygote, limits, until):
    answers = []

    def echo(n: int) -> None:
        with zygote.fork("programs.echo", limits) as child:
            child.channel.send({"n": n})
            answers.append(child.channel.receive(until)[0]["n"])

    threads = [threading.Thread(target=echo, args=[n]) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answers) == list(range(16))


def test_forks_leave_no_descriptor_and_no_zombie(new_zygote, limits, until):
    pid = zygote_pid(new_zygote, limits, until)
    # Its descriptors cannot be looked at, not even by its own user: too few of them would end the forks.
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (40, 40))
    ours = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        with new_zygote.fork("programs.ends", limits) as child:
            child.channel.send({"how": "return"})
            child.wait(until)

    assert len(os.listdir("/proc/self/fd")) == ours
    wait_until(lambda: children(pid) == [])


def test_a_signal_to_the_whole_service_leaves_children_to_their_parent(new_zygote, limits, until):
    with new_zygote.fork("programs.echo", limits) as child:
        for stop in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(child.pid, stop)
            os.kill(zygote_pid(new_zygote, limits, until), stop)

        child.channel.send({"still": "there"})
        assert child.channel.receive(until) == ({"still": "there"}, b"")


def test_when_the_zygote_dies_its_children_die_and_the_next_fork_starts_another(new_zygote, limits, until, gone):
    first = zygote_pid(new_zygote, limits, until)
    with new_zygote.fork("programs.echo", limits) as child:
        os.kill(first, signal.SIGKILL)

        with pytest.raises(ChannelClosed):
            child.channel.receive(until)
        assert child.wait(until).with_zygote
        assert gone(child.pid)

    assert zygote_pid(new_zygote, limits, until) != first


def test_many_threads_find_the_zygote_dead_and_all_are_served_by_one_other(new_zygote, limits, until):
    first = zygote_pid(new_zygote, limits, until)
    os.kill(first, signal.SIGKILL)
    pids = []
    threads = [threading.Thread(target=lambda: pids.append(zygote_pid(new_zygote, limits, until))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(pids) == 8
    assert len(set(pids) - {first}) == 1


def test_a_zygote_that_hangs_is_replaced_although_nobody_forks(limits, until, gone):
    with Zygote(["programs.looks", "programs.echo"], tier=Tier.NONE, path=[HERE], answer_timeout_s=5) as zygote:
        first = zygote_pid(zygote, limits, until)
        with zygote.fork("programs.echo", limits) as child:
            os.kill(first, signal.SIGSTOP)

            wait_until(lambda: zygote.health.fault is not None)
            assert gone(first)
            assert gone(child.pid)
            assert child.wait(until).with_zygote
        wait_until(lambda: zygote.health.fault is None)
        assert zygote.health.restarts >= 1
        assert zygote_pid(zygote, limits, until) != first


def test_a_zygote_that_dies_is_replaced_although_nobody_forks(new_zygote, limits, until):
    first = zygote_pid(new_zygote, limits, until)
    os.kill(first, signal.SIGKILL)

    wait_until(lambda: new_zygote.health.restarts == 1 and new_zygote.health.fault is None)
    assert zygote_pid(new_zygote, limits, until) != first


def test_forks_that_wait_for_a_zygote_that_hangs_are_served_by_one_other(new_zygote, limits, until):
    first = zygote_pid(new_zygote, limits, until)
    os.kill(first, signal.SIGSTOP)
    pids = []
    threads = [threading.Thread(target=lambda: pids.append(zygote_pid(new_zygote, limits, until))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(pids) == 8
    assert len(set(pids) - {first}) == 1


def test_an_old_zygote_that_hangs_is_killed_with_its_last_children(limits, until, gone):
    with (
        Zygote(["programs.echo"], tier=Tier.NONE, path=[HERE], forks_max=3, answer_timeout_s=5) as zygote,
        zygote.fork("programs.echo", limits) as child,
    ):
        old = parent_of(child.pid)
        wait_until(lambda: parent_of_next(zygote, limits) != old)
        os.kill(old, signal.SIGSTOP)

        assert gone(old)
        assert child.wait(until).with_zygote


def test_an_old_zygote_is_replaced_while_its_children_live_on(limits, until, gone):
    with Zygote(["programs.echo"], tier=Tier.NONE, path=[HERE], forks_max=3) as zygote:
        with zygote.fork("programs.echo", limits) as child:
            old = parent_of(child.pid)
            wait_until(lambda: parent_of_next(zygote, limits) != old)

            child.channel.send({"still": "there"})
            assert child.channel.receive(until) == ({"still": "there"}, b"")
        assert gone(old)


def test_however_often_it_is_replaced_one_zygote_is_left(limits, until):
    with Zygote(["programs.echo"], tier=Tier.NONE, path=[HERE], forks_max=2) as zygote:
        seen = set()

        def replaced_four_times() -> bool:
            seen.add(parent_of_next(zygote, limits))
            return len(seen) == 5

        wait_until(replaced_four_times)
        wait_until(lambda: len(living(seen)) <= 2)
        assert living(seen)


def test_closing_ends_the_zygote_and_every_child(limits, until, gone):
    zygote = Zygote(["programs.looks", "programs.multiplies"], path=[HERE], tier=Tier.NONE)
    pid = zygote_pid(zygote, limits, until)
    child = zygote.fork("programs.multiplies", limits)
    left, _ = child.channel.receive(until)
    zygote.close()

    assert all(gone(pid) for pid in [pid, child.pid, *left.values()])
    child.close()
    with pytest.raises(SandboxUnavailable):
        zygote.fork("programs.looks", limits)


def test_a_parent_that_is_killed_takes_everything_with_it(gone):
    parent = subprocess.Popen([sys.executable, HERE / "parent.py", Tier.NONE.value], stdout=subprocess.PIPE)
    pids = json.loads(parent.stdout.readline())
    parent.kill()
    parent.communicate()

    assert len(pids) == 7
    assert all(gone(pid) for pid in pids)


def living(pids: set[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def parent_of_next(zygote: Zygote, limits: Limits) -> int:
    with zygote.fork("programs.echo", limits) as child:
        return parent_of(child.pid)
