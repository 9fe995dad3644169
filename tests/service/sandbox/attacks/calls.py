"""System calls by name, as hostile code makes them: past libc, and past what Python would check first."""

import ctypes
import os
import platform
from typing import Any

NUMBERS: dict[str, tuple[int | None, int | None]] = {  # on x86_64 and on aarch64; None where there is no such call
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "execveat": (322, 281),
    "fanotify_init": (300, 262),
    "fork": (57, None),
    "fsopen": (430, 430),
    "init_module": (175, 105),
    "inotify_add_watch": (254, 27),
    "inotify_init1": (294, 26),
    "io_setup": (206, 0),
    "io_uring_enter": (426, 426),
    "io_uring_setup": (425, 425),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mlockall": (151, 230),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "renameat2": (316, 276),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setscheduler": (144, 119),
    "seccomp": (317, 277),
    "semctl": (66, 191),
    "semget": (64, 190),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "tkill": (200, 130),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vfork": (58, None),
    "vmsplice": (278, 75),
}

_MACHINE = {"x86_64": 0, "aarch64": 1}.get(platform.machine())
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def exists(name: str) -> bool:
    """Whether this kind of processor has it."""
    return _MACHINE is not None and NUMBERS[name][_MACHINE] is not None


def call(name: str, *arguments: Any) -> int:
    """What it returns. Raises OSError."""
    number = NUMBERS[name][_MACHINE] if _MACHINE is not None else None
    if number is None:
        raise OSError(f"no {name} on this kind of processor")
    return numbered(number, *arguments)


def numbered(number: int, *arguments: Any) -> int:
    returned = _libc.syscall(ctypes.c_long(number), *[_word(argument) for argument in arguments])
    if returned == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(returned)


def libc(function: str, *arguments: Any) -> int:
    """The same through libc's function of that name, for those that have no number everywhere."""
    returned = getattr(_libc, function)(*[_word(argument) for argument in arguments])
    if returned == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(returned)


def _word(argument: Any) -> Any:
    """A register's worth: ctypes would pass an int as 32 bits of it."""
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    return os.fsencode(argument) if isinstance(argument, str) else argument
