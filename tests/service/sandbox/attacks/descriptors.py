"""Descriptors: those it was given, those it should not have, and those of others."""

import ctypes
import fcntl
import os
import socket
import struct
from typing import Any

from attacks import calls, machine
from attacks.attack import attack
from attacks.files import AT_FDCWD, AT_SYMLINK_FOLLOW
from attacks.judges import changed, claimed, flagged, leaked

GIVEN = 0  # its place among the files


@attack(changed)
def opens_anew_to_write_what_it_was_given_to_read(world: Any) -> Any:
    os.write(os.open(f"/proc/self/fd/{world.files[GIVEN]}", os.O_WRONLY), b"was here")


@attack(changed)
def opens_anew_to_write_through_dev_fd(world: Any) -> Any:
    os.write(os.open(f"/dev/fd/{world.files[GIVEN]}", os.O_WRONLY), b"was here")


@attack(changed)
def opens_anew_to_truncate_what_it_was_given_to_read(world: Any) -> Any:
    os.truncate(f"/proc/self/fd/{world.files[GIVEN]}", 0)


@attack(changed)
def changes_the_mode_of_what_it_was_given(world: Any) -> Any:
    os.fchmod(world.files[GIVEN], 0o4777)


@attack(changed)
def changes_the_owner_of_what_it_was_given(world: Any) -> Any:
    os.fchown(world.files[GIVEN], os.getuid(), os.getgid())


@attack(changed)
def changes_the_times_of_what_it_was_given(world: Any) -> Any:
    os.utime(world.files[GIVEN], (1, 1))


@attack(changed, impossible_here=machine.attributes)
def sets_an_attribute_of_what_it_was_given(world: Any) -> Any:
    os.setxattr(world.files[GIVEN], "user.was", b"here")


@attack(flagged, impossible_here=machine.flags)
def sets_a_flag_of_what_it_was_given(world: Any) -> Any:
    FS_IOC_SETFLAGS, FS_NODUMP_FL = 0x40086602, 0x40
    flags = ctypes.c_long(FS_NODUMP_FL)
    calls.libc("ioctl", world.files[GIVEN], FS_IOC_SETFLAGS, ctypes.byref(flags))


@attack(changed)
def gives_what_it_was_given_a_second_name(world: Any) -> Any:
    second = os.path.join(world.directory, "second")
    calls.libc("linkat", AT_FDCWD, f"/proc/self/fd/{world.files[GIVEN]}", AT_FDCWD, second, AT_SYMLINK_FOLLOW)


@attack(claimed)
def locks_what_it_was_given(world: Any) -> Any:
    fcntl.flock(world.files[GIVEN], fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


@attack(claimed)
def locks_a_range_of_what_it_was_given(world: Any) -> Any:
    fcntl.lockf(world.files[GIVEN], fcntl.LOCK_SH | fcntl.LOCK_NB)
    return True


@attack(claimed)
def takes_a_lease_on_what_it_was_given(world: Any) -> Any:
    fcntl.fcntl(world.files[GIVEN], fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return True


@attack(claimed)
def watches_a_directory_by_its_descriptor(world: Any) -> Any:
    fcntl.fcntl(os.open(world.directory, os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_CREATE)
    return True


@attack(leaked)
def reads_through_every_descriptor(world: Any) -> Any:
    """What was left open by mistake: the zygote's, its siblings', the service's."""
    seen = b""
    for descriptor in set(range(3, 1024)) - {world.channel_descriptor}:
        try:
            os.set_blocking(descriptor, False)
            seen += os.pread(descriptor, 1000, 0)
        except OSError:
            continue
    os.chdir(world.directory)
    return seen + os.read(os.open("secret.txt", os.O_RDONLY), 100)


@attack(claimed, contained="a child has no descriptors but its own in any tier")
def finds_a_descriptor_that_is_not_its_own(world: Any) -> Any:
    own = {0, 1, 2, world.channel_descriptor, *world.files}
    return any(is_open(descriptor) for descriptor in set(range(1024)) - own)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@attack(leaked, impossible_here=machine.needs(machine.system_call("pidfd_getfd"), machine.system_call("pidfd_open")))
def takes_an_open_file_from_the_service(world: Any) -> Any:
    process = calls.call("pidfd_open", world.victim, 0)
    return os.pread(calls.call("pidfd_getfd", process, world.descriptor, 0), 100, 0)


@attack(
    claimed,
    impossible_here=machine.needs(machine.system_call("pidfd_getfd"), machine.capability("SYS_PTRACE")),
)
def takes_the_zygote_s_control_socket(world: Any) -> Any:
    process = calls.call("pidfd_open", os.getppid(), 0)
    for descriptor in range(3, 20):
        try:
            taken = calls.call("pidfd_getfd", process, descriptor, 0)
            return socket.socket(fileno=taken).type == socket.SOCK_SEQPACKET
        except OSError:
            continue
    return False


@attack(claimed, impossible_here=machine.system_call("kcmp"))
def compares_descriptors_with_another_process(world: Any) -> Any:
    """kcmp(2): what somebody else has open, and where the kernel keeps it."""
    return calls.call("kcmp", os.getpid(), world.victim, 1, 0, 0) >= 0


@attack(claimed, impossible_here=machine.system_call("vmsplice"))
def splices_its_memory_into_a_pipe(world: Any) -> Any:
    _, tell = os.pipe()
    page = ctypes.create_string_buffer(4096)
    return calls.call("vmsplice", tell, struct.pack("@PN", ctypes.addressof(page), 4096), 1, 0) == 4096
