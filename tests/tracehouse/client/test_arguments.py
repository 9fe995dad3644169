"""Arguments that are lists and dicts: one thing alone, and slips, which are refused before anything is sent."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tracehouse import Client
from tracehouse.client import requests
from tracehouse.client.errors import NotSendable, UnexpectedReply

X = np.ones((1, 2), np.float32)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "words.txt").write_text("a b")
    (tmp_path / "secret.txt").write_text("c d")
    return tmp_path


def parts_of(**arguments: Any) -> dict[str, bytes]:
    """What is sent, by the names of the parts."""
    flow = requests.trace("torch.nn:Linear", X, **{"args": [2, 3], **arguments})
    contents = {name: content for _, (name, content, _) in next(flow).files}
    return {name: content if isinstance(content, bytes) else content.read() for name, content in contents.items()}


def sent(**arguments: Any) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(parts_of(**arguments)["request.json"])
    return request


@pytest.mark.parametrize("include", ["inc", Path("inc"), ["inc"], (Path("inc"),)])
def test_one_folder_is_included_alone_and_in_a_list(here: Path, include: Any) -> None:
    with zipfile.ZipFile(io.BytesIO(parts_of(include=include)["source.zip"])) as packed:
        assert packed.namelist() == ["inc/words.txt"]


def test_one_module_package_device_and_size_stand_alone() -> None:
    request = sent(imports="torch", stub_missing="cv2", devices="cuda", buckets={"seq": 8})

    assert request["source"]["stub_missing"] == ["cv2"]
    assert "import torch\n" in request["source"]["files"]["torch_nn_entry.py"]
    assert (request["devices"], request["buckets"]) == (["cuda"], {"seq": [8]})


def test_what_is_none_is_not_there() -> None:
    request = sent(include=None, imports=None, stub_missing=None, check_inputs=None, options=None)

    assert request == sent()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"include": ""}, r'include\[0\] is an empty text: .*"." is all'),
        ({"include": ["inc", ""]}, r"include\[1\] is an empty text"),
        ({"include": [b"inc"]}, r"include\[0\] is of type bytes: .*include="),
        ({"include": [None]}, r"include\[0\] is of type NoneType"),
        ({"include": b"inc"}, "include is of type bytes"),
        ({"include": 5}, "include is of type int"),
        ({"include": {"inc": 5}}, "include is of type dict"),
        ({"imports": [None]}, r"imports\[0\] is of type NoneType: .*imports="),
        ({"stub_missing": [5]}, r"stub_missing\[0\] is of type int: .*stub_missing="),
        ({"devices": [None]}, r"devices\[0\] is of type NoneType: .*devices="),
        ({"check_inputs": X}, "check_inputs is of type ndarray: .*check_inputs="),
        ({"check_inputs": {"x": X}}, "check_inputs is of type dict: .*check_inputs="),
        ({"buckets": [8]}, "buckets is of type list: .*buckets="),
        ({"buckets": {"seq": ["a"]}}, r"buckets\['seq'\]\[0\] is of type str"),
        ({"sizes": ["seq"]}, "sizes is of type list: .*sizes="),
        ({"dynamic": ["x"]}, "dynamic is of type list: write dynamic as"),
        ({"dynamic": {"x": ["seq"]}}, r"dynamic\['x'\] is of type list: write dynamic as"),
        ({"methods": ["encode"]}, "methods is of type list: .*methods="),
        ({"options": "freeze"}, "options is of type str: .*options="),
        ({"args": 4}, "args is of type int: .*args="),
        ({"args": "ab"}, "args is of type str: .*args="),
        ({"kwargs": [4]}, "kwargs is of type list: .*kwargs="),
        ({"weights": [1]}, "weights is of type list: give a file, or a state dict"),
        ({"weights": ""}, "weights names ''"),
        ({"environment": Path("vision")}, "environment cannot be sent .*PosixPath"),
        ({"options": {"freeze": {1}}}, "options cannot be sent .*set"),
    ],
)
def test_a_slip_is_refused_with_what_to_give(here: Path, arguments: Any, said: str) -> None:
    with pytest.raises(NotSendable, match=said):
        sent(**arguments)


LOOP: list[Any] = []
LOOP.append(LOOP)
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tolerance": float("inf")}, "tolerance is inf: give a number above 0"),
        ({"tolerance": float("nan")}, "tolerance is nan: give a number above 0"),
        ({"tolerance": True}, "tolerance is of type bool: give a number above 0"),
        ({"tolerance": "1e-4"}, "tolerance is of type str: give a number above 0"),
        ({"budget_s": float("nan")}, "budget_s is nan: give seconds"),
        ({"budget_s": -float("inf")}, "budget_s is -inf: give seconds"),
        ({"budget_s": 10**400}, "budget_s is of type int: give seconds"),
        ({"name": ""}, "name is '': a name is 1 to 64 letters.*Leave name out"),
        ({"name": 5}, "name is 5: a name is 1 to 64 letters"),
        ({"options": {"freeze": [float("nan")]}}, r"options\['freeze'\]\[0\] is nan"),
        ({"args": [2, float("inf")]}, r"args\[1\] is inf: JSON has no such number"),
        ({"example_kwarg_inputs": {"scale": float("nan")}}, r"\['scale'\] is nan: .*in a tensor"),
        ({"check_inputs": [np.float64("nan")]}, r"check_inputs\[0\]\[0\] is nan: .*in a tensor"),
    ],
)
def test_a_value_that_json_would_lose_is_refused_and_not_taken_as_left_out(arguments: Any, said: str) -> None:
    with pytest.raises(NotSendable, match=said):
        sent(**arguments)


@pytest.mark.parametrize("endless", [LOOP, DEEP], ids=["holds itself", "deep"])
@pytest.mark.parametrize(
    ("argument", "put", "said"),
    [
        ("check_inputs", lambda endless: [endless], r"check_inputs\[0\] is nested without end"),
        ("methods", lambda endless: {"encode": endless}, r"methods\['encode'\] is nested without end"),
        ("example_kwarg_inputs", lambda endless: {"x": endless}, "example_inputs is nested without end"),
        ("args", lambda endless: endless, "args or kwargs is nested without end"),
        ("kwargs", lambda endless: {"bias": {"a": endless}}, "args or kwargs is nested without end"),
        ("options", lambda endless: {"freeze": endless}, "options is nested without end"),
        ("sizes", lambda endless: {"seq": endless}, r"sizes\['seq'\] is .*: give the first and the last size"),
        ("buckets", lambda endless: {"seq": endless}, r"buckets\['seq'\]\[0\] is of type list"),
    ],
)
def test_lists_without_end_are_refused(argument: str, put: Callable[[Any], Any], said: str, endless: Any) -> None:
    with pytest.raises(NotSendable, match=said):
        sent(**{argument: put(endless)})


def test_numbers_of_numpy_are_numbers() -> None:
    request = sent(
        sizes={"seq": (np.int64(1), np.int32(128)), "rows": range(np.int64(2), np.int64(9), 2)},
        buckets={"seq": [np.int64(8), 16]},
        dynamic={"x": {np.int64(0): "seq", "1": "rows"}},
        tolerance=np.float32(0.5),
        budget_s=np.int64(9),
    )

    assert request["sizes"] == {"seq": {"low": 1, "high": 128}, "rows": {"low": 2, "high": 8, "step": 2}}
    assert request["buckets"] == {"seq": [8, 16]}
    assert request["dynamic"] == {"x": {"0": "seq", "1": "rows"}}
    assert (request["check"]["check_tolerance"], request["check"]["budget_s"]) == (0.5, 9)
    assert sent(buckets={"seq": np.int64(8)})["buckets"] == {"seq": [8]}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"sizes": {"seq": (True, 8)}}, r"sizes\['seq'\] is \(True, 8\): give the first"),
        ({"buckets": {"seq": [True]}}, r"buckets\['seq'\]\[0\] is of type bool: give the sizes"),
        ({"dynamic": {"x": {-1: "seq"}}}, r"dynamic\['x'\] has -1 as a dim: write dynamic as .* from the left"),
        ({"dynamic": {"x": {"seq": 1}}}, r"dynamic\['x'\] has 'seq' as a dim: write dynamic as"),
        ({"dynamic": {"x": {True: "seq"}}}, r"dynamic\['x'\] has True as a dim: write dynamic as"),
    ],
)
def test_what_is_no_size_or_dim_is_refused(arguments: Any, said: str) -> None:
    with pytest.raises(NotSendable, match=said):
        sent(**arguments)


@pytest.mark.parametrize("scopes", ["read", ["read"], ("read",), {"read"}])
def test_one_scope_of_a_key_stands_alone(scopes: Any) -> None:
    asked: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content)["scopes"])
        return httpx.Response(201, json={})

    with Client("http://service", transport=httpx.MockTransport(answer)) as client:
        with pytest.raises(UnexpectedReply):
            client.keys.create("me", scopes)
        with pytest.raises(NotSendable, match=r"scopes\[0\] is of type NoneType"):
            client.keys.create("me", [None])  # type: ignore[list-item]
    assert asked == [["read"]]
