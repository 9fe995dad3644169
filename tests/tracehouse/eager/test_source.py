"""The submitted source: imported from memory, its lines known, its archives not trusted."""

import importlib
import inspect
import io
import linecache
import pkgutil
import random
import stat
import sys
import traceback
import zipfile
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.submissions import text
from tracehouse.byte_units import MIB
from tracehouse.eager.source import FILES_MAX, Source, seed_all
from tracehouse.errors import (
    EntrypointNotFound,
    SourceImportFailed,
    SourceRaised,
    SourceSyntaxError,
    SourceTooLarge,
    SourceUnreadable,
    SourceUnsafe,
    TraceError,
)
from tracehouse.introspection import paths, user_lines

Install = Callable[[Source], Source]


def zipped(*members: tuple[str | zipfile.ZipInfo, str], compression: int = zipfile.ZIP_DEFLATED) -> io.BytesIO:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    packed.seek(0)
    return packed


SQUARE = "from .deep import unit\nfrom shapes.deep.unit import UNIT\n\n\ndef area():\n    return UNIT * unit.UNIT\n"
PACKAGE = [
    ("shapes/__init__.py", "from .square import area\n"),
    ("shapes/square.py", SQUARE),
    ("shapes/deep/unit.py", "UNIT = 2\n"),
    ("shapes/words.txt", "square\n"),
]  # fmt: skip


def test_a_zipped_package_imports_with_relative_imports_and_its_data(installed: Install) -> None:
    source = installed(Source.from_upload(zipped(*PACKAGE), "shapes.zip", "shapes", MIB))
    shapes = source.import_module("shapes", 0)

    assert shapes.area() == 4
    assert pkgutil.get_data("shapes", "words.txt") == b"square\n"
    assert importlib.import_module("shapes.deep").__path__  # a folder without __init__.py


def test_texts_beside_a_zip_take_the_place_of_what_is_in_it(installed: Install) -> None:
    texts = {"shapes/deep/unit.py": "UNIT = 3\n", "shapes/more.py": "MORE = 5\n"}
    source = installed(Source.from_upload(zipped(*PACKAGE), "shapes.zip", "shapes", MIB, texts))

    assert source.import_module("shapes", 0).area() == 9
    assert importlib.import_module("shapes.more").MORE == 5
    assert pkgutil.get_data("shapes", "words.txt") == b"square\n"


LAYOUT = {
    "core/__init__.py": "",
    "core/layers/__init__.py": "from .scale import SCALE\n",
    "core/layers/scale.py": "SCALE = 3\n",
    "core/tools.py": "from layers import SCALE\nFOUND = SCALE\n",
    "src/widths/narrow.py": "WIDTH = 4\n",
}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("net.py", "sys.path.append('core')"),
        ("net.py", "sys.path.insert(0, './core')"),
        ("net.py", "sys.path.append(os.path.join(os.path.dirname(__file__), 'core'))"),
        ("net.py", "sys.path.append(os.path.dirname(os.path.abspath(__file__)) + '/core')"),
        ("net.py", "sys.path.insert(1, str(pathlib.Path(__file__).parent / 'core'))"),
        ("net.py", "sys.path.append(os.path.join(sys.path[0], 'core'))"),
        ("net.py", "sys.path.append(os.path.join(os.getcwd(), 'core'))"),
        ("app/net.py", "sys.path.append(os.path.join(os.path.dirname(__file__), '..', 'core'))"),
        ("app/models/net.py", "sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / 'core'))"),
    ],
)
def test_a_source_puts_its_folders_into_the_import_path(installed: Install, path: str, text: str) -> None:
    files = {**LAYOUT, path: f"import os, pathlib, sys\n{text}\nfrom tools import FOUND\nimport layers.scale\n"}
    net = installed(Source.from_text(files)).import_module(path.removesuffix(".py").replace("/", "."), 0)

    assert net.FOUND == 3
    assert inspect.getsource(net.layers.scale) == "SCALE = 3\n"


def test_a_folder_without_init_is_imported_from_the_import_path(installed: Install) -> None:
    files = {**LAYOUT, "net.py": "import sys\nsys.path.append('src')\nfrom widths.narrow import WIDTH\n"}

    assert installed(Source.from_text(files)).import_module("net", 0).WIDTH == 4


@pytest.mark.parametrize(("change", "mine"), [("append('src')", False), ("insert(0, 'src')", True)])
def test_the_import_path_is_followed_in_its_order(
    installed: Install, monkeypatch: pytest.MonkeyPatch, change: str, mine: bool
) -> None:
    monkeypatch.delitem(sys.modules, "socks", raising=False)
    files = {
        "src/socks.py": "MINE = True\n",
        "net.py": f"import sys\nsys.path.{change}\nimport socks\nMINE = hasattr(socks, 'MINE')\n",
    }

    assert installed(Source.from_text(files)).import_module("net", 0).MINE is mine


@pytest.mark.parametrize("path", ["src/torch/__init__.py", "src/cProfile.py"])
def test_a_module_in_the_import_path_that_is_named_as_one_of_pythons_is_refused(installed: Install, path: str) -> None:
    module = path.removeprefix("src/").partition("/")[0].removesuffix(".py")
    files = {
        path: "",
        "net.py": f"import sys\nsys.path.insert(0, 'src')\nsys.modules.pop({module!r}, None)\nimport {module}\n",
    }
    own = sys.modules.get(module)
    try:
        with pytest.raises(SourceUnsafe) as refused:
            installed(Source.from_text(files)).import_module("net", 0)
    finally:
        if own is not None:
            sys.modules[module] = own
    assert refused.value.facts["names"] == [module]


def test_a_package_of_the_source_in_the_import_path_may_be_called_as_ours(installed: Install) -> None:
    files = {
        "src/service/__init__.py": "MINE = True\n",
        "net.py": "import sys\nsys.path.append('src')\nsys.path.insert(0, 'src')\nfrom service import MINE\n",
    }

    assert installed(Source.from_text(files)).import_module("net", 0).MINE


def test_a_file_that_is_imported_under_two_names_is_known_by_both(installed: Install) -> None:
    text = "import sys\nsys.path.append('core')\nimport tools, core.tools\n"
    net = installed(Source.from_text({**LAYOUT, "net.py": text})).import_module("net", 0)

    assert net.tools is not net.core.tools
    assert {"tools", "core.tools", "net"} <= user_lines.submitted_modules().keys()


def test_the_import_path_is_as_before_when_a_source_is_uninstalled() -> None:
    before = [*sys.path]
    source = Source.from_text({**LAYOUT, "net.py": "import sys\nsys.path.append('core')\nimport tools\n"})
    source.install()
    source.import_module("net", 0)
    source.uninstall()

    assert sys.path == before
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tools")


def test_nothing_is_left_when_a_source_is_uninstalled() -> None:
    source = Source.from_text({"net.py": "X = 1\n"})
    source.install()
    source.import_module("net", 0)
    source.uninstall()

    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("net")
    assert linecache.getline("net.py", 1) == ""


def test_lines_are_there_for_inspect_and_for_tracebacks(installed: Install) -> None:
    net = installed(Source.from_text({"net.py": "def f():\n    raise KeyError('x')\n"})).import_module("net", 0)

    with pytest.raises(KeyError) as raised:
        net.f()
    linecache.checkcache()
    assert inspect.getsource(net.f).startswith("def f()")
    assert "raise KeyError('x')" in "".join(traceback.format_exception(raised.value))
    assert net.f.__code__.co_filename == "net.py"


def test_a_form_feed_and_a_separator_of_unicode_end_no_line(installed: Install) -> None:
    text = "import torch\n\x0c\n# a\u2028b\x1c\r\ndef f(x):\r    return x + 1\n\n\ndef g(x):\n    return x * 2\n"
    net = installed(Source.from_text({"net.py": text})).import_module("net", 0)

    assert linecache.getline("net.py", net.f.__code__.co_firstlineno) == "def f(x):\n"
    assert inspect.getsource(net.f) == "def f(x):\n    return x + 1\n"
    assert torch.jit.script(net.g)(torch.tensor(2.0)) == 4


def test_one_uploaded_file_is_the_entrypoints_module_whatever_its_name(installed: Install) -> None:
    source = installed(Source.from_upload(io.BytesIO(b"X = 1\n"), "my net-v2.py", "net", MIB))

    assert source.import_module("net", 0).X == 1


def test_a_submitted_module_wins_over_an_installed_one_of_its_name(installed: Install) -> None:
    source = installed(Source.from_text({"igraph.py": "MINE = True\n"}))

    assert source.import_module("igraph", 0).MINE


@pytest.mark.parametrize("path", ["torch.py", "json/__init__.py", "numpy.py", "random.py"])
def test_a_module_named_as_one_of_pythons_torchs_or_numpys_is_refused(path: str) -> None:
    with pytest.raises(SourceUnsafe) as refused:
        Source.from_text({"net.py": "", path: ""})
    assert refused.value.facts["names"] == [path.partition("/")[0].removesuffix(".py")]


def test_a_folder_without_modules_may_have_any_name() -> None:
    source = Source.from_text({"net.py": "", "json/words.txt": "one two"})

    assert source.get_data("json/words.txt") == b"one two"


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    "name", ["../net.py", "a/../../net.py", "/net.py", "C:/net.py", "a\\net.py", link("net.py")], ids=str
)
def test_names_that_leave_the_archive_are_refused(name: str | zipfile.ZipInfo) -> None:
    with pytest.raises(SourceUnsafe):
        Source.from_upload(zipped((name, "x")), "net.zip", "net", MIB)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("second", ["net.py", "./net.py"])
def test_a_name_that_an_archive_has_twice_is_refused(second: str) -> None:
    """Whoever reads the archive with another program may see the one, and the other would run."""
    with pytest.raises(SourceUnsafe) as refused:
        Source.from_upload(zipped(("net.py", "x = 1"), (second, "x = 2")), "net.zip", "net", MIB)
    assert refused.value.facts["name"] == "net.py"


def test_an_archive_that_unpacks_to_too_much_is_refused() -> None:
    with pytest.raises(SourceTooLarge) as refused:
        Source.from_upload(zipped(("net.py", "#" * (2 * MIB))), "net.zip", "net", MIB)
    assert refused.value.facts["limit_bytes"] == MIB


def test_the_sizes_that_an_archive_declares_are_not_believed() -> None:
    packed = bytearray(zipped(("net.py", "#" * (2 * MIB))).getvalue())
    declared = packed.rfind(b"PK\x01\x02") + 24  # the uncompressed size in the central directory
    packed[declared : declared + 4] = (10).to_bytes(4, "little")

    with pytest.raises((SourceTooLarge, SourceUnreadable)):
        Source.from_upload(io.BytesIO(packed), "net.zip", "net", MIB)


def test_too_many_files_are_refused() -> None:
    with pytest.raises(SourceTooLarge):
        Source.from_upload(zipped(*[(f"f{n}.py", "") for n in range(FILES_MAX + 1)]), "net.zip", "net", MIB)


def test_damaged_data_in_an_archive_is_unreadable() -> None:
    packed = bytearray(zipped(("net.py", "".join(map(str, range(1000))))).getvalue())
    packed[60:90] = b"\xff" * 30

    with pytest.raises(SourceUnreadable):
        Source.from_upload(io.BytesIO(packed), "net.zip", "net", MIB)


@pytest.mark.parametrize(
    "content", [b"not a zip", b"", zipped(("net.py", "x" * 1000)).getvalue()[:60]], ids=["text", "empty", "cut off"]
)
def test_what_is_no_zip_is_refused(content: bytes) -> None:
    with pytest.raises(SourceUnreadable):
        Source.from_upload(io.BytesIO(content), "net.zip", "net", MIB)


@pytest.mark.parametrize(
    ("source", "error", "line"),
    [
        ("x = 1\nclass Net(:\n", SourceSyntaxError, 2),
        ("x = 1\n\0\n", SourceSyntaxError, 2),
        ("import torch\nimport no_such_package\n", SourceImportFailed, 2),
        ("from torch import no_such_name\n", SourceImportFailed, 1),
        ("\n\n1 / 0\n", SourceRaised, 3),
    ],
)
def test_a_source_that_cannot_be_imported_shows_its_line(
    installed: Install, source: str, error: type[TraceError], line: int
) -> None:
    with pytest.raises(error) as raised:
        installed(Source.from_text({"net.py": source})).import_module("net", 0)
    assert (raised.value.facts["file"], raised.value.facts["line"]) == ("net.py", line)


def test_an_import_that_fails_names_the_module(installed: Install) -> None:
    with pytest.raises(SourceImportFailed) as raised:
        installed(Source.from_text({"net.py": "import no_such_package.part\n"})).import_module("net", 0)
    assert raised.value.facts["module"] == "no_such_package"


def test_a_file_of_a_package_that_is_sent_alone_is_told_to_be_sent_with_it(installed: Install) -> None:
    with pytest.raises(SourceImportFailed) as raised:
        installed(Source.from_text({"net.py": "from .layers import Layer\n"})).import_module("net", 0)
    assert "send the whole package" in raised.value.facts["remedy"]


def test_a_source_that_raises_shows_only_the_users_frames(installed: Install) -> None:
    with pytest.raises(SourceRaised) as raised:
        installed(Source.from_text({"net.py": text("raises_on_import")})).import_module("net", 0)
    frames = raised.value.facts["traceback"]
    assert [(frame["line"], frame["source"]) for frame in frames] == [
        (10, "fail()"),
        (7, 'raise ValueError("not today")'),
    ]


def test_a_module_that_was_not_submitted_is_no_entrypoint(installed: Install) -> None:
    with pytest.raises(EntrypointNotFound) as raised:
        installed(Source.from_text({"net.py": ""})).import_module("json", 0)
    assert raised.value.facts["modules"] == ["net"]


def test_an_exception_that_cannot_be_shown_is_told_all_the_same(installed: Install) -> None:
    evil = "class Evil(Exception):\n    def __str__(self): raise KeyError\nraise Evil()\n"
    with pytest.raises(SourceRaised) as raised:
        installed(Source.from_text({"net.py": evil})).import_module("net", 0)
    assert raised.value.facts["exception"] == "Evil"


def test_library_files_are_shown_without_this_machines_paths() -> None:
    path = "/opt/venv/lib/python3.11/site-packages/timm/models/resnet.py"

    assert user_lines.line_at(path, 3).file == "timm/models/resnet.py"
    assert user_lines.is_user(path)
    assert paths.without_paths(f"%1 : Tensor = aten::relu(%2) # {path}:12:0") == (
        "%1 : Tensor = aten::relu(%2) # timm/models/resnet.py:12:0"
    )


def test_an_import_that_fails_names_the_line_and_what_to_do(installed: Install) -> None:
    source = installed(Source.from_text({"net.py": text("needs_what_is_not_there")}))
    with pytest.raises(SourceImportFailed) as raised:
        source.import_module("net", 0)
    assert "net.py, line 2" in raised.value.detail
    assert "send it" in raised.value.facts["remedy"]


def test_a_torchvision_of_another_torch_is_named(installed: Install) -> None:
    failing = 'raise RuntimeError("operator torchvision::nms does not exist")\n'
    source = installed(Source.from_text({"net.py": failing}))
    with pytest.raises(SourceRaised) as raised:
        source.import_module("net", 0)
    assert "torchvision" in raised.value.facts["remedy"]


def test_a_file_called_as_pythons_own_module_is_to_be_renamed() -> None:
    with pytest.raises(SourceUnsafe) as raised:
        Source.from_text({"types.py": ""})
    assert "rename the file" in raised.value.detail


def seed_all_with_torchs_own(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def draws(seed_with: Callable[[int], None], seed: int) -> list[object]:
    """Draw from each generator before it is seeded, and after."""
    torch.rand(3), torch.randn(1), random.random(), np.random.rand()
    seed_with(seed)
    return [torch.initial_seed(), torch.rand(3).tolist(), torch.randn(3).tolist(), random.random(), np.random.rand()]


@pytest.mark.parametrize("seed", [0, 7, -3, 2**40 + 1, 2**64 - 1, -(2**63)])
def test_a_seed_gives_the_draws_that_torchs_own_seeding_gives(seed: int) -> None:
    assert draws(seed_all, seed) == draws(seed_all_with_torchs_own, seed)


def test_where_torch_is_built_for_other_devices_they_are_seeded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)

    seed_all(5)

    assert seeds == [5]
    assert torch.initial_seed() == 5
