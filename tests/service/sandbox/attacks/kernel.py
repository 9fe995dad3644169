"""Calls that no model needs, each a way into the kernel or a change to the whole machine.

What would change the machine is asked to change it to what it is.
"""

import ctypes
import errno
import mmap
import os
import signal
import socket
import struct
import time
from typing import Any

from attacks import calls, machine
from attacks.attack import attack
from attacks.judges import claimed, leaked, mounted, swapped

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
AT_FDCWD = -100

ADMIN = machine.capability("SYS_ADMIN")


@attack(claimed)
def reaches_the_kernel_by_a_call_that_no_model_needs(world: Any) -> Any:
    """All of them, so that none hides behind one that it would take first. The arguments mean nothing.

    An error that tells so is the kernel's own.
    """
    forking = {"fork", "vfork"}  # to which arguments mean nothing in any case
    return any(answered(name) for name in calls.NUMBERS if calls.exists(name) and name not in forking)


def answered(name: str) -> bool:
    try:
        calls.call(name, *[-1] * 6)
    except OSError as error:
        return error.errno not in (errno.EPERM, errno.ENOSYS)
    return True


@attack(claimed, impossible_here=machine.system_call("io_uring_setup"))
def makes_an_io_uring(world: Any) -> Any:
    return calls.call("io_uring_setup", 1, ctypes.create_string_buffer(120)) > 2


@attack(leaked, impossible_here=machine.system_call("io_uring_setup"))
def reads_a_file_by_io_uring(world: Any) -> Any:
    """No open() that a filter could look at: the kernel does it on the process's behalf."""
    IORING_OP_OPENAT, IORING_ENTER_GETEVENTS = 18, 1
    parameters = ctypes.create_string_buffer(120)
    ring = calls.call("io_uring_setup", 1, parameters)
    fields = struct.unpack_from("=30I", parameters.raw)
    submissions, completions = fields[10:20], fields[20:30]
    size = max(submissions[6] + 4 * fields[0], completions[5] + 16 * fields[1])
    shared = mmap.mmap(ring, size)
    entries = mmap.mmap(ring, 64 * fields[0], offset=0x10000000)
    path = ctypes.create_string_buffer(world.secret.encode())
    entries[:40] = struct.pack(
        "=BBHiQQIIQ", IORING_OP_OPENAT, 0, 0, AT_FDCWD, 0, ctypes.addressof(path), 0, os.O_RDONLY, 1
    )
    struct.pack_into("=I", shared, submissions[6], 0)
    struct.pack_into("=I", shared, submissions[1], 1)
    calls.call("io_uring_enter", ring, 1, 1, IORING_ENTER_GETEVENTS, None, 0)
    _, result = struct.unpack_from("=Qi", shared, completions[5])
    return os.read(result, 100)


@attack(claimed, impossible_here=machine.system_call("add_key"))
def leaves_a_key_with_the_kernel(world: Any) -> Any:
    return calls.call("add_key", "user", f"tracehouse-{world.word}", b"was here", 8, -3) > 0


@attack(claimed, impossible_here=machine.system_call("keyctl"))
def asks_for_the_kernel_s_keyring(world: Any) -> Any:
    return calls.call("keyctl", 0, -3, 1) > 0


@attack(claimed, impossible_here=machine.system_call("keyctl"))
def joins_another_keyring(world: Any) -> Any:
    return calls.call("keyctl", 1, None) > 0


@attack(mounted, impossible_here=ADMIN)
def mounts_a_file_system(world: Any) -> Any:
    calls.call("mount", "none", world.nested, "tmpfs", 0, "size=4096")


@attack(mounted, impossible_here=ADMIN)
def mounts_a_directory_over_another(world: Any) -> Any:
    calls.call("mount", world.directory, world.nested, None, 0x1000, None)


@attack(claimed, impossible_here=machine.needs(ADMIN, machine.system_call("fsopen")))
def opens_a_file_system(world: Any) -> Any:
    return calls.call("fsopen", "tmpfs", 0) > 2


@attack(claimed, impossible_here=machine.needs(ADMIN, machine.system_call("open_tree")))
def clones_a_tree_of_mounts(world: Any) -> Any:
    return calls.call("open_tree", AT_FDCWD, world.directory, 1) > 2


@attack(claimed, impossible_here=machine.user_namespaces)
def makes_a_user_namespace_and_is_its_root(world: Any) -> Any:
    before = os.readlink("/proc/self/ns/user") if os.access("/proc/self/ns/user", os.F_OK) else ""
    calls.call("unshare", CLONE_NEWUSER)
    return not before or os.readlink("/proc/self/ns/user") != before


@attack(claimed, impossible_here=machine.user_namespaces)
def clones_itself_into_new_namespaces(world: Any) -> Any:
    pid = calls.call("clone", CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return pid > 0


@attack(claimed, impossible_here=ADMIN)
def makes_a_mount_namespace(world: Any) -> Any:
    return calls.call("unshare", CLONE_NEWNS) == 0


@attack(claimed, impossible_here=ADMIN)
def makes_a_network_namespace(world: Any) -> Any:
    return calls.call("unshare", CLONE_NEWNET) == 0


@attack(claimed, impossible_here=machine.needs(ADMIN, machine.system_call("setns")))
def joins_the_service_s_namespaces(world: Any) -> Any:
    return calls.call("setns", calls.call("pidfd_open", world.victim, 0), CLONE_NEWNS | CLONE_NEWNET) == 0


@attack(claimed, impossible_here=machine.needs(ADMIN, machine.system_call("setns")))
def joins_the_service_s_network_by_its_file(world: Any) -> Any:
    return calls.call("setns", os.open(f"/proc/{world.victim}/ns/net", os.O_RDONLY), 0) == 0


@attack(claimed, impossible_here=ADMIN)
def swaps_its_root_for_another(world: Any) -> Any:
    """In a mount namespace of its own, so that nobody else's root is swapped."""
    calls.call("unshare", CLONE_NEWNS)
    calls.call("mount", "none", "/", None, MS_REC | MS_PRIVATE, None)
    calls.call("mount", "none", world.nested, "tmpfs", 0, "")
    old = os.path.join(world.nested, "old")
    os.mkdir(old)
    calls.call("pivot_root", world.nested, old)
    return os.listdir("/") == ["old"]


@attack(claimed, impossible_here=machine.capability("SYS_CHROOT"))
def changes_its_root(world: Any) -> Any:
    calls.call("chroot", world.directory)
    return "secret.txt" in os.listdir("/")


@attack(claimed, impossible_here=machine.needs(machine.system_call("userfaultfd"), machine.user_faults))
def handles_its_own_page_faults(world: Any) -> Any:
    return calls.call("userfaultfd", 1) > 2


@attack(claimed, impossible_here=machine.needs(machine.system_call("bpf"), machine.bpf))
def loads_a_program_into_the_kernel(world: Any) -> Any:
    # Returns 0 and no more.
    program = ctypes.create_string_buffer(bytes.fromhex("b700000000000000 9500000000000000"))
    license_text = ctypes.create_string_buffer(b"GPL")
    head = struct.pack("=IIQQIIQ", 1, 2, ctypes.addressof(program), ctypes.addressof(license_text), 0, 0, 0)
    return calls.call("bpf", 5, head.ljust(128, b"\0"), 128) > 2


@attack(claimed, impossible_here=machine.needs(machine.system_call("bpf"), machine.bpf))
def makes_a_map_in_the_kernel(world: Any) -> Any:
    return calls.call("bpf", 0, struct.pack("=4I", 2, 4, 4, 1).ljust(128, b"\0"), 128) > 2


@attack(claimed, impossible_here=machine.needs(machine.system_call("perf_event_open"), machine.perf))
def counts_events_of_the_processor(world: Any) -> Any:
    # A software event of its own, without the kernel's: what anybody may at the usual setting.
    attributes = struct.pack("=IIQQQQQ", 1, 64, 1, 0, 0, 0, 0b100000).ljust(112, b"\0")
    return calls.call("perf_event_open", attributes, 0, -1, -1, 0) > 2


@attack(claimed, impossible_here=machine.needs(machine.system_call("perf_event_open"), machine.capability("SYS_ADMIN")))
def counts_events_of_the_service(world: Any) -> Any:
    attributes = struct.pack("=IIQQQQQ", 1, 64, 1, 0, 0, 0, 0b100000).ljust(112, b"\0")
    return calls.call("perf_event_open", attributes, world.victim, -1, -1, 0) > 2


@attack(claimed, impossible_here=machine.needs(machine.system_call("kexec_load"), machine.capability("SYS_BOOT")))
def loads_another_kernel(world: Any) -> Any:
    """None, which unloads what was loaded."""
    return calls.call("kexec_load", 0, 0, None, 0) == 0


@attack(claimed, impossible_here=machine.needs(machine.system_call("init_module"), machine.capability("SYS_MODULE")))
def loads_a_module_into_the_kernel(world: Any) -> Any:
    """One that is none, of which the kernel says so to whoever may load one."""
    try:
        return calls.call("init_module", b"\x7fELF", 4, b"") == 0
    except OSError as error:
        return error.errno == errno.ENOEXEC


@attack(claimed, impossible_here=machine.system_call("personality"))
def changes_its_personality(world: Any) -> Any:
    PER_LINUX32 = 8
    calls.call("personality", PER_LINUX32)
    return calls.call("personality", 0xFFFFFFFF) == PER_LINUX32


@attack(claimed, impossible_here=machine.system_call("quotactl"))
def asks_for_disk_quotas(world: Any) -> Any:
    Q_SYNC = 0x800001
    return calls.call("quotactl", ctypes.c_int(Q_SYNC << 8), None, 0, None) == 0


@attack(swapped, impossible_here=machine.needs(ADMIN, machine.swap_files))
def swaps_to_a_file_of_its_own(world: Any) -> Any:
    calls.call("swapon", world.swap, 0)


@attack(claimed, impossible_here=machine.needs(machine.capability("SYS_BOOT"), machine.first_pid_namespace))
def reboots_the_machine(world: Any) -> Any:
    """Asks that Ctrl-Alt-Del should go on to do so, as it does when a machine starts."""
    return calls.call("reboot", 0xFEE1DEAD, 672274793, 0x89ABCDEF, None) == 0


@attack(claimed, impossible_here=machine.capability("SYS_TIME"))
def sets_the_clock(world: Any) -> Any:
    """Its time zone, which is always UTC."""
    return calls.call("settimeofday", None, bytes(8)) == 0


@attack(claimed, impossible_here=machine.capability("SYS_TIME"))
def sets_the_clock_by_its_number(world: Any) -> Any:
    now = time.clock_gettime_ns(time.CLOCK_REALTIME)
    return calls.call("clock_settime", time.CLOCK_REALTIME, struct.pack("@ll", *divmod(now, 10**9))) == 0


@attack(claimed, impossible_here=ADMIN)
def sets_the_host_s_name(world: Any) -> Any:
    name = socket.gethostname()
    return calls.call("sethostname", name, len(name)) == 0


@attack(claimed, impossible_here=ADMIN)
def sets_the_domain_s_name(world: Any) -> Any:
    with open("/proc/sys/kernel/domainname") as file:
        name = file.read().strip()
    return calls.call("setdomainname", name, len(name)) == 0


@attack(claimed, impossible_here=machine.kernel_log)
def reads_the_kernel_s_log(world: Any) -> Any:
    return calls.call("syslog", 3, ctypes.create_string_buffer(8192), 8192) > 0


@attack(claimed, impossible_here=ADMIN)
def has_the_kernel_write_every_process_s_end_to_a_file(world: Any) -> Any:
    """None, which ends it: acct(2) is the whole machine's."""
    return calls.call("acct", None) == 0


@attack(claimed, impossible_here=machine.system_call("memfd_create"))
def makes_a_file_in_memory(world: Any) -> Any:
    file = calls.call("memfd_create", "file", 0)
    return os.write(file, b"was here") == 8


@attack(claimed, impossible_here=machine.needs(machine.system_call("memfd_secret"), machine.secret_memory))
def makes_memory_that_the_kernel_cannot_see(world: Any) -> Any:
    return calls.call("memfd_secret", 0) > 2


@attack(claimed, impossible_here=machine.system_call("pidfd_open"))
def opens_the_service_s_process(world: Any) -> Any:
    return calls.call("pidfd_open", world.victim, 0) > 2


@attack(claimed, impossible_here=machine.needs(machine.system_call("process_madvise"), machine.capability("SYS_NICE")))
def pages_the_service_out(world: Any) -> Any:
    MADV_COLD = 20
    process = calls.call("pidfd_open", world.victim, 0)
    page = world.address & ~4095
    return calls.call("process_madvise", process, struct.pack("@PN", page, 4096), 1, MADV_COLD, 0) == 4096


@attack(claimed, impossible_here=machine.capability("SYS_NICE"))
def moves_the_service_s_memory(world: Any) -> Any:
    node = ctypes.c_ulong(1)
    return calls.call("migrate_pages", world.victim, 64, ctypes.byref(node), ctypes.byref(node)) >= 0


@attack(claimed)
def watches_a_directory(world: Any) -> Any:
    IN_ALL_EVENTS = 0xFFF
    return calls.call("inotify_add_watch", calls.call("inotify_init1", 0), world.directory, IN_ALL_EVENTS) > 0


@attack(claimed, impossible_here=machine.needs(machine.system_call("fanotify_init"), ADMIN))
def watches_every_file(world: Any) -> Any:
    return calls.call("fanotify_init", 0, 0) > 2


@attack(claimed, impossible_here=machine.system_call("seccomp"))
def becomes_a_supervisor_of_system_calls(world: Any) -> Any:
    SET_MODE_FILTER, NEW_LISTENER, PR_SET_NO_NEW_PRIVS = 1, 8, 38
    calls.libc("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    allow = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000), 8)
    return calls.call("seccomp", SET_MODE_FILTER, NEW_LISTENER, struct.pack("@HP", 1, ctypes.addressof(allow))) > 2


@attack(claimed, impossible_here=machine.capability("SETUID"))
def becomes_another_user(world: Any) -> Any:
    os.setresuid(12345, 12345, 12345)
    return os.geteuid() == 12345


@attack(claimed, impossible_here=machine.capability("SETUID"))
def becomes_root(world: Any) -> Any:
    os.setresuid(0, 0, 0)
    return os.geteuid() == 0 and capabilities() != 0


@attack(claimed, impossible_here=machine.capability("SETUID"))
def joins_other_groups(world: Any) -> Any:
    os.setgroups([12345])
    return os.getgroups() == [12345]


def capabilities() -> int:
    """Its effective ones."""
    data = ctypes.create_string_buffer(24)
    capget = {"x86_64": 125, "aarch64": 90}[os.uname().machine]
    calls.numbered(capget, struct.pack("=Ii", 0x20080522, 0), data)
    return int(struct.unpack_from("=I", data)[0])


@attack(claimed, impossible_here=ADMIN)
def keeps_its_capabilities(world: Any) -> Any:
    calls.call("capset", struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", 1 << 21, 1 << 21, 0, 0, 0, 0))
    return bool(capabilities() & 1 << 21)


@attack(claimed, impossible_here=machine.needs(machine.system_call("iopl"), machine.capability("SYS_RAWIO")))
def talks_to_devices_by_their_ports(world: Any) -> Any:
    return calls.call("iopl", 3) == 0


@attack(claimed, impossible_here=machine.system_call("modify_ldt"))
def changes_its_table_of_segments(world: Any) -> Any:
    """modify_ldt(2): to read it, of old a way to many of the kernel's mistakes."""
    return calls.call("modify_ldt", 0, ctypes.create_string_buffer(64), 64) >= 0


@attack(claimed)
def can_be_looked_into(world: Any) -> Any:
    """Makes itself dumpable again, so that others of its user may trace it."""
    PR_SET_DUMPABLE, PR_GET_DUMPABLE = 4, 3
    calls.libc("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)
    return calls.libc("prctl", PR_GET_DUMPABLE, 0, 0, 0, 0) == 1


@attack(claimed)
def forgets_to_die_with_the_zygote(world: Any) -> Any:
    PR_SET_PDEATHSIG = 1
    return calls.libc("prctl", PR_SET_PDEATHSIG, 0, 0, 0, 0) == 0


@attack(claimed)
def adopts_orphans(world: Any) -> Any:
    PR_SET_CHILD_SUBREAPER = 36
    return calls.libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


@attack(claimed)
def measures_time_to_the_cycle_from_the_kernel(world: Any) -> Any:
    PR_SET_TSC = 26
    try:
        return calls.libc("prctl", PR_SET_TSC, 1, 0, 0, 0) == 0
    except OSError:
        return calls.libc("prctl", 29, 1, 0, 0, 0) == 0  # PR_SET_TIMERSLACK, where there is no TSC
