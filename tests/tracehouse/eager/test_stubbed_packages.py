"""Stubs: missing packages that can be imported, and that raise when the model uses them."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tracehouse.eager import model
from tracehouse.eager.error_translation import translate_errors
from tracehouse.eager.model import LoadedModel
from tracehouse.eager.source import Source
from tracehouse.eager.stubbed_packages import StubbedPackages
from tracehouse.errors import ModelRaised, SourceImportFailed, StubbedPackageUsed, TraceError
from tracehouse.spec.trace_spec import Init

Load = Callable[..., LoadedModel]

HEAD = "import torch\n"
NET = """
class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2
"""


@pytest.fixture
def load(installed: Callable[[Source], Source]) -> Iterator[Load]:
    """The model of a text, whose missing packages are stubbed."""
    stubs = StubbedPackages(["absent", "einops_absent", "torch", "socks"])
    stubs.install()

    def load(text: str) -> LoadedModel:
        return model.load(installed(Source.from_text({"net.py": HEAD + text})), "net:Net", Init(), 0)

    yield load
    stubs.uninstall()


def call(loaded: LoadedModel) -> Any:
    with translate_errors(ModelRaised, "forward raised"):
        return loaded.copy_module()(torch.ones(2))


IN_A_BODY = [
    "import absent",
    "import absent.deep.deeper as it",
    "from absent.deep import Name, other as another",
    "import absent\nlog = absent.make('x').bind(level=3)\nlog.level = 4\nlog['x'] = 5",
    "from absent import Base\nclass Mine(Base):\n    x = 1",
    "from absent import Base, Mixin\nclass Mine(torch.nn.Module, Base[int], Mixin, metaclass=type):\n    x = 1",
    "import absent\n@absent.jit\ndef f(x):\n    return x",
    "import absent\n@absent.register('name', force=True)\nclass Other:\n    pass",
    "import absent\nfrom typing import Optional\ndef f(x: Optional[absent.Run], y: absent.A | None) -> 'absent.B': ...",
    "try:\n    from absent import fast\nexcept ImportError:\n    fast = None\nHAS = fast is not None",
]


@pytest.mark.parametrize("text", IN_A_BODY)
def test_a_stub_takes_part_in_the_body_of_a_module(load: Load, text: str) -> None:
    assert call(load(text + NET)).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("body", "used", "named"),
    [
        ("import absent", "absent.log(1)", "absent.log was used"),
        ("import absent", "absent.run is None", "absent.run was used"),
        ("from absent import fast", "fast(x)", "absent.fast was used"),
        ("from absent import fast", "fast.deep", "absent.fast.deep was used"),
        ("from absent import fast", "x + fast", "absent.fast was used"),
        ("from absent import fast", "fast + 1", "absent.fast was used"),
        ("from absent import fast", "1 if fast else 2", "absent.fast was used"),
        ("from absent import fast", "fast == 'x'", "absent.fast was used"),
        ("from absent import fast", "isinstance(x, fast)", "absent.fast was used"),
        ("from absent import fast", "[*fast]", "absent.fast was used"),
        ("from absent import fast", "fast[0]", "absent.fast was used"),
        (
            "import absent\n@absent.jit(nopython=True)\ndef f(x):\n    return x",
            "f(x)",
            "'f', which absent.jit() decorates",
        ),
        ("import absent\n@absent.tag\nclass C:\n    pass", "C()", "'C', which absent.tag decorates"),
        ("import absent\nclass C(absent.Base):\n    pass", "C()", "'C', a subclass of absent.Base"),
        ("", "__import__('absent').log(1)", "absent.log was used"),
        ("", "from absent import log; log(1)", "absent.log was used"),
    ],
)
def test_a_use_in_the_model_raises_and_names_the_package(load: Load, body: str, used: str, named: str) -> None:
    net = f"{body}\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        {used}\n        return x\n"
    with pytest.raises(StubbedPackageUsed) as raised:
        call(load(net))

    assert named in raised.value.detail
    assert "absent is not installed" in raised.value.detail
    assert raised.value.facts["package"] == "absent"
    assert raised.value.facts["line"] == 2 + net[: net.index(f"        {used}\n")].count("\n")


@pytest.mark.parametrize("caught", ["except Exception", "except", "except BaseException"])
@pytest.mark.parametrize("otherwise", ["return x", "raise ValueError"])
def test_a_model_that_catches_everything_does_not_go_on_without_the_package(
    load: Load, caught: str, otherwise: str
) -> None:
    net = f"""
from absent import fast
class Net(torch.nn.Module):
    def forward(self, x):
        try:
            return fast(x)
        {caught}:
            {otherwise}
"""
    with pytest.raises(StubbedPackageUsed) as raised:
        call(load(net))
    assert raised.value.facts["line"] == 7


@pytest.mark.parametrize(
    "text",
    [
        "import absent\nclass Net(absent.LightningModule):\n    pass",
        "import absent\n@absent.register\nclass Net(torch.nn.Module):\n    pass",
        "import absent\nclass Net(torch.nn.Module):\n    def __init__(self):\n        self.loss = absent.Loss()",
        "import absent\nif absent.run:\n    x = 1" + NET,
        "import absent\nif absent.mode == 'online':\n    x = 1" + NET,
    ],
)
def test_a_model_that_is_made_of_a_stub_is_refused(load: Load, text: str) -> None:
    with pytest.raises(StubbedPackageUsed) as raised:
        load(text)
    assert raised.value.facts["package"] == "absent"


def test_a_package_that_is_installed_is_used_as_it_is(load: Load) -> None:
    loaded = load("import socks\nSCALE = socks.PROXY_TYPE_SOCKS5" + NET.replace("* 2", "* SCALE"))

    assert call(loaded).tolist() == [2, 2]


def test_a_missing_module_of_an_installed_package_stays_missing(load: Load) -> None:
    with pytest.raises(SourceImportFailed):
        load("import torch.no_such_module" + NET)


def test_a_module_of_the_source_comes_before_a_stub(installed: Callable[[Source], Source], load: Load) -> None:
    files = {"absent.py": "SCALE = 3\n", "net.py": HEAD + "from absent import SCALE" + NET.replace("* 2", "* SCALE")}
    loaded = model.load(installed(Source.from_text(files)), "net:Net", Init(), 0)

    assert call(loaded).tolist() == [3, 3]


def test_a_stub_in_the_models_attributes_is_copied_with_it(load: Load) -> None:
    net = """
import absent
LOG = absent.logger()
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.log, self.module = LOG, absent
    def forward(self, x):
        return x * 2
"""
    loaded = load(net)

    assert call(loaded).tolist() == [2, 2]
    assert torch.jit.trace(loaded.copy_module(), torch.ones(2))(torch.ones(2)).tolist() == [2, 2]


def test_what_is_missing_and_not_named_says_how_to_name_it(load: Load) -> None:
    with pytest.raises(TraceError) as raised:
        load("import absent_too" + NET)

    assert raised.value.facts["module"] == "absent_too"
    assert "stub_missing" in raised.value.facts["remedy"]


def test_nothing_is_left_when_stubs_are_uninstalled(installed: Callable[[Source], Source]) -> None:
    stubs = StubbedPackages(["absent", "never"])
    stubs.install()
    installed(Source.from_text({"net.py": "import absent.deep\n"})).import_module("net", 0)
    imported = stubs.imported
    stubs.uninstall()

    assert imported == ["absent"]
    assert not [name for name in sys.modules if name.startswith("absent")]
