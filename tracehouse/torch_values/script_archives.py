"""TorchScript archives, as torch.jit.save writes them: loaded with one copy of their weights.

`torch.jit.load` makes three copies of an open file's weights, and takes four times as long as for a path; a process in
the jail opens no paths. So torch's reader reads each tensor from the file, and torch loads all else from a small
archive in memory, in the layout in which `torch.package` keeps TorchScript modules: tensors can be handed over there.
"""

import io
import os
import pickletools
import re
import zipfile
from typing import BinaryIO

import torch

_NAME = "0"  # of the one module in the small archive
_PACKED_VERSION = ".data/version"
# torch writes the second one in place of the first from version 6 on: that of an archive with an operator that has
# changed since, such as gelu.
_VERSIONS = ("version", _PACKED_VERSION)
_PACKED = {
    "data.pkl": f".data/ts_code/{_NAME}/data.pkl",
    "constants.pkl": f".data/ts_code/{_NAME}/constants.pkl",
}
_CODE, _PACKED_CODE = "code/", ".data/ts_code/code/"
_LEGACY = "model.json"  # in archives of torch's first releases
_TENSORS = ("data/", "constants/")
_CODE_MAX_BYTES = 1 << 25  # a choice: that of a large model has a few million
_CONSTANTS_MAX_BYTES = 1 << 20  # of the pickle, of which each operation is looked at: some 8,000 tensors. A choice
_TENSOR = re.compile(r"data/([0-9]+)|(constants/[0-9]+)", re.ASCII)
# What the pickle of the constants names where all of them are tensors.
_OF_TENSORS = ("torch._utils ", "torch ", "collections OrderedDict")


class _OtherLayout(Exception):
    """The archive is not as torch.jit.save writes it, or has constants of other kinds than tensors."""


def load(archive: BinaryIO, device: str) -> torch.jit.ScriptModule:
    """Return the archive's module on a torch device, as `torch.jit.load` does. Raises whatever that raises."""
    if device == "cpu":
        try:
            return _load_with_one_copy(archive)
        except Exception:  # noqa: BLE001 - torch tells what is wrong with it, or another release has other parts
            archive.seek(0)
    module: torch.jit.ScriptModule = torch.jit.load(archive, map_location=device)
    return module


def _load_with_one_copy(archive: BinaryIO) -> torch.jit.ScriptModule:
    size = archive.seek(0, os.SEEK_END)
    archive.seek(0)
    reader = torch._C.PyTorchFileReader(archive)
    _check_sizes({name: reader.get_record_size(name) for name in reader.get_all_records()}, size)
    small = torch._C.PyTorchFileReader(_pack(reader))
    loaded = torch._C._import_ir_module_from_package(
        torch._C.CompilationUnit(), small, _read_tensors(reader), torch.device("cpu"), _NAME
    )
    module: torch.jit.ScriptModule = torch.jit._recursive.wrap_cpp_module(loaded)
    return module


def _check_sizes(sizes: dict[str, int], archive_size: int) -> None:
    """Raise _OtherLayout for records that are far larger than the archive: torch reads just those that it needs."""
    tensors = sum(size for name, size in sizes.items() if name.startswith(_TENSORS))
    code = sum(size for name, size in sizes.items() if name.startswith(_CODE))
    # torch.jit.save compresses the code and no tensors.
    if tensors > archive_size or code > _CODE_MAX_BYTES or sizes.get("constants.pkl", 0) > _CONSTANTS_MAX_BYTES:
        raise _OtherLayout


def _pack(reader: torch._C.PyTorchFileReader) -> io.BytesIO:
    """Return the archive without its tensors, in the layout of torch.package."""
    records = reader.get_all_records()
    # torch finds a record without regard to case, and reads one of these in place of another.
    versions = [name for name in records if name.lower() in _VERSIONS]
    if len(versions) != 1 or any(name.lower() == _LEGACY for name in records):
        raise _OtherLayout
    small = io.BytesIO()
    with zipfile.ZipFile(small, "w") as packed:
        packed.writestr(f"small/{_PACKED_VERSION}", reader.get_record(versions[0]))
        for name, place in _PACKED.items():
            record = reader.get_record(name)
            packed.writestr(f"small/{place}", _rename_tensors(record) if name == "constants.pkl" else record)
        for name in records:
            if name.startswith(_CODE):
                packed.writestr(f"small/{_PACKED_CODE}{name.removeprefix(_CODE)}", reader.get_record(name))
    small.seek(0)
    return small


def _rename_tensors(pickled: bytes) -> bytes:
    """Return the constants with other names for their tensors: in an archive, both pickles number theirs from zero."""
    parts, copied = [], 0
    for operation, value, start in pickletools.genops(pickled):
        if operation.name == "GLOBAL" and not str(value).startswith(_OF_TENSORS):
            raise _OtherLayout  # its own strings may be numbers
        if operation.name == "BINUNICODE" and (number := str(value)).isdecimal():
            name = f"constants/{number}".encode()
            parts += [pickled[copied:start], b"X", len(name).to_bytes(4, "little"), name]
            assert start is not None
            copied = start + len(b"X") + 4 + len(number.encode())
    parts.append(pickled[copied:])
    return b"".join(parts)


def _read_tensors(reader: torch._C.PyTorchFileReader) -> torch._C.DeserializationStorageContext:
    """Return the bytes of all tensors, by the names that the pickles in the small archive have for them."""
    storages = torch._C.DeserializationStorageContext()
    for name in reader.get_all_records():
        if not name.startswith(_TENSORS):
            continue
        if (match := _TENSOR.fullmatch(name)) is None:
            raise _OtherLayout
        tensor = reader.get_storage_from_record(name, reader.get_record_size(name), torch.uint8)
        storages.add_storage(match[1] or match[2], tensor)
    return storages
