"""Seccomp: which system calls a process may make from now on, and with which arguments. Denied by default.

The lists were found with torch 2.13 on glibc: convolutions, transformers, LSTMs, bfloat16, quantised layers, FFT, SVD,
backward passes, two OpenMP threads, torch.export. What is denied fails with an error that Python raises as OSError;
only calls of another architecture, which would get past the numbers, kill.
"""

import ctypes
import errno
import platform
import struct
from collections.abc import Iterable

from service.sandbox.kernel import syscall
from service.sandbox.limits import Profile
from service.sandbox.system_calls import number

# Memory, threads, clocks, and reading and writing what is open.
_CORE = """
    arch_prctl brk clock_gettime clock_nanosleep close dup exit exit_group fstat getcpu getegid geteuid getgid getpid
    getppid getrandom getrusage gettid gettimeofday getuid lseek madvise membarrier mmap mprotect mremap munmap
    nanosleep poll ppoll pread64 pwrite64 read readv restart_syscall rseq rt_sigaction rt_sigprocmask rt_sigreturn
    sched_yield set_robust_list sigaltstack sysinfo time uname write writev
""".split()
# What Python code in general does beside that, to itself and to what is open.
_PYTHON = """
    clock_getres copy_file_range dup2 dup3 epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd2 fadvise64 fdatasync
    fsync getgroups getitimer getpgrp getresgid getresuid getrlimit msync pause pipe pipe2 preadv pselect6 pwritev
    rt_sigpending rt_sigsuspend rt_sigtimedwait sched_get_priority_max sched_get_priority_min select sendfile
    set_tid_address setitimer times umask wait4
""".split()
# To look at the file system: Landlock says at what, but for names, sizes and times, which it does not mediate. Without
# newfstatat, glibc's fstat fails, which Python's files do not mind.
_PATHS = """
    access chdir faccessat faccessat2 fchdir fstatfs getcwd getdents64 lstat newfstatat readlink readlinkat stat statfs
    statx
""".split()
# Libraries try these and have something else to fall back on, if they are told that the kernel is older.
_UNKNOWN = """
    clone3 futex_waitv io_uring_enter io_uring_register io_uring_setup map_shadow_stack memfd_create openat2
""".split()
# The calls that come most often, looked at first: a filter is gone through from its beginning.
_FREQUENT = ["read", "write", "mmap", "munmap", "madvise", "sched_yield", "close", "lseek", "fstat"]
_FIRST_UNLISTED = 470  # newer than this file: unknown to this kernel, as far as the process can tell

# Flags that pthread_create gives clone: with glibc, and with musl.
_THREADS = (0x3D0F00, 0x7D0F00)
# WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAIT_BITSET, WAKE_BITSET: not those that inherit priorities, which were a
# way into the kernel more than once.
_FUTEX_OPERATIONS = (0, 1, 3, 4, 5, 9, 10)
_FUTEX_FLAGS = 0x180  # PRIVATE, CLOCK_REALTIME
_PRCTL_OPTIONS = (3, 15, 16, 39, 0x53564D41)  # GET_DUMPABLE, SET_NAME, GET_NAME, GET_NO_NEW_PRIVS, SET_VMA
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX; a socket's FIONBIO is how Python makes it wait or not.
_IOCTL_REQUESTS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# DUPFD, GETFD, SETFD, GETFL, SETFL, DUPFD_CLOEXEC, GET_SEALS: no owner, signal, lease, lock or size of a pipe.
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030, 1034)
_O_ACCMODE, _O_TRUNC = 0o3, 0o1000

_AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_SET_MODE_FILTER, _TSYNC = 1, 1

# linux/bpf_common.h and linux/seccomp.h.
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # struct seccomp_data

Instructions = list[bytes]


def restrict(profile: Profile, pid: int, *, paths: bool) -> None:
    """Allow this process, with this pid, only the system calls of the profile, in every thread and for good.

    Needs no_new_privs.

    Without `paths`, nothing can be opened or looked up by its name; the profile `infer` has none in any case.
    """
    program = b"".join(_program(profile, pid, paths=paths and profile == "trace"))
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    seccomp = number("seccomp")
    assert seccomp is not None
    syscall(seccomp, _SET_MODE_FILTER, _TSYNC, header)


def _program(profile: Profile, pid: int, *, paths: bool) -> Instructions:
    allowed = [*_CORE, *(_PYTHON if profile == "trace" else ()), *(_PATHS if paths else ())]
    return [
        *_only_this_architecture(),
        *(each for name in _in_order(allowed) for each in _if_called(name, [_return(_ALLOW)])),
        *(each for name in _UNKNOWN for each in _if_called(name, [_fail(errno.ENOSYS)])),
        *_by_arguments(pid),
        *(_of_python(pid) if profile == "trace" else ()),
        *(_of_opening() if paths else ()),
        _instruction(_JUMP_GREATER_EQUAL, _FIRST_UNLISTED, 0, 1),
        _fail(errno.ENOSYS),
        _fail(errno.EPERM),
    ]


def _only_this_architecture() -> Instructions:
    machine = platform.machine()
    x32 = [_instruction(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1), _return(_KILL_PROCESS)] if machine == "x86_64" else []
    return [
        _load(_ARCHITECTURE_AT),
        _instruction(_JUMP_EQUAL, _AUDIT_ARCHITECTURES[machine], 1, 0),
        _return(_KILL_PROCESS),
        _load(_NUMBER_AT),
        *x32,
    ]


def _in_order(allowed: Iterable[str]) -> Iterable[str]:
    return sorted(allowed, key=lambda name: _FREQUENT.index(name) if name in _FREQUENT else len(_FREQUENT))


def _by_arguments(pid: int) -> Instructions:
    own = [_argument(0), _instruction(_JUMP_EQUAL, 0, 2, 0), _instruction(_JUMP_EQUAL, pid, 1, 0), _fail(errno.EPERM)]
    only_get = [
        _argument(2), _instruction(_JUMP_EQUAL, 0, 1, 0), _fail(errno.EPERM),
        _argument(2, upper=True), _instruction(_JUMP_EQUAL, 0, 1, 0), _fail(errno.EPERM),
    ]  # fmt: skip
    without_flags = _instruction(_AND, ~_FUTEX_FLAGS)
    return [
        *_if_called("futex", [_argument(1), without_flags, *_one_of(_FUTEX_OPERATIONS, errno.ENOSYS)]),
        *_if_called("clone", [_argument(0), *_one_of(_THREADS, errno.EPERM)]),
        *_if_called("prctl", [_argument(0), *_one_of(_PRCTL_OPTIONS, errno.EPERM)]),
        *_if_called("ioctl", [_argument(1), *_one_of(_IOCTL_REQUESTS, errno.ENOTTY)]),
        *_if_called("fcntl", [_argument(1), *_one_of(_FCNTL_COMMANDS, errno.EINVAL)]),
        *_if_called("tgkill", [_argument(0), *_one_of((pid,), errno.EPERM)]),
        *_if_called("sched_getaffinity", [_argument(0), *_one_of((0, pid), errno.EPERM)]),
        *_if_called("prlimit64", [*own, *only_get, _return(_ALLOW)]),
    ]


def _of_python(pid: int) -> Instructions:
    """Return the rules for calls about a process. It may ask about itself alone, or it could find other processes."""
    asking = ("getpgid", "getsid", "sched_getparam", "sched_getscheduler")
    return [
        *(each for name in asking for each in _if_called(name, [_argument(0), *_one_of((0, pid), errno.ESRCH)])),
        *_if_called("getpriority", [_argument(1), *_one_of((0, pid), errno.ESRCH)]),
        *_if_called("kill", [_argument(0), *_one_of((pid,), errno.EPERM)]),
        *_if_called("sched_setaffinity", [_argument(0), *_one_of((0, pid), errno.EPERM)]),
    ]


def _of_opening() -> Instructions:
    """Opening to read while truncating is a write that Landlock does not see before its ABI 3."""

    def without_truncating(flags: int) -> Instructions:
        both = _instruction(_AND, _O_ACCMODE | _O_TRUNC)
        return [_argument(flags), both, _instruction(_JUMP_EQUAL, _O_TRUNC, 0, 1), _fail(errno.EPERM), _return(_ALLOW)]

    return [*_if_called("openat", without_truncating(2)), *_if_called("open", without_truncating(1))]


def _if_called(name: str, then: Instructions) -> Instructions:
    """`then` must return."""
    called = number(name)
    return [] if called is None else [_instruction(_JUMP_EQUAL, called, 0, len(then)), *then]


def _one_of(values: Iterable[int], otherwise: int) -> Instructions:
    return [
        *(each for value in values for each in (_instruction(_JUMP_EQUAL, value, 0, 1), _return(_ALLOW))),
        _fail(otherwise),
    ]


def _argument(index: int, *, upper: bool = False) -> bytes:
    """Load 32 bits of it; both architectures are little-endian."""
    return _load(_ARGUMENTS_AT + 8 * index + 4 * upper)


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, offset)


def _return(action: int) -> bytes:
    return _instruction(_RETURN, action)


def _fail(error: int) -> bytes:
    return _return(_ERRNO | error)


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one BPF instruction; a jump skips `if_true` or `if_false` instructions."""
    return struct.pack("=HBBI", code, if_true, if_false, operand & 0xFFFFFFFF)
