"""What of a live model is sent, and what is said if it cannot be."""

import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import safetensors.torch
import torch

from tests.live_models import Adds, Holds, Locks
from tests.sent_sources import files_of, packed_files
from tracehouse.client.errors import NotSendable
from tracehouse.client.sources.live_model import send_live, send_state
from tracehouse.client.submission import Submission


def weights_of(submission: Submission) -> dict[str, torch.Tensor]:
    return safetensors.torch.load(bytes(submission.uploads["weights.safetensors"]))  # type: ignore[arg-type]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Write files into a folder where Python looks, and import a module of them."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(module: str, **files: str) -> ModuleType:
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.delitem(sys.modules, module, raising=False)
        return __import__(module)

    return make


NET = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


def test_the_sources_of_a_live_model_go_as_text_and_what_opens_it_in_an_archive(
    project: Callable[..., ModuleType],
) -> None:
    submission = send_live(project("text_net", text_net=NET).Net())

    assert submission.source["files"] == {"text_net.py": NET}
    assert [*packed_files(submission)] == ["live_model.py", "live_model_pickles/the-model.pickle"]


def test_what_a_module_imports_goes_along_and_nothing_else(project: Callable[..., ModuleType]) -> None:
    made = project(
        "first_net",
        first_net=f"from first_parts import helper\n{NET}",
        first_parts__helper="def later():\n    from first_parts import lazy\n",
        first_parts__lazy="import orjson\n",
        first_parts__unused="",
    )
    submission = send_live(made.Net())

    assert [*files_of(submission)] == [
        "first_net.py", "first_parts/helper.py", "first_parts/lazy.py", "live_model.py",
        "live_model_pickles/the-model.pickle",
    ]  # fmt: skip
    assert [one.partition(" ")[0] for one in submission.packages] == ["orjson"]


def test_what_is_installed_stays_out_wherever_it_lies(project: Callable[..., ModuleType], tmp_path: Path) -> None:
    installed = tmp_path / "packages"
    (installed / "some_library-1.0.dist-info").mkdir(parents=True)
    (installed / "some_library-1.0.dist-info" / "METADATA").write_text("Name: some-library\nVersion: 1.0\n")
    (installed / "some_library-1.0.dist-info" / "top_level.txt").write_text("some_library\n")
    (installed / "some_library.py").write_text("")
    sys.path.insert(0, str(installed))
    try:
        submission = send_live(project("uses_it", uses_it=f"import some_library\n{NET}").Net())
        packages = submission.packages
    finally:
        sys.path.remove(str(installed))

    assert "some_library.py" not in files_of(submission)
    assert packages == ["some-library 1.0"]


def test_a_cached_function_of_another_module_brings_that_module(project: Callable[..., ModuleType]) -> None:
    made = project("cached_fn", cached_fn="import functools\n@functools.lru_cache\ndef two():\n    return 2\n")

    assert "cached_fn.py" in files_of(send_live(Holds(made.two)))


def test_modules_that_register_something_are_imported_first(project: Callable[..., ModuleType]) -> None:
    made = project("needs_ops", needs_ops=NET, registers_ops="")
    files = files_of(send_live(made.Net(), imports=["registers_ops"]))

    assert "registers_ops.py" in files
    assert b"import registers_ops\n" in files["live_model.py"]
    with pytest.raises(NotSendable, match="imports names 'no_such_module'"):
        send_live(made.Net(), imports=["no_such_module"])


def test_the_same_model_is_sent_as_the_same_bytes() -> None:
    model = torch.nn.Linear(2, 3)

    assert send_live(model).uploads == send_live(model).uploads


def test_weights_go_as_tensors_and_not_in_the_pickle() -> None:
    model = torch.nn.Linear(300, 300)
    submission = send_live(model)

    assert torch.equal(weights_of(submission)["weight"], model.weight)
    assert len(files_of(submission)["live_model_pickles/the-model.pickle"]) < 10_000


def test_tied_weights_go_once() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[1].weight = model[0].weight

    assert weights_of(send_live(model)).keys() == {"0.weight", "0.bias", "1.bias"}


def test_weights_that_no_file_can_have_stay_in_the_pickle() -> None:
    model = Holds(None)
    model.register_buffer("sparse", torch.eye(3).to_sparse())
    model.register_buffer("odd[0]", torch.ones(2, dtype=torch.complex128))
    submission = send_live(model)

    assert submission.weights == {"file": "weights.safetensors", "allow_missing": ["sparse", "odd[[]0]"]}


def test_a_lock_is_replaced_and_said() -> None:
    assert send_live(Locks()).notes == ["a lock was replaced by a new one"]


def test_the_environment_with_its_keys_stays_here_and_that_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_SECRET", "swordfish")
    submission = send_live(Holds([os.environ, os.environb]))

    assert not [file for file, data in files_of(submission).items() if b"swordfish" in data]
    assert submission.notes == ["os.environ stays here: the model meets that of the service"]


def test_a_compiled_or_parallel_wrapper_is_taken_off_and_said() -> None:
    inner = Adds(1.0)

    assert send_live(torch.nn.DataParallel(inner)).notes == ["DataParallel was replaced by the Adds that it holds"]
    assert send_live(torch.compile(inner)).name == "adds"


def test_what_is_included_goes_with_a_compiled_model_or_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("a b")
    scripted = torch.jit.script(torch.nn.Linear(1, 1))

    assert packed_files(send_live(torch.compile(torch.nn.Linear(1, 1)), ["words.txt"]))["words.txt"] == b"a b"
    for beside in ({"include": ["words.txt"]}, {"imports": ["json"]}):
        with pytest.raises(NotSendable, match=r"compiled already \(RecursiveScriptModule\).*leave out include and"):
            send_live(scripted, **beside)
    assert send_live(scripted).source == {"archive": "model.pt"}


def test_a_file_that_was_changed_since_it_was_loaded_is_said(
    project: Callable[..., ModuleType], tmp_path: Path
) -> None:
    made = project("changed_net", changed_net=NET)
    (tmp_path / "changed_net.py").write_text(NET.replace("return x", "return x + 1"))

    assert "import it again" in " ".join(send_live(made.Net()).notes)


def test_a_method_and_a_value_that_were_replaced_in_place_are_said(project: Callable[..., ModuleType]) -> None:
    made = project("patched_net", patched_net=f"SCALE = 2\n{NET}")
    assert send_live(made.Net()).notes == []
    made.SCALE, made.Net.forward, made.Net.extra = 3, Adds.forward, lambda self: None
    made.Net.extra.__module__ = "patched_net"

    notes = " ".join(send_live(made.Net()).notes)
    assert "Net.forward is another one here" in notes
    assert "Net.extra is another one here" in notes
    assert "patched_net.SCALE is 3 here, and 2 in its file: that was sent" in notes


def test_classes_that_python_and_torch_fill_in_are_not_taken_for_changed(project: Callable[..., ModuleType]) -> None:
    """Dataclasses, enums, named tuples and decorated functions have code that is in no file."""
    made = project("filled_net", filled_net=FILLED)

    assert send_live(made.Net()).notes == []


FILLED = """from __future__ import annotations

import dataclasses
import enum
import functools
from typing import NamedTuple

import torch


@dataclasses.dataclass
class Config:
    width: int = 2


class Kind(enum.Enum):
    FIRST = 1


class Pair(NamedTuple):
    left: int


class Net(torch.nn.Module):
    alias = torch.relu

    def __init__(self) -> None:
        super().__init__()
        self.config, self.kind, self.pair = Config(), Kind.FIRST, Pair(1)
        self.functions = functools.partial(helper, 2), Net.static

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return helper(self.config.width, x)

    @staticmethod
    def static(x):
        return x

    again = forward


@functools.lru_cache
def cached(x: int) -> int:
    return x


def helper(scale: int, x: torch.Tensor) -> torch.Tensor:
    return x * scale
"""


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Holds(open(__file__, "rb")), r"held is a BufferedReader .* Set it to None .*model.held = None.* made_by=Net"),  # noqa: SIM115
        (Holds(i for i in "ab"), "held is a generator"),
        (torch.nn.Sequential(Holds(threading.Thread()), Holds(threading.local())), "1.held is a _local"),
        (torch.nn.Linear(2, 2, device="meta"), "'weight' is on the meta device.*to_empty"),
        (Holds(torch.ones(2, device="meta")), "on the meta device"),
        (torch.nn.Linear, r"the class Linear: hand in an object of it, such as Linear\(…\)"),
        (torch.nn.Linear(1, 1).state_dict(), "the model is an OrderedDict: hand in a module"),
        (3, "the model is an int: hand in a module, a method or a function"),
    ],
    ids=["file", "generator", "submodule", "meta", "meta attribute", "class", "state dict", "number"],
)
def test_a_model_that_cannot_be_sent_is_refused_with_what_to_do(model: Any, said: str) -> None:
    with pytest.raises(NotSendable, match=said):
        send_live(model)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Adds(1.0), "adds"),
        (Adds(1.0).forward, "adds"),
        (torch.jit.script(Adds(1.0)), "adds"),
        (torch.relu, "relu"),
        (functools.partial(torch.add, 1), "add"),
        (lambda x: x, "function"),
        (type("Größe", (torch.nn.Module,), {})(), "model"),
        (type("_Net", (torch.nn.Module,), {})(), "net"),
        (type("N" * 63 + "_et", (torch.nn.Module,), {})(), "n" * 63),
    ],
    ids=["module", "method", "compiled", "builtin", "partial", "lambda", "not ASCII", "begins otherwise", "too long"],
)
def test_the_model_is_called_as_its_class_or_function_in_lower_case(model: Any, name: str) -> None:
    assert send_live(model).name == name


def test_a_model_that_is_built_there_is_called_as_its_class() -> None:
    assert send_state(Adds(1.0), Adds, [1.0]).name == "adds"


@pytest.mark.parametrize(
    ("made_by", "args", "said"),
    [
        ("no_such_module:Net", (), "no module 'no_such_module' here"),
        ("torch.nn", (), "write it as module:name"),
        (Adds, (torch.ones(1),), r"args\[0\] is a Tensor: the arguments of made_by are"),
        (3, (), "made_by is a int"),
        ("torch.nn:Zz", (), "made_by names 'torch.nn:Zz', and there is no Zz in it: name a class or a function"),
        ("torch.nn:Linear.zz", (), "there is no zz in it: name a class or a function"),
        ("torch.nn:functional", (), "made_by names 'torch.nn:functional', which is a module"),
        (torch.nn.Linear, (), r"made_by=Linear cannot be called without arguments \(TypeError: .*as args="),
        (torch.nn.Linear, (4, "b"), r"made_by=Linear cannot be called with args=\[4, 'b'\] and kwargs=\{\}"),
    ],
)
def test_a_way_to_build_that_cannot_be_sent_is_refused(made_by: Any, args: Any, said: str) -> None:
    with pytest.raises(NotSendable, match=said):
        send_state(Adds(1.0), made_by, args)


def test_a_part_that_is_built_otherwise_is_said() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model[0] = torch.nn.Identity()
    [note] = send_state(model, "tests.tracehouse.client.test_live_model:build", ()).notes

    assert note == "0 is a Identity, and not what made_by builds: that one is sent"


def build() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.ReLU())


def test_files_that_the_code_opens_go_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words.txt").write_text("a b")

    assert files_of(send_live(Adds(1.0), include=["data"]))["data/words.txt"] == b"a b"
    with pytest.raises(NotSendable, match="there is no such file or folder"):
        send_live(Adds(1.0), include=["nothing"])
    with pytest.raises(NotSendable, match="lies outside of"):
        send_live(Adds(1.0), include=[__file__])
