"""The module that stands for a script or a notebook: opened as the service opens it, it gives what was sent."""

import ast
import asyncio
import io
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
import torch

from tests.sent_sources import files_of
from tracehouse.client.sources.live_model import send_live
from tracehouse.client.submission import Submission
from tracehouse.eager import model, weights
from tracehouse.eager.source import Source
from tracehouse.spec.trace_spec import Init, Weights

X = torch.arange(1.0, 4.0)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Run a text as the script of this process."""

    def run(text: str) -> ModuleType:
        file = tmp_path / "train.py"
        file.write_text(text)
        return run_as_main(monkeypatch, {str(file): text}, str(file))

    return run


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Run texts as the cells of a notebook, which IPython keeps in linecache."""

    def run(*cells: str) -> ModuleType:
        files = {f"/tmp/ipykernel_1/{place}.py": text for place, text in enumerate(cells)}
        for file, text in files.items():
            monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(keepends=True), file))
        return run_as_main(monkeypatch, files, None)

    return run


def run_as_main(monkeypatch: pytest.MonkeyPatch, files: dict[str, str], script: str | None) -> ModuleType:
    main = ModuleType("__main__")
    if script is None:
        vars(main)["get_ipython"] = lambda: None
    else:
        main.__file__ = script
    monkeypatch.setitem(sys.modules, "__main__", main)
    for file, text in files.items():
        exec(compile(text, file, "exec", dont_inherit=True), vars(main))
    return main


@contextmanager
def opened(submission: Submission) -> Iterator[Any]:
    """Open a submission as the service's jail does, and yield the module."""
    entrypoint = submission.source["entrypoint"]
    state = submission.uploads.get("weights.safetensors")
    source = Source(files_of(submission))
    source.install()
    try:
        loaded = model.load(source, entrypoint, Init(), 0, "as-is").module
        if isinstance(state, bytes):
            wanted = Weights.model_validate(submission.weights)
            assert not weights.load(loaded, io.BytesIO(state), wanted, refuse_missing=True).unexpected
        yield loaded
    finally:
        source.uninstall()


def assert_arrives(live: Any) -> Submission:
    """Assert that what is opened answers as the live model does."""
    submission = send_live(live)
    expected = live(X)
    with opened(submission) as arrived:
        assert torch.equal(arrived.forward(X), expected)
    return submission


HEAD = "import torch\nfrom torch import nn\n"
HOLDS = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.held = two\n"
    "    def forward(self, x):\n        return "
)
NET = "class Net(nn.Module):\n    def forward(self, x):\n        return "


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}A = 2\n{NET}x * A\n",
        f"{HEAD}A = torch.tensor(2.0)\n{NET}x * A\n",
        f"{HEAD}from math import pi as circle\n{NET}x * circle\n",
        f"{HEAD}import torch.nn.functional as F\n{NET}F.relu(x)\n",
        f"{HEAD}import xml.etree.ElementTree\n{NET}x * len(xml.etree.ElementTree.Element('a').tag)\n",
        f"{HEAD}relu = torch.relu\n{NET}relu(x)\n",
        f"{HEAD}def double(x):\n    return x * 2\ntwice = double\n{NET}twice(x)\n",
        f"{HEAD}def even(n):\n    return n == 0 or odd(n - 1)\ndef odd(n):\n    return n != 0 and even(n - 1)\n"
        f"{NET}x * even(4)\n",
        f"{HEAD}class Base(nn.Module):\n    pass\n{NET.replace('nn.Module', 'Base')}x + 1\n",
        f"{HEAD}def scaled(c):\n    c.scale = 3\n    return c\n@scaled\n{NET}x * self.scale\n",
        f"{HEAD}class Config:\n    scale = 3\nCONFIG = Config()\nCONFIG.scale = 4\n{NET}x * CONFIG.scale\n",
        f"{HEAD}if True:\n    def double(x):\n        return x * 2\n{NET}double(x)\n",
        f"{HEAD}x = 'unused'\n{NET}x\n",
        "from __future__ import annotations\nfrom torch import nn\nfrom torch import Tensor\n"
        "class Net(nn.Module):\n    def forward(self, x: Tensor) -> Missing:\n        return x\n",
        f"{HEAD}from dataclasses import dataclass\n@dataclass\nclass Config:\n    scale: int = 3\n"
        "class Net(nn.Module):\n    config = Config(5)\n"
        "    def forward(self, x):\n        return x * self.config.scale\n",
        f"{HEAD}@torch.jit.script\ndef double(x):\n    return x * 2\n{NET}double(x)\n",
        f"{HEAD}import functools\n@functools.lru_cache\ndef two(n):\n    return n * 2\n{NET}x * two(1)\n",
        f"{HEAD}import functools\n@functools.lru_cache\ndef two(n):\n    return n * 2\n{HOLDS}self.held(1) * x\n",
        f"{HEAD}INFINITE = float('inf')\n{NET}x.clamp(max=INFINITE)\n",
    ],
    ids=[
        "literal", "tensor", "renamed import", "module alias", "dotted import", "builtin alias", "alias", "recursion",
        "base", "decorator", "object of a class", "in an if", "a local of the same name", "future annotations",
        "class body", "scripted function", "cached function", "cached function held", "infinity",
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["script", "notebook"])
def test_what_a_definition_takes_from_around_it_goes_along(
    request: pytest.FixtureRequest, text: str, place: str
) -> None:
    main = request.getfixturevalue(place)(text)

    assert assert_arrives(main.Net()).notes == []


def test_the_environment_that_a_definition_names_is_the_services(script: Callable[[str], ModuleType]) -> None:
    main = script(f"{HEAD}from os import environ\n{NET}x * len(environ['PATH'])\n")

    assert assert_arrives(main.Net()).notes == ["os.environ stays here: the model meets that of the service"]


def test_a_form_feed_and_a_separator_of_unicode_end_no_line_of_a_script(script: Callable[[str], ModuleType]) -> None:
    main = script(f"{HEAD}\x0c\nA = 2\n{NET}x * len('a\x0cb\u2028c') * A\n")

    assert assert_arrives(main.Net()).notes == []


def test_lines_of_a_script_stay_where_they_are(script: Callable[[str], ModuleType]) -> None:
    text = f"# about\n\n{HEAD}\nA = 2\nprint('training')\n\n\n{NET}x * A\n\n\nprint('end')\n"
    sent = assert_arrives(script(text).Net()).texts["train.py"].splitlines()

    line = text.splitlines().index("class Net(nn.Module):")
    assert sent[line : line + 3] == text.splitlines()[line : line + 3]
    assert not any("print" in each for each in sent)


def test_a_script_may_be_called_as_the_module_that_opens_the_model(
    script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    main = script(f"{HEAD}{NET}x + 1\n")
    main.__file__ = str((tmp_path / "train.py").rename(tmp_path / "live_model.py"))
    main.Net.forward.__code__ = main.Net.forward.__code__.replace(co_filename=main.__file__)

    assert {*assert_arrives(main.Net()).texts} == {"live_model.py", "tracehouse_live_model.py"}


def test_cells_that_need_one_another_are_put_in_order(notebook: Callable[..., ModuleType]) -> None:
    main = notebook(HEAD, "class Base(nn.Module):\n    pass\n", NET.replace("nn.Module", "Base") + "helper(x)\n",
                    "def helper(x):\n    return x + 1\n")  # fmt: skip

    text = assert_arrives(main.Net()).texts["notebook.py"]
    assert text.index("class Base") < text.index("class Net")


def test_a_cell_may_await_at_its_top(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython compiles it so; the class in it is not taken for changed."""
    text = f"{HEAD}import asyncio\n{NET}x + 1\nawait asyncio.sleep(0)\n"
    file = "/tmp/ipykernel_1/0.py"
    monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(keepends=True), file))
    main = run_as_main(monkeypatch, {}, None)
    code = compile(text, file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    asyncio.run(FunctionType(code, vars(main))())

    assert assert_arrives(main.Net()).notes == []


def test_an_object_of_a_class_that_was_defined_anew_since_is_sent_with_its_own(
    notebook: Callable[..., ModuleType],
) -> None:
    main = notebook(f"{HEAD}{NET}x + 1\nold = Net()\n", f"{NET}x + 2\n")

    assert "x + 1" in assert_arrives(main.old).texts["notebook.py"]
    assert "x + 2" in assert_arrives(main.Net()).texts["notebook.py"]


def test_a_value_that_cannot_be_pickled_is_left_out_and_said(script: Callable[[str], ModuleType]) -> None:
    main = script(f"{HEAD}LOG = (i for i in 'ab')\n{NET}x if x is not None else LOG\n")

    [note] = assert_arrives(main.Net()).notes
    assert note.startswith("LOG, a generator that the code names, was left out")


def test_a_script_that_was_changed_while_it_ran_is_said(script: Callable[[str], ModuleType], tmp_path: Path) -> None:
    main = script(f"{HEAD}{NET}x + 1\n")
    (tmp_path / "train.py").write_text(f"{HEAD}{NET}x + 2\n")

    assert "Net.forward is another one here than in train.py" in " ".join(send_live(main.Net()).notes)


def test_memory_that_weights_share_is_shared_where_they_arrive(script: Callable[[str], ModuleType]) -> None:
    main = script(f"{HEAD}{NET}x\n")
    live = main.Net()
    live.whole = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    live.register_buffer("part", live.whole.detach()[1])
    live.tied = live.whole
    live.turned = torch.nn.Parameter(torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last))
    with opened(send_live(live)) as arrived:
        assert arrived.tied is arrived.whole
        assert torch.equal(arrived.part, live.part)
        assert arrived.turned.stride() == live.turned.stride()
        arrived.part.zero_()
        assert arrived.whole[1].tolist() == [0, 0, 0]
