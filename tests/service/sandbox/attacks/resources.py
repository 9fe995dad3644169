"""Bombs: memory, disk, processor time, threads, descriptors, and what outlives a process in the kernel.

Each goes some way over the limit that the tests set, and no further: without a jail it is to be harmless.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
import resource
import signal
import threading
import time
from pathlib import Path
from typing import Any

from attacks import calls, machine
from attacks.attack import attack
from attacks.judges import claimed, filled, kept_by_system_v, queued, used_cpu, used_memory

MIB = 2**20
LIMIT_MIB = 512  # of address space: what the tests give a child
OVER_MIB = 700
DISK_MIB = 16  # the limit on one file is 1
PR_SET_DUMPABLE = 4
IPC_CREAT, IPC_EXCL = 0o1000, 0o2000


@attack(used_memory(LIMIT_MIB))
def fills_memory_with_objects(world: Any) -> Any:
    held = [b"x" * MIB + bytes([number % 256]) for number in range(OVER_MIB)]
    return len(held)


@attack(used_memory(LIMIT_MIB))
def fills_memory_by_mapping_it(world: Any) -> Any:
    held = []
    for _ in range(OVER_MIB // 50):
        held.append(mmap.mmap(-1, 50 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        for page in range(0, 50 * MIB, 4096):
            held[-1][page] = 1
    return len(held)


@attack(used_memory(LIMIT_MIB))
def fills_memory_that_it_shares(world: Any) -> Any:
    held = []
    for _ in range(OVER_MIB // 50):
        held.append(mmap.mmap(-1, 50 * MIB))
        for page in range(0, 50 * MIB, 4096):
            held[-1][page] = 1
    return len(held)


@attack(claimed)
def frees_memory_that_it_shares(world: Any) -> Any:
    """Another process that reads there would need memory for it, and be ended where there is none."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page[0] = 1
    page.madvise(mmap.MADV_REMOVE)
    return page[0] == 0


@attack(claimed, impossible_here=machine.system_call("memfd_create"))
def fills_memory_with_files_that_are_not_mapped(world: Any) -> Any:
    """No limit on addresses counts these."""
    written = 0
    for number in range(8):
        file = calls.call("memfd_create", f"{number}", 0)
        written += os.write(file, bytes(MIB))
    return written == 8 * MIB


@attack(kept_by_system_v("shmget", "shmctl"), impossible_here=machine.system_call("shmget"))
def leaves_shared_memory_behind(world: Any) -> Any:
    return calls.call("shmget", world.key, MIB, IPC_CREAT | IPC_EXCL | 0o666)


@attack(kept_by_system_v("semget", "semctl"), impossible_here=machine.system_call("semget"))
def leaves_semaphores_behind(world: Any) -> Any:
    return calls.call("semget", world.key, 10, IPC_CREAT | IPC_EXCL | 0o666)


@attack(kept_by_system_v("msgget", "msgctl"), impossible_here=machine.system_call("msgget"))
def leaves_a_message_queue_behind(world: Any) -> Any:
    return calls.call("msgget", world.key, IPC_CREAT | IPC_EXCL | 0o666)


@attack(queued, impossible_here=machine.system_call("mq_open"))
def leaves_a_named_message_queue_behind(world: Any) -> Any:
    return calls.call("mq_open", world.word, os.O_CREAT | os.O_RDWR, 0o666, None)


@attack(claimed)
def locks_its_memory(world: Any) -> Any:
    page = mmap.mmap(-1, mmap.PAGESIZE)
    return calls.libc("mlock", ctypes.addressof(ctypes.c_char.from_buffer(page)), mmap.PAGESIZE) == 0


@attack(filled(DISK_MIB // 2))
def fills_the_disk_with_one_file(world: Any) -> Any:
    with open(Path(world.directory, "bomb"), "wb", buffering=0) as file:
        file.writelines(os.urandom(MIB) for _ in range(DISK_MIB))
        os.fsync(file.fileno())


@attack(filled(DISK_MIB // 2))
def fills_the_disk_with_many_files(world: Any) -> Any:
    for number in range(2 * DISK_MIB):
        Path(world.directory, f"bomb-{number}").write_bytes(os.urandom(MIB // 2))
    os.sync()


@attack(filled(DISK_MIB // 2))
def reserves_the_disk(world: Any) -> Any:
    file = os.open(Path(world.directory, "bomb"), os.O_CREAT | os.O_WRONLY)
    os.posix_fallocate(file, 0, DISK_MIB * MIB)


@attack(used_cpu(1.5), limits={"cpu_s": 1})
def uses_the_processor_without_end(world: Any) -> Any:
    spin(2)


@attack(used_cpu(2.5), profiles=("trace",), limits={"cpu_s": 1})
def uses_the_processor_and_hears_no_warning(world: Any) -> Any:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    spin(3)


def spin(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@attack(claimed, profiles=("trace",))
def runs_two_thousand_threads(world: Any) -> Any:
    threading.stack_size(64 * 1024)
    release = threading.Event()
    started = 0
    try:
        for _ in range(2000):
            threading.Thread(target=release.wait, daemon=True).start()
            started += 1
    except RuntimeError:
        pass
    # Longer than it takes the zygote to notice on a busy machine.
    time.sleep(3)
    return started > 1000


@attack(claimed)
def opens_a_thousand_descriptors(world: Any) -> Any:
    opened = [os.dup(0) for _ in range(1000)]
    return len(opened) == 1000


@attack(claimed)
def opens_a_descriptor_of_a_high_number(world: Any) -> Any:
    return os.dup2(0, 500) == 500


@attack(claimed, impossible_here=machine.capability("SYS_RESOURCE"))
def raises_its_own_limits(world: Any) -> Any:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard + 1))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] > hard


@attack(claimed, impossible_here=machine.capability("SYS_NICE"))
def goes_before_all_others(world: Any) -> Any:
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    return os.getpriority(os.PRIO_PROCESS, 0) == -20


@attack(claimed, impossible_here=machine.capability("SYS_NICE"))
def goes_before_all_others_in_real_time(world: Any) -> Any:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    return os.sched_getscheduler(0) == os.SCHED_FIFO


@attack(claimed)
def makes_itself_the_last_to_run_out_of_memory(world: Any) -> Any:
    with contextlib.suppress(OSError):  # or the file is root's
        calls.libc("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)
    Path("/proc/self/oom_score_adj").write_text("0")
    return Path("/proc/self/oom_score_adj").read_text() == "0\n"


@attack(claimed)
def makes_large_pipes(world: Any) -> Any:
    told, _ = os.pipe()
    return fcntl.fcntl(told, 1031, MIB) >= MIB


@attack(claimed, impossible_here=machine.system_call("io_setup"))
def queues_for_the_disk_in_the_kernel(world: Any) -> Any:
    context = ctypes.c_ulong(0)
    calls.call("io_setup", 1000, ctypes.byref(context))
    return context.value != 0
