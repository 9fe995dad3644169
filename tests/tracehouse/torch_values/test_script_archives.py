"""Archives are loaded as torch.jit.load loads them, with one copy of their weights, and odd ones as well."""

import io
import zipfile
from collections.abc import Callable

import pytest
import torch

from tracehouse.torch_values import script_archives


class WithConstants(torch.nn.Module):
    """Tensors of its code, one of them twice, beside weights: both are numbered from zero in an archive."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        table = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        return x @ self.weight.T + table[:, 0] * torch.tensor([7, 8]) + table[:, 1]


class SharedViews(torch.nn.Module):
    """Two buffers in one storage, one of them transposed, a half-precision and an empty one."""

    def __init__(self) -> None:
        super().__init__()
        table = torch.arange(12.0).reshape(3, 4)
        self.register_buffer("rows", table[1:])
        self.register_buffer("columns", table.t())
        self.register_buffer("low", torch.ones(3, dtype=torch.float16))
        self.register_buffer("nothing", torch.empty(0, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.rows.t() + self.columns.sum() + self.low.float().sum() + self.nothing.sum()


class Scripted(torch.nn.Module):
    """Attributes that are no tensors, a mode, a dictionary whose key is a number in words, and a method."""

    def __init__(self) -> None:
        super().__init__()
        self.scales: dict[str, torch.Tensor] = {"0": torch.full((3,), 2.0), "1": torch.full((3,), 3.0)}
        self.names: list[str] = ["0", "1"]
        self.times = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in self.names:
            x = x * self.scales[name]
        return x * self.times


def _quantized() -> torch.jit.ScriptModule:
    """Weights that torch packs anew while it loads them, by code of the archive."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 2)).eval()
    quantized = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    return torch.jit.trace(quantized, torch.ones(1, 3))


def _frozen() -> torch.jit.ScriptModule:
    """Weights that are all constants."""
    return torch.jit.freeze(torch.jit.trace(WithConstants().eval(), torch.ones(1, 3)))


def _gelu() -> torch.nn.Module:
    """The archive's version stands under another name: torch gave this operator an argument later."""
    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU(), torch.nn.Linear(3, 2))


class ChangedOperators(torch.nn.Module):
    """Operators that do something else in the archives of older releases, so that the version decides."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spaced = torch.linspace(0.0, 1.0, steps=3) + torch.logspace(0.0, 1.0, steps=3)
        return torch.nn.functional.gelu(x) + torch.div(x, 2) + spaced + torch.full((3,), 1.0)


MODULES: dict[str, Callable[[], torch.jit.ScriptModule]] = {
    "weights": lambda: torch.jit.trace(torch.nn.Linear(3, 2), torch.ones(1, 3)),
    "constants": lambda: torch.jit.trace(WithConstants(), torch.ones(1, 3)),
    "shared views": lambda: torch.jit.trace(SharedViews(), torch.ones(1, 4)),
    "scripted": lambda: torch.jit.script(Scripted()),
    "frozen": _frozen,
    "quantized": _quantized,
    "an operator that has changed": lambda: torch.jit.trace(_gelu(), torch.ones(1, 3)),
    "no tensor": lambda: torch.jit.trace(torch.nn.ReLU(), torch.ones(1, 3)),
    "in train mode": lambda: torch.jit.trace(torch.nn.Linear(3, 2).train(), torch.ones(1, 3)),
}


def _save(module: torch.jit.ScriptModule) -> bytes:
    saved = io.BytesIO()
    torch.jit.save(module, saved)
    return saved.getvalue()


def _fail_to_load(*_: object, **__: object) -> None:
    pytest.fail("torch makes three copies of the weights")


def _is_left_to_torch(archive: io.BytesIO, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether `torch.jit.load` gets the archive."""
    read: list[io.BytesIO] = []
    monkeypatch.setattr(torch.jit, "load", lambda file, **_: read.append(file))
    script_archives.load(archive, "cpu")
    return read == [archive]


@pytest.mark.parametrize("kind", MODULES)
def test_an_archive_is_loaded_as_torch_loads_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = _save(MODULES[kind]())
    expected = torch.jit.load(io.BytesIO(archive), map_location="cpu")
    monkeypatch.setattr(torch.jit, "load", _fail_to_load)

    loaded = script_archives.load(io.BytesIO(archive), "cpu")

    assert loaded.code == expected.code
    assert str(loaded.inlined_graph) == str(expected.inlined_graph)  # with the lines of the source
    assert getattr(loaded, "training", None) == getattr(expected, "training", None)  # a frozen module has no mode
    state, expected_state = loaded.state_dict(), expected.state_dict()
    assert state.keys() == expected_state.keys()
    for name, tensor in expected_state.items():
        if isinstance(tensor, torch.Tensor):
            assert torch.equal(state[name], tensor)
            assert (state[name].dtype, state[name].stride()) == (tensor.dtype, tensor.stride())
    x = torch.randn(2, 4 if kind == "shared views" else 3)
    assert torch.equal(loaded(x), expected(x))


@pytest.mark.parametrize("name", ["version", ".data/version"])
@pytest.mark.parametrize("version", [3, 4, 5, 6, 7, 8, 9, 10])
def test_the_version_says_what_the_operators_mean(version: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = io.BytesIO()
    saved = _save(torch.jit.trace(ChangedOperators(), torch.ones(2, 3)))
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(archive, "w") as new:
        for record in old.namelist():
            top, _, rest = record.partition("/")
            is_version = rest in ("version", ".data/version")
            new.writestr(f"{top}/{name}" if is_version else record, f"{version}\n" if is_version else old.read(record))
    expected = torch.jit.load(io.BytesIO(archive.getvalue()), map_location="cpu")
    monkeypatch.setattr(torch.jit, "load", _fail_to_load)

    loaded = script_archives.load(archive, "cpu")

    assert str(loaded.graph) == str(expected.graph)
    assert torch.equal(loaded(torch.ones(2, 3)), expected(torch.ones(2, 3)))


def test_an_archive_with_an_operator_that_has_changed_has_its_version_elsewhere() -> None:
    with zipfile.ZipFile(io.BytesIO(_save(MODULES["an operator that has changed"]()))) as records:
        names = {name.partition("/")[2] for name in records.namelist()}

    assert ".data/version" in names
    assert "version" not in names


def test_what_shares_memory_in_the_archive_still_does() -> None:
    loaded = script_archives.load(io.BytesIO(_save(MODULES["shared views"]())), "cpu")

    loaded.columns[0, 1] = 100.0

    assert loaded.rows[0, 0] == 100.0


def test_an_error_names_the_line_of_the_source() -> None:
    loaded = script_archives.load(io.BytesIO(_save(MODULES["constants"]())), "cpu")

    with pytest.raises(RuntimeError, match=r"test_script_archives\.py"):
        loaded(torch.ones(1, 4))


def test_a_compressed_archive_is_loaded() -> None:
    module = MODULES["constants"]()
    compressed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(_save(module))) as old,
        zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    compressed.seek(0)

    assert torch.equal(script_archives.load(compressed, "cpu")(torch.ones(1, 3)), module(torch.ones(1, 3)))


@pytest.mark.parametrize(
    "odd",
    [
        "data/constants/0",
        ".data/version",
        ".DATA/version",
        "data/version",
        "constants/x",
        "data/ts_code/0/data.pkl",
        "model.json",
        "MODEL.json",
    ],
)
def test_a_tensor_whose_name_would_mean_another_record_is_read_by_torch(
    odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = _save(MODULES["constants"]())
    with zipfile.ZipFile(changed := io.BytesIO(archive), "a") as records:
        records.writestr(f"{records.namelist()[0].partition('/')[0]}/{odd}", b"3\n")
    changed.seek(0)

    assert _is_left_to_torch(changed, monkeypatch)


@pytest.mark.parametrize("large", ["data/77", "code/__torch__/large.py", "constants.pkl"])
def test_records_that_are_far_larger_than_the_archive_are_left_to_torch(
    large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch reads no more than it needs."""
    archive = _save(MODULES["constants"]())
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        top = old.namelist()[0].partition("/")[0]
        records = {name: old.read(name) for name in old.namelist()}
        records[f"{top}/{large}"] = records.get(f"{top}/{large}", b"") + b"\n" * (1 << 26)
        for name, record in records.items():
            new.writestr(name, record)
    changed.seek(0)

    assert _is_left_to_torch(changed, monkeypatch)


def test_a_pickle_of_very_many_operations_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = _save(MODULES["constants"]())
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            record = old.read(name)
            is_constants = name.endswith("/constants.pkl")
            new.writestr(name, record[:2] + b"N0" * (1 << 20) + record[2:] if is_constants else record)
    changed.seek(0)

    assert _is_left_to_torch(changed, monkeypatch)


def test_an_archive_with_objects_in_its_code_is_read_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = io.BytesIO(_save(torch.jit.freeze(_quantized())))

    assert _is_left_to_torch(archive, monkeypatch)


@pytest.mark.parametrize("cut", [0, 10, 500, -30])
def test_what_is_no_archive_is_refused_as_torch_refuses_it(cut: int) -> None:
    archive = _save(MODULES["weights"]())[:cut]
    with pytest.raises(Exception) as expected:  # noqa: PT011 - of whichever kind
        torch.jit.load(io.BytesIO(archive), map_location="cpu")

    with pytest.raises(expected.type) as refused:
        script_archives.load(io.BytesIO(archive), "cpu")

    assert str(refused.value) == str(expected.value)
