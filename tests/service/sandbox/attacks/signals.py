"""Signals to others, and other ways to stop, slow down or trace them."""

import ctypes
import fcntl
import os
import resource
import signal
import struct
from typing import Any

from attacks import calls, machine
from attacks.attack import attack
from attacks.judges import claimed, harmed, hurt, zygote_died
from attacks.memory import PTRACE_SEIZE

PTRACE_TRACEME = 0
SI_QUEUE = -1
F_SETSIG = 10


@attack(harmed)
def kills_the_service(world: Any) -> Any:
    os.kill(world.victim, signal.SIGKILL)


@attack(harmed)
def asks_the_service_to_end(world: Any) -> Any:
    os.kill(world.victim, signal.SIGTERM)


@attack(harmed)
def stops_the_service(world: Any) -> Any:
    os.kill(world.victim, signal.SIGSTOP)


@attack(harmed)
def kills_the_service_s_process_group(world: Any) -> Any:
    os.killpg(world.victim, signal.SIGKILL)


@attack(harmed)
def kills_a_thread_of_the_service(world: Any) -> Any:
    calls.call("tkill", world.victim, signal.SIGKILL)


@attack(harmed)
def kills_a_thread_of_the_service_by_its_group(world: Any) -> Any:
    calls.call("tgkill", world.victim, world.victim, signal.SIGKILL)


@attack(harmed)
def queues_a_signal_to_the_service(world: Any) -> Any:
    information = struct.pack("=iii4xii", signal.SIGUSR1, 0, SI_QUEUE, os.getpid(), os.getuid()).ljust(128, b"\0")
    calls.call("rt_sigqueueinfo", world.victim, signal.SIGUSR1, information)


@attack(harmed)
def queues_a_signal_to_a_thread_of_the_service(world: Any) -> Any:
    information = struct.pack("=iii4xii", signal.SIGUSR1, 0, SI_QUEUE, os.getpid(), os.getuid()).ljust(128, b"\0")
    calls.call("rt_tgsigqueueinfo", world.victim, world.victim, signal.SIGUSR1, information)


@attack(harmed, impossible_here=machine.system_call("pidfd_open"))
def kills_the_service_by_a_descriptor_of_it(world: Any) -> Any:
    calls.call("pidfd_send_signal", calls.call("pidfd_open", world.victim, 0), signal.SIGKILL, None, 0)


@attack(harmed)
def has_the_kernel_signal_the_service_when_a_pipe_fills(world: Any) -> Any:
    told, tell = os.pipe()
    fcntl.fcntl(told, fcntl.F_SETOWN, world.victim)
    fcntl.fcntl(told, F_SETSIG, signal.SIGUSR1)
    fcntl.fcntl(told, fcntl.F_SETFL, os.O_ASYNC)
    os.write(tell, b"x")


@attack(claimed)
def has_the_kernel_signal_the_service_when_its_channel_is_read(world: Any) -> Any:
    FIOSETOWN = 0x8901
    fcntl.ioctl(world.channel_descriptor, FIOSETOWN, struct.pack("=i", world.victim))
    return fcntl.fcntl(world.channel_descriptor, fcntl.F_GETOWN) == world.victim


@attack(claimed)
def may_signal_every_process(world: Any) -> Any:
    """With signal 0, which only asks whether it may: the others would end these tests."""
    os.kill(-1, 0)
    return True


@attack(claimed)
def learns_of_another_process_by_its_session(world: Any) -> Any:
    return os.getsid(world.victim) > 0


@attack(claimed)
def learns_of_another_process_by_its_group(world: Any) -> Any:
    return os.getpgid(world.victim) > 0


@attack(claimed)
def learns_of_another_process_by_its_priority(world: Any) -> Any:
    os.getpriority(os.PRIO_PROCESS, world.victim)
    return True


@attack(claimed)
def learns_of_another_process_by_its_scheduling(world: Any) -> Any:
    return os.sched_getscheduler(world.victim) >= 0


@attack(claimed)
def learns_of_another_process_by_its_processors(world: Any) -> Any:
    return len(os.sched_getaffinity(world.victim)) > 0


@attack(zygote_died)
def kills_the_zygote(world: Any) -> Any:
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()


@attack(hurt, wall_s=2)
def stops_the_zygote(world: Any) -> Any:
    os.kill(os.getppid(), signal.SIGSTOP)


@attack(claimed, sibling=True)
def kills_a_sibling(world: Any) -> Any:
    os.kill(world.sibling, signal.SIGKILL)
    return True


@attack(claimed)
def looks_whether_the_zygote_may_be_signalled(world: Any) -> Any:
    os.kill(os.getppid(), 0)
    return True


@attack(harmed, impossible_here=machine.system_call("ptrace"))
def traces_the_service(world: Any) -> Any:
    calls.call("ptrace", PTRACE_SEIZE, world.victim, 0, 0)
    calls.call("ptrace", 0x4207, world.victim, 0, 0)  # PTRACE_INTERRUPT
    os.waitpid(world.victim, 0x40000000)
    offset = struct.pack("=8s", b"was here")
    calls.call("ptrace", 5, world.victim, world.address, ctypes.c_long.from_buffer_copy(offset))  # PTRACE_POKEDATA


@attack(claimed, impossible_here=machine.system_call("ptrace"))
def makes_the_zygote_its_tracer(world: Any) -> Any:
    return calls.call("ptrace", PTRACE_TRACEME, 0, 0, 0) == 0


@attack(harmed)
def slows_the_service_down(world: Any) -> Any:
    os.setpriority(os.PRIO_PROCESS, world.victim, 19)


@attack(harmed)
def takes_the_service_s_scheduling(world: Any) -> Any:
    os.sched_setscheduler(world.victim, os.SCHED_BATCH, os.sched_param(0))


@attack(harmed, impossible_here=machine.processors)
def takes_processors_from_the_service(world: Any) -> Any:
    os.sched_setaffinity(world.victim, {min(os.sched_getaffinity(0))})


@attack(harmed)
def limits_the_service(world: Any) -> Any:
    _, hard = resource.prlimit(world.victim, resource.RLIMIT_CPU)
    resource.prlimit(world.victim, resource.RLIMIT_CPU, (1000, hard))


@attack(harmed)
def makes_the_service_the_first_to_run_out_of_memory(world: Any) -> Any:
    with open(f"/proc/{world.victim}/oom_score_adj", "w") as file:
        file.write("1000")


@attack(claimed, impossible_here=machine.system_call("ioprio_set"))
def takes_the_service_s_disk_time(world: Any) -> Any:
    return calls.call("ioprio_set", 1, world.victim, 3 << 13) == 0
