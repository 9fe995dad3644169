"""Seccomp: which system calls a process may make from now on, and with which arguments. All others are denied.

The lists have what torch 2.13 called on glibc in convolutions, transformers, LSTMs, bfloat16, quantised layers, FFT,
SVD, backward passes, two OpenMP threads and torch.export. A denied call fails, and Python raises OSError. Only a call
of another architecture kills the process: there the same number means another call.

The filter is a program in classic BPF, which the kernel runs before each system call (Linux's
Documentation/userspace-api/seccomp_filter.rst).
"""

import ctypes
import errno
import platform
import struct
from collections.abc import Iterable

from service.sandbox.kernel import syscall
from service.sandbox.limits import Profile
from service.sandbox.system_calls import find_number

# Memory, threads, clocks, and reading and writing open files.
_CORE = """
    arch_prctl brk clock_gettime clock_nanosleep close dup exit exit_group fstat getcpu getegid geteuid getgid getpid
    getppid getrandom getrusage gettid gettimeofday getuid lseek membarrier mmap mprotect mremap munmap
    nanosleep poll ppoll pread64 pwrite64 read readv restart_syscall rseq rt_sigaction rt_sigprocmask rt_sigreturn
    sched_yield set_robust_list sigaltstack sysinfo time uname write writev
""".split()
# What Python code in general needs besides, for its own process and for open files.
_PYTHON = """
    clock_getres copy_file_range dup2 dup3 epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd2 fadvise64 fdatasync
    fsync getgroups getitimer getpgrp getresgid getresuid getrlimit msync pause pipe pipe2 preadv pselect6 pwritev
    rt_sigpending rt_sigsuspend rt_sigtimedwait sched_get_priority_max sched_get_priority_min select sendfile
    set_tid_address setitimer times umask wait4
""".split()
# Calls that look at the file system. Landlock decides which files may be opened; it does not hide names, sizes and
# times. Without newfstatat, glibc's fstat fails, and Python's files work without it.
_PATHS = """
    access chdir faccessat faccessat2 fchdir fstatfs getcwd getdents64 lstat newfstatat readlink readlinkat stat statfs
    statx
""".split()
# Libraries try these calls. If the kernel seems too old for one (ENOSYS), they use another call instead.
_REPORTED_MISSING = """
    clone3 futex_waitv io_uring_enter io_uring_register io_uring_setup map_shadow_stack memfd_create openat2
""".split()
# The calls that come most often. The filter compares them first, because the kernel runs it from its beginning.
_FREQUENT = ["read", "write", "mmap", "munmap", "sched_yield", "close", "lseek", "fstat"]
# Calls from this number on are newer than the lists here. To the process, the kernel seems too old for them.
_FIRST_UNLISTED = 470

# The flags that pthread_create passes to clone: glibc's, and musl's.
_THREAD_FLAGS = (0x3D0F00, 0x7D0F00)
# WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAIT_BITSET, WAKE_BITSET. The operations with priority inheritance are left
# out: attackers got into the kernel through them more than once (CVE-2014-3153, for example).
_FUTEX_OPERATIONS = (0, 1, 3, 4, 5, 9, 10)
_FUTEX_FLAGS = 0x180  # PRIVATE, CLOCK_REALTIME
_PRCTL_OPTIONS = (3, 15, 16, 39, 0x53564D41)  # GET_DUMPABLE, SET_NAME, GET_NAME, GET_NO_NEW_PRIVS, SET_VMA
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX. Python sets with FIONBIO whether a socket blocks.
_IOCTL_REQUESTS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# DUPFD, GETFD, SETFD, GETFL, SETFL, DUPFD_CLOEXEC, GET_SEALS. Left out are owners, signals, leases, locks and the sizes
# of pipes.
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030, 1034)
# What this frees in shared memory, a parent that reads there would have to be given anew, and where the system has none
# left, that ends the parent (SIGBUS).
_MADV_REMOVE = 9
_O_ACCMODE, _O_TRUNC = 0o3, 0o1000

_AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h
_X32_BIT = 0x40000000  # x86_64's second set of numbers, for programs with 32-bit pointers (asm/unistd.h)
_SET_MODE_FILTER, _TSYNC = 1, 1

# From linux/bpf_common.h and linux/seccomp.h.
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # offsets in struct seccomp_data, in bytes

Instructions = list[bytes]


def restrict(profile: Profile, pid: int, *, paths: bool) -> None:
    """Allow this process only the system calls of the profile, in every thread and for good.

    `pid` is this process's id. Without `paths`, it can open or look up nothing by name; with the profile `infer`, it
    never can. The process must have set no_new_privs. Raises OSError if the kernel refuses the filter.
    """
    program = b"".join(_write_program(profile, pid, paths=paths and profile == "trace"))
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    seccomp = find_number("seccomp")
    assert seccomp is not None
    syscall(seccomp, _SET_MODE_FILTER, _TSYNC, header)


def _write_program(profile: Profile, pid: int, *, paths: bool) -> Instructions:
    allowed = [*_CORE, *(_PYTHON if profile == "trace" else ()), *(_PATHS if paths else ())]
    return [
        *_require_this_architecture(),
        *_check_advice(),  # it comes often, too
        *(each for name in _sort_by_frequency(allowed) for each in _if_called(name, [_return(_ALLOW)])),
        *(each for name in _REPORTED_MISSING for each in _if_called(name, [_fail(errno.ENOSYS)])),
        *_check_arguments(pid),
        *(_check_asked_process(pid) if profile == "trace" else ()),
        *(_check_open_flags() if paths else ()),
        _instruction(_JUMP_GREATER_EQUAL, _FIRST_UNLISTED, 0, 1),
        _fail(errno.ENOSYS),
        _fail(errno.EPERM),
    ]


def _require_this_architecture() -> Instructions:
    machine = platform.machine()
    x32 = [_instruction(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1), _return(_KILL_PROCESS)] if machine == "x86_64" else []
    return [
        _load(_ARCHITECTURE_AT),
        _instruction(_JUMP_EQUAL, _AUDIT_ARCHITECTURES[machine], 1, 0),
        _return(_KILL_PROCESS),
        _load(_NUMBER_AT),
        *x32,
    ]


def _sort_by_frequency(allowed: Iterable[str]) -> Iterable[str]:
    return sorted(allowed, key=lambda name: _FREQUENT.index(name) if name in _FREQUENT else len(_FREQUENT))


def _check_advice() -> Instructions:
    """Return the rule for advice on memory."""
    remove = _instruction(_JUMP_EQUAL, _MADV_REMOVE, 0, 1)
    return _if_called("madvise", [_load_argument(2), remove, _fail(errno.EPERM), _return(_ALLOW)])


def _check_arguments(pid: int) -> Instructions:
    """Return the rules for calls that are allowed with some arguments only."""
    own = [
        _load_argument(0),
        _instruction(_JUMP_EQUAL, 0, 2, 0),
        _instruction(_JUMP_EQUAL, pid, 1, 0),
        _fail(errno.EPERM),
    ]
    only_get = [
        _load_argument(2), _instruction(_JUMP_EQUAL, 0, 1, 0), _fail(errno.EPERM),
        _load_argument(2, upper=True), _instruction(_JUMP_EQUAL, 0, 1, 0), _fail(errno.EPERM),
    ]  # fmt: skip
    without_flags = _instruction(_AND, ~_FUTEX_FLAGS)
    return [
        *_if_called("futex", [_load_argument(1), without_flags, *_allow_only(_FUTEX_OPERATIONS, errno.ENOSYS)]),
        *_if_called("clone", [_load_argument(0), *_allow_only(_THREAD_FLAGS, errno.EPERM)]),
        *_if_called("prctl", [_load_argument(0), *_allow_only(_PRCTL_OPTIONS, errno.EPERM)]),
        *_if_called("ioctl", [_load_argument(1), *_allow_only(_IOCTL_REQUESTS, errno.ENOTTY)]),
        *_if_called("fcntl", [_load_argument(1), *_allow_only(_FCNTL_COMMANDS, errno.EINVAL)]),
        *_if_called("tgkill", [_load_argument(0), *_allow_only((pid,), errno.EPERM)]),
        *_if_called("sched_getaffinity", [_load_argument(0), *_allow_only((0, pid), errno.EPERM)]),
        *_if_called("prlimit64", [*own, *only_get, _return(_ALLOW)]),
    ]


def _check_asked_process(pid: int) -> Instructions:
    """Return the rules for calls about a process: only about this one, so that it does not find others."""
    asking = ("getpgid", "getsid", "sched_getparam", "sched_getscheduler")
    return [
        *(
            each
            for name in asking
            for each in _if_called(name, [_load_argument(0), *_allow_only((0, pid), errno.ESRCH)])
        ),
        *_if_called("getpriority", [_load_argument(1), *_allow_only((0, pid), errno.ESRCH)]),
        *_if_called("kill", [_load_argument(0), *_allow_only((pid,), errno.EPERM)]),
        *_if_called("sched_setaffinity", [_load_argument(0), *_allow_only((0, pid), errno.EPERM)]),
    ]


def _check_open_flags() -> Instructions:
    """Return the rules for opening files: nothing may be truncated that is opened to read.

    Truncating is a write, and Landlock stops it only from its ABI 3 on.
    """

    def without_truncating(flags: int) -> Instructions:
        both = _instruction(_AND, _O_ACCMODE | _O_TRUNC)
        return [
            _load_argument(flags),
            both,
            _instruction(_JUMP_EQUAL, _O_TRUNC, 0, 1),
            _fail(errno.EPERM),
            _return(_ALLOW),
        ]

    return [*_if_called("openat", without_truncating(2)), *_if_called("open", without_truncating(1))]


def _if_called(name: str, then: Instructions) -> Instructions:
    """Return instructions that run `then` if the call of this name is made; `then` must end with a return."""
    called = find_number(name)
    return [] if called is None else [_instruction(_JUMP_EQUAL, called, 0, len(then)), *then]


def _allow_only(values: Iterable[int], otherwise: int) -> Instructions:
    """Return instructions that allow the call if the loaded value is one of these; else it fails with that errno."""
    return [
        *(each for value in values for each in (_instruction(_JUMP_EQUAL, value, 0, 1), _return(_ALLOW))),
        _fail(otherwise),
    ]


def _load_argument(index: int, *, upper: bool = False) -> bytes:
    """Return an instruction that loads the lower or the upper 32 bits of an argument, which has 64.

    Both architectures are little-endian.
    """
    return _load(_ARGUMENTS_AT + 8 * index + 4 * upper)


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, offset)


def _return(action: int) -> bytes:
    return _instruction(_RETURN, action)


def _fail(error: int) -> bytes:
    return _return(_ERRNO | error)


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one BPF instruction, of 8 bytes; a jump skips `if_true` or `if_false` instructions."""
    return struct.pack("=HBBI", code, if_true, if_false, operand & 0xFFFFFFFF)
