"""Files outside: read, found, changed and made."""

import ctypes
import mmap
import os
import struct
from pathlib import Path
from typing import Any

from attacks import calls, machine
from attacks.attack import attack
from attacks.judges import changed, claimed, leaked, made, told
from attacks.world import project
from service.sandbox.tiers import Tier

RENAME_EXCHANGE = 2
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400


@attack(leaked)
def reads_a_file_of_the_service(world: Any) -> Any:
    return Path(world.secret).read_text()


@attack(leaked)
def reads_a_file_from_its_directory_s_descriptor(world: Any) -> Any:
    directory = os.open(world.directory, os.O_RDONLY | os.O_DIRECTORY)
    return os.read(os.open("secret.txt", os.O_RDONLY, dir_fd=directory), 100)


@attack(leaked)
def reads_a_file_beneath_a_path_descriptor(world: Any) -> Any:
    directory = os.open(world.directory, os.O_PATH)
    return os.read(os.open("secret.txt", os.O_RDONLY, dir_fd=directory), 100)


@attack(leaked)
def reads_a_file_by_a_relative_path(world: Any) -> Any:
    os.chdir(world.directory)
    return Path("secret.txt").read_text()


@attack(leaked)
def reads_a_file_through_a_symlink(world: Any) -> Any:
    return Path(world.link).read_text()


@attack(leaked)
def reads_a_file_through_dots_from_what_it_may_read(world: Any) -> Any:
    up = "/.." * len(Path(world.stdlib).parts)
    return Path(world.stdlib + up + world.secret).read_text()


@attack(leaked)
def reads_a_file_through_proc_self_root(world: Any) -> Any:
    return Path("/proc/self/root" + world.secret).read_text()


@attack(leaked)
def reads_a_file_through_another_process_s_directory(world: Any) -> Any:
    return Path(f"/proc/{world.victim}/cwd/secret.txt").read_text()


@attack(leaked)
def reads_an_open_file_of_another_process(world: Any) -> Any:
    return Path(f"/proc/{world.victim}/fd/{world.descriptor}").read_text()


@attack(leaked, impossible_here=machine.system_call("openat2"))
def reads_a_file_with_openat2(world: Any) -> Any:
    how = struct.pack("=QQQ", os.O_RDONLY, 0, 0)
    return os.read(calls.call("openat2", AT_FDCWD, world.secret, how, len(how)), 100)


@attack(leaked, impossible_here=machine.capability("DAC_READ_SEARCH"))
def reads_a_file_by_its_handle(world: Any) -> Any:
    handle = ctypes.create_string_buffer(bytes.fromhex(world.handle))
    return os.read(calls.call("open_by_handle_at", world.files[0], handle, os.O_RDONLY), 100)


@attack(leaked, impossible_here=machine.capability("DAC_READ_SEARCH"))
def reads_a_file_by_a_handle_that_it_asked_for(world: Any) -> Any:
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0), 136)
    calls.call("name_to_handle_at", AT_FDCWD, world.secret, handle, ctypes.byref(ctypes.c_int()), 0)
    return os.read(calls.call("open_by_handle_at", world.files[0], handle, os.O_RDONLY), 100)


@attack(told("root:"), impossible_here=machine.readable("/etc/passwd"))
def reads_the_machine_s_users(world: Any) -> Any:
    return Path("/etc/passwd").read_text()


@attack(told("[build-system]"), impossible_here=machine.readable(str(Path(project(), "pyproject.toml"))))
def reads_what_lies_beside_the_service_s_package(world: Any) -> Any:
    return Path(world.project, "pyproject.toml").read_text()


@attack(leaked)
def lists_a_directory_of_the_service(world: Any) -> Any:
    return os.listdir(world.directory)


@attack(leaked)
def finds_files_by_walking_from_the_root(world: Any) -> Any:
    """It is told the way, so that the walk is short."""
    found, here = [], Path("/")
    for part in Path(world.directory).parts[1:]:
        found += [entry.name for entry in os.scandir(here)]
        here /= part
    return found + [entry.name for entry in os.scandir(here)]


@attack(leaked)
def finds_a_file_by_its_pattern(world: Any) -> Any:
    return [str(path) for path in Path(world.directory).glob("name-*")]


@attack(claimed)
def lists_the_processes(world: Any) -> Any:
    return str(world.victim) in os.listdir("/proc")


@attack(leaked)
def reads_another_process_s_arguments(world: Any) -> Any:
    return Path(f"/proc/{world.victim}/cmdline").read_bytes()


@attack(told(" / "))
def reads_what_is_mounted(world: Any) -> Any:
    return Path("/proc/self/mountinfo").read_text()


@attack(told("local_address"))
def reads_who_talks_to_whom_on_the_network(world: Any) -> Any:
    return Path("/proc/self/net/tcp").read_text()


@attack(claimed, impossible_here=machine.readable("/proc/kallsyms"))
def reads_the_kernel_s_symbols(world: Any) -> Any:
    with open("/proc/kallsyms") as symbols:
        return len(symbols.readline()) > 10


@attack(claimed, uncovered=(Tier.UIDS, Tier.LANDLOCK))
def learns_of_a_file_s_size(world: Any) -> Any:
    return os.stat(world.secret).st_size > 0


@attack(claimed, uncovered=(Tier.UIDS, Tier.LANDLOCK))
def learns_of_a_file_s_size_by_saying_that_the_path_is_empty(world: Any) -> Any:
    """The flag only allows a path to be empty."""
    number = {"x86_64": 262, "aarch64": 79}[os.uname().machine]
    found = ctypes.create_string_buffer(256)
    calls.numbered(number, AT_FDCWD, world.secret, found, 0x1000)
    return any(found.raw)


@attack(claimed, uncovered=(Tier.UIDS, Tier.LANDLOCK))
def learns_whether_a_path_exists(world: Any) -> Any:
    return os.access(world.secret, os.F_OK)


@attack(claimed, uncovered=(Tier.UIDS, Tier.LANDLOCK))
def learns_where_a_symlink_points(world: Any) -> Any:
    return os.readlink(world.link) == world.secret


@attack(changed)
def makes_a_file(world: Any) -> Any:
    Path(world.directory, "new").write_text("was here")


@attack(changed)
def overwrites_a_file(world: Any) -> Any:
    Path(world.file).write_text("was here")


@attack(changed)
def appends_to_a_file(world: Any) -> Any:
    with open(world.file, "a") as file:
        file.write("was here")


@attack(changed)
def writes_through_a_memory_map(world: Any) -> Any:
    with open(world.file, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:3] = b"was"


@attack(changed)
def truncates_a_file_by_opening_it_to_read(world: Any) -> Any:
    os.close(os.open(world.file, os.O_RDONLY | os.O_TRUNC))


@attack(changed)
def truncates_a_file_by_its_path(world: Any) -> Any:
    os.truncate(world.file, 1)


@attack(changed)
def renames_a_file(world: Any) -> Any:
    os.rename(world.file, world.file + ".new")


@attack(changed)
def puts_a_file_in_another_s_place(world: Any) -> Any:
    os.replace(world.secret, world.file)


@attack(changed)
def exchanges_two_files(world: Any) -> Any:
    calls.call("renameat2", AT_FDCWD, world.secret, AT_FDCWD, world.file, RENAME_EXCHANGE)


@attack(changed)
def gives_a_file_a_second_name(world: Any) -> Any:
    os.link(world.secret, Path(world.directory, "second"))


@attack(changed)
def makes_a_symlink(world: Any) -> Any:
    os.symlink(world.secret, Path(world.directory, "pointer"))


@attack(changed)
def deletes_a_file(world: Any) -> Any:
    os.unlink(world.file)


@attack(changed)
def makes_a_directory(world: Any) -> Any:
    os.mkdir(Path(world.directory, "new"))


@attack(changed)
def removes_a_directory(world: Any) -> Any:
    os.rmdir(world.nested)


@attack(changed)
def makes_a_named_pipe(world: Any) -> Any:
    os.mkfifo(Path(world.directory, "pipe"))


@attack(changed, impossible_here=machine.capability("MKNOD"))
def makes_a_device(world: Any) -> Any:
    os.mknod(Path(world.directory, "memory"), 0o20666, os.makedev(1, 3))


@attack(changed)
def changes_a_file_s_mode(world: Any) -> Any:
    os.chmod(world.file, 0o4755)


@attack(changed)
def changes_a_file_s_owner(world: Any) -> Any:
    os.chown(world.file, os.getuid(), os.getgid())


@attack(changed)
def changes_a_file_s_times(world: Any) -> Any:
    os.utime(world.file, (1, 1))


@attack(changed, impossible_here=machine.attributes)
def sets_an_attribute_of_a_file(world: Any) -> Any:
    os.setxattr(world.file, "user.was", b"here")


@attack(changed)
def makes_a_file_without_a_name_and_names_it(world: Any) -> Any:
    unnamed = os.open(world.directory, os.O_TMPFILE | os.O_WRONLY)
    os.write(unnamed, b"was here")
    named = os.path.join(world.directory, "named")
    calls.libc("linkat", AT_FDCWD, f"/proc/self/fd/{unnamed}", AT_FDCWD, named, AT_SYMLINK_FOLLOW)


@attack(made("temporary"))
def writes_among_the_temporary_files(world: Any) -> Any:
    Path(world.temporary).write_text("was here")


@attack(made("shared"), impossible_here=machine.writable("/dev/shm"))
def makes_a_file_in_shared_memory(world: Any) -> Any:
    Path(world.shared).write_text("was here")


@attack(claimed, impossible_here=machine.readable("/dev/ptmx"))
def opens_a_terminal(world: Any) -> Any:
    return os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY) > 2


@attack(claimed, impossible_here=machine.readable("/dev/kmsg"))
def reads_the_kernel_s_log_from_its_device(world: Any) -> Any:
    return len(os.read(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK), 8192)) > 0


@attack(claimed, impossible_here=machine.writable("/proc/sys/kernel/core_pattern"))
def sets_which_program_is_started_at_a_crash(world: Any) -> Any:
    """To what it is already: this setting is the whole machine's."""
    pattern = Path("/proc/sys/kernel/core_pattern")
    return pattern.write_text(pattern.read_text()) > 0
