"""What this machine forbids to everybody, so that an attack cannot work here whatever the jail does.

Asked of the machine itself and never of the attack. Looked at only where an attack failed without a jail.
"""

import ctypes
import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from attacks import calls

_CAPABILITIES = {
    "DAC_READ_SEARCH": 2,
    "SETUID": 7,
    "NET_RAW": 13,
    "SYS_MODULE": 16,
    "SYS_RAWIO": 17,
    "SYS_CHROOT": 18,
    "SYS_PTRACE": 19,
    "SYS_ADMIN": 21,
    "SYS_BOOT": 22,
    "SYS_NICE": 23,
    "SYS_RESOURCE": 24,
    "SYS_TIME": 25,
    "MKNOD": 27,
    "SYSLOG": 34,
}

_FS_IOC_GETFLAGS = 0x80086601

Reason = Callable[[], str]


def needs(*reasons: Reason) -> Reason:
    return lambda: "; ".join(filter(None, (reason() for reason in reasons)))


def capability(name: str) -> Reason:
    def reason() -> str:
        status = Path("/proc/self/status").read_text()
        held = int(status.partition("CapEff:")[2].split()[0], 16)
        return "" if held >> _CAPABILITIES[name] & 1 else f"these tests run without CAP_{name}"

    return reason


def system_call(name: str) -> Reason:
    """Asked with arguments that mean nothing, which a kernel that has the call says of it."""

    def reason() -> str:
        if not calls.exists(name):
            return f"this kind of processor has no {name}"
        try:
            returned = calls.call(name, *[-1] * 6)
        except OSError as error:
            if error.errno in (errno.ENOSYS, errno.EPERM):
                return f"the kernel answers {errno.errorcode[error.errno]} to every {name}"
            return ""
        if returned > 2:
            os.close(returned)
        return ""

    return reason


def socket_family(family: int, kind: int, protocol: int = 0) -> Reason:
    def reason() -> str:
        try:
            os.close(calls.libc("socket", family, kind, protocol))
        except OSError as error:
            return f"no socket of family {family} can be made here: {error}"
        return ""

    return reason


def writable(path: str | Path) -> Reason:
    return lambda: "" if os.access(path, os.W_OK) else f"{Path(path).name} cannot be written to here"


def readable(path: str) -> Reason:
    def reason() -> str:
        try:
            with open(path, "rb"):
                return ""
        except OSError as error:
            return f"{path} cannot be read here: {error}"

    return reason


def user_namespaces() -> str:
    """Probed by a process that makes one and ends."""
    program = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], check=False)
    return "user namespaces are forbidden here" if done.returncode else ""


def first_pid_namespace() -> str:
    # The first one's number is part of the kernel: PROC_PID_INIT_INO.
    return "" if os.readlink("/proc/self/ns/pid") == "pid:[4026531836]" else "this is a container"


def user_faults() -> str:
    return _setting("/proc/sys/vm/unprivileged_userfaultfd", {"1"}, but="SYS_PTRACE")


def bpf() -> str:
    return _setting("/proc/sys/kernel/unprivileged_bpf_disabled", {"0"}, but="SYS_ADMIN")


def perf() -> str:
    return _setting("/proc/sys/kernel/perf_event_paranoid", {"-1", "0", "1", "2"}, but="SYS_ADMIN")


def kernel_log() -> str:
    return _setting("/proc/sys/kernel/dmesg_restrict", {"0"}, but="SYSLOG") or system_call("syslog")()


def secret_memory() -> str:
    parameter = Path("/sys/module/secretmem/parameters/enable")
    return "" if parameter.exists() and parameter.read_text().strip() == "Y" else "this kernel has no secret memory"


def flags_of(path: Path | str) -> int:
    """Those that chattr(1) sets. Raises OSError where the file system has none."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        flags = ctypes.c_long()
        calls.libc("ioctl", descriptor, _FS_IOC_GETFLAGS, ctypes.byref(flags))
        return flags.value
    finally:
        os.close(descriptor)


def flags() -> str:
    try:
        flags_of(tempfile.gettempdir())
    except OSError as error:
        return f"files have no flags here: {error}"
    return ""


def attributes() -> str:
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.setxattr(file.name, "user.tracehouse", b"1")
        except OSError as error:
            return f"no extended attributes here: {error}"
    return ""


def swap_files() -> str:
    """Which file systems take one is known to swapon(2) alone: those that are made of others do not."""
    kinds = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    beneath = [(len(place), kind) for place, kind in kinds if Path(tempfile.gettempdir()).is_relative_to(place)]
    kind = max(beneath)[1]
    return "" if kind in {"ext4", "xfs"} else f"{kind} takes no swap file"


def processors() -> str:
    return "" if len(os.sched_getaffinity(0)) > 1 else "there is one processor here"


def _setting(path: str, free: set[str], *, but: str) -> str:
    file = Path(path)
    if not file.exists() or file.read_text().strip() in free:
        return ""
    lacks = capability(but)()
    return f"{path} is {file.read_text().strip()}, and {lacks}" if lacks else ""
