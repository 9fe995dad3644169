"""Archives: compiled modules as torch.jit.save writes them, in memory."""

import mmap
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain

import torch

Archive = bytes | mmap.mmap

_file: ContextVar[int | None] = ContextVar("file", default=None)


@contextmanager
def written_into(file: int | None) -> Iterator[None]:
    """Write each archive that is saved inside into this open file, in place of the one before; None is no file."""
    token = _file.set(file)
    try:
        yield
    finally:
        _file.reset(token)


@contextmanager
def written_into_memory() -> Iterator[None]:
    """Write each archive that is saved inside into a file in memory, where the system has such files."""
    file = _make_memory_file()
    try:
        with written_into(file):
            yield
    finally:
        if file is not None:
            os.close(file)


def _make_memory_file() -> int | None:
    try:
        return os.memfd_create("archive", os.MFD_CLOEXEC)
    except (AttributeError, OSError):  # not on Linux, or vm.memfd_noexec forbids it
        return None


def save(module: torch.jit.ScriptModule) -> Archive:
    """Return the module's archive. Raises whatever torch raises.

    Inside `written_into` it is a view of that file, if the process may open a path. Otherwise torch copies the whole
    archive several times, and takes ten times as long.
    """
    file = _file.get()
    if file is None or not _fits(module) or not _is_writable(path := f"/proc/self/fd/{file}"):
        archive: bytes = module.save_to_buffer()
        return archive
    module.save(path)
    return mmap.mmap(file, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)


def _fits(module: torch.jit.ScriptModule) -> bool:
    """Whether it is surely no larger than a file may be: torch ends the process at a write that fails."""
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    tensors = chain(module.parameters(), module.buffers())
    byte_size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    # Half is left for what else there is to write: constants, other attributes and code.
    return most == resource.RLIM_INFINITY or byte_size <= most // 2


def _is_writable(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:  # without Landlock, a jailed process opens nothing by its path
        return False
    return True
