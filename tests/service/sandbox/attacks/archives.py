"""Archives: what a runner is handed, crafted so that loading or calling it reads, writes, fills or crashes.

The parent writes them and the child loads them, as a runner does: from a descriptor, without any submitted Python. Two
kinds of archive that Python itself unpacks, pickles and tar files, are the tracing child's to be afraid of.
"""

import io
import os
import pickle
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from attacks import machine
from attacks.attack import Archive, attack
from attacks.floods import LOG_MAX_BYTES
from attacks.judges import changed, executed, hurt, leaked, log_over, used_cpu, used_memory

MIB = 2**20
LIMIT_MIB = 1024  # of address space, where torch is loaded
BOMB_MIB = 1024  # beside which torch does not fit
HONEST = "def forward(self):\n    return 'the honest answer'\n"

_ENTRY = 1  # the archive's place among the child's files


def load_and_call(world: Any) -> Any:
    import torch

    with open(world.files[_ENTRY], "rb", closefd=False) as archive:
        answer = torch.jit.load(archive, map_location="cpu").forward()
    if isinstance(answer, torch.Tensor) and answer.dtype == torch.uint8 and answer.numel() < MIB:
        return bytes(answer.tolist())
    return str(type(answer)) if isinstance(answer, torch.Tensor) else answer


def program(source: str) -> Archive:
    """An archive whose methods these are; the world's targets go in between braces."""
    return lambda world: scripted(source.format(**{name: repr(at) for name, at in world.targets().items()}))


def scripted(source: str) -> bytes:
    import torch

    module: Any = torch.jit._recursive.wrap_cpp_module(
        torch._C.ScriptModule("Attack", torch._C.CompilationUnit(), True)
    )
    module._c._register_attribute("training", torch._C.BoolType.get(), False)
    module.define(source)
    archive = io.BytesIO()
    torch.jit.save(module, archive)
    return archive.getvalue()


def rewritten(archive: bytes, changes: dict[str, bytes]) -> bytes:
    """With other contents of the records that are called so."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(written, "w") as new:
        for name in old.namelist():
            new.writestr(name, changes.get(Path(name).name, old.read(name)))
    return written.getvalue()


@attack(
    leaked,
    profiles=("infer",),
    archive=program("def forward(self):\n    return torch.from_file({secret}, False, 35, dtype=torch.uint8)\n"),
)
def an_operator_reads_a_file(world: Any) -> Any:
    return load_and_call(world)


@attack(
    leaked,
    profiles=("infer",),
    archive=program("def forward(self):\n    return torch.from_file({link}, True, 35, dtype=torch.uint8)\n"),
)
def an_operator_maps_a_file_to_share_it(world: Any) -> Any:
    return load_and_call(world)


@attack(
    leaked,
    profiles=("infer",),
    archive=program("""
def __getstate__(self):
    return torch.zeros(1)

def __setstate__(self, state: Tensor):
    self.training = False
    data = torch.from_file({secret}, False, 35, dtype=torch.uint8)
    print("".join([chr(int(byte)) for byte in data]))

def forward(self):
    return 1
"""),
)
def an_archive_reads_a_file_while_it_is_loaded(world: Any) -> Any:
    return load_and_call(world)


@attack(
    changed,
    profiles=("infer",),
    archive=program("def forward(self):\n    return torch.from_file({file}, True, 9, dtype=torch.uint8).fill_(65)\n"),
)
def an_operator_overwrites_a_file(world: Any) -> Any:
    return load_and_call(world)


@attack(
    changed,
    profiles=("infer",),
    archive=program(
        "def forward(self):\n    return torch.from_file({directory} + '/new', True, 9, dtype=torch.uint8)\n"
    ),
)
def an_operator_makes_a_file(world: Any) -> Any:
    return load_and_call(world)


@attack(
    changed,
    profiles=("infer",),
    archive=program("def forward(self):\n    return torch.from_file({file}, True, 1000000, dtype=torch.uint8)\n"),
)
def an_operator_makes_a_file_larger(world: Any) -> Any:
    return load_and_call(world)


@attack(
    changed,
    profiles=("infer",),
    archive=program("def forward(self):\n    torch.save(torch.ones(1), {directory} + '/new')\n"),
)
def an_operator_saves_a_tensor(world: Any) -> Any:
    return load_and_call(world)


@attack(
    changed,
    profiles=("infer",),
    archive=program("def forward(self):\n    torch.save(torch.ones(1), {packages} + '/tracehouse.pth')\n"),
)
def an_operator_saves_among_the_installed_packages(world: Any) -> Any:
    return load_and_call(world)


@attack(
    log_over(LOG_MAX_BYTES),
    profiles=("infer",),
    archive=program("def forward(self):\n    for _ in range(20000):\n        print('a flood of a line')\n"),
)
def a_graph_prints_without_end(world: Any) -> Any:
    return load_and_call(world)


@attack(
    used_cpu(1.5),
    profiles=("infer",),
    archive=program("def forward(self):\n    n = 0\n    while n >= 0:\n        n = (n + 1) % 7\n"),
    limits={"cpu_s": 1},
)
def a_graph_loops_without_end(world: Any) -> Any:
    return load_and_call(world)


@attack(
    used_memory(LIMIT_MIB),
    profiles=("infer",),
    archive=program(f"def forward(self):\n    return torch.ones({BOMB_MIB * MIB // 4})\n"),
)
def a_graph_makes_one_huge_tensor(world: Any) -> Any:
    return load_and_call(world)


@attack(
    used_memory(LIMIT_MIB),
    profiles=("infer",),
    archive=program(
        "def forward(self):\n    held = [torch.rand(1)]\n"
        f"    for _ in range({BOMB_MIB // 16}):\n        held.append(torch.rand({4 * MIB}))\n    return len(held)\n"
    ),
)
def a_graph_makes_many_tensors(world: Any) -> Any:
    return load_and_call(world)


@cache
def zip_bomb() -> bytes:
    """A gibibyte of a tensor's zeros in a mebibyte of archive."""
    import torch

    elements = BOMB_MIB * MIB // 4
    module = torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1, 1))
    plain = io.BytesIO()
    torch.jit.save(module, plain)
    written = io.BytesIO()
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("/data/0"):
                with new.open(name, "w", force_zip64=True) as record:
                    for _ in range(BOMB_MIB):
                        record.write(bytes(MIB))
                continue
            if name.endswith("/data.pkl"):
                # Its size and shape, (1, 1) by the strides (1, 1): now as many elements in one row.
                number = b"J" + elements.to_bytes(4, "little")
                data = data.replace(b"cpuq\x06K\x01tQ", b"cpuq\x06" + number + b"tQ", 1)
                data = data.replace(b"K\x00(K\x01K\x01t(K\x01K\x01t", b"K\x00(K\x01" + number + b"t(K\x01K\x01t", 1)
            new.writestr(name, data)
    return written.getvalue()


@attack(used_memory(LIMIT_MIB), profiles=("infer",), archive=lambda world: zip_bomb())
def an_archive_is_a_zip_bomb(world: Any) -> Any:
    return load_and_call(world)


def gadget(expression: str) -> bytes:
    """A pickle that evaluates this when it is loaded."""

    class Gadget:
        def __reduce__(self) -> Any:
            return eval, (expression,)

    return pickle.dumps(Gadget(), 2)


def reading(world: Any) -> bytes:
    return gadget(f"print(open({world.targets()['secret']!r}).read())")


DEEP = f"class Attack(Module):\n  def forward(self) -> int:\n    return {'(' * MIB}1{')' * MIB}\n"
REFUSED = "torch's own reader of archives knows no such thing, jailed or not"


@attack(
    leaked,
    profiles=("infer",),
    archive=lambda world: rewritten(scripted(HONEST), {"data.pkl": reading(world)}),
    contained=REFUSED,
)
def an_archive_s_data_is_a_hostile_pickle(world: Any) -> Any:
    return load_and_call(world)


@attack(
    leaked,
    profiles=("infer",),
    archive=lambda world: rewritten(scripted(HONEST), {"constants.pkl": reading(world)}),
    contained=REFUSED,
)
def an_archive_s_constants_are_a_hostile_pickle(world: Any) -> Any:
    return load_and_call(world)


def climbing(world: Any) -> bytes:
    archive = io.BytesIO(scripted(HONEST))
    with zipfile.ZipFile(archive, "a") as records:
        for name in (str(world.directory / "climbed"), f"archive/{'../' * 20}{world.directory}/climbed", "../climbed"):
            records.writestr(name, "was here")
    return archive.getvalue()


@attack(changed, profiles=("infer",), archive=climbing, contained=REFUSED)
def an_archive_names_paths_outside(world: Any) -> Any:
    return load_and_call(world)


@attack(
    hurt,
    profiles=("infer",),
    archive=lambda world: rewritten(scripted(HONEST), {"data.pkl": b"\x80\x02" + b"(" * MIB + b"t" * MIB + b"."}),
    contained="a process that crashes takes nobody along, jailed or not",
)
def an_archive_s_data_nests_deeply(world: Any) -> Any:
    return load_and_call(world)


@attack(
    hurt,
    profiles=("infer",),
    archive=lambda world: rewritten(scripted(HONEST), {"__torch__.py": DEEP.encode()}),
    contained="a process that crashes takes nobody along, jailed or not",
)
def an_archive_s_code_nests_deeply(world: Any) -> Any:
    return load_and_call(world)


@attack(hurt, profiles=("infer",), archive=lambda world: os.urandom(MIB), contained=REFUSED)
def an_archive_is_noise(world: Any) -> Any:
    return load_and_call(world)


@attack(leaked)
def a_pickle_reads_a_file(world: Any) -> Any:
    return pickle.loads(gadget(f"open({world.secret!r}).read()"))


@attack(executed, impossible_here=machine.readable("/bin/sh"))
def a_pickle_starts_a_program(world: Any) -> Any:
    return pickle.loads(gadget(f"__import__('os').popen('printf executed:%s {world.word[::-1]}').read()"))


def weights(world: Any) -> bytes:
    """As torch.save writes them, with a pickle that does more."""
    import torch

    class Gadget:
        def __reduce__(self) -> Any:
            return eval, (f"open({world.targets()['secret']!r}).read()",)

    written = io.BytesIO()
    torch.save({"weight": Gadget()}, written)
    return written.getvalue()


@attack(leaked, profiles=("trace",), archive=weights)
def a_file_of_weights_reads_a_file(world: Any) -> Any:
    import torch

    with open(world.files[_ENTRY], "rb", closefd=False) as file:
        return torch.load(file, weights_only=False)


@attack(changed, profiles=("trace",))
def a_tar_file_is_unpacked_over_files_outside(world: Any) -> Any:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("../" * 20 + world.file)
        member.size = 8
        tar.addfile(member, io.BytesIO(b"was here"))
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        trusting = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
        tar.extractall(world.nested, **trusting)
