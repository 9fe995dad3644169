"""Printouts in their formats: text, JSON, DOT and SVG, by kind and by the form of the graph."""

from typing import Any
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

from tests.api.conftest import PRINTOUTS, problem


def texts(svg: str) -> list[str | None]:
    return [element.text for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]


@pytest.mark.parametrize("kind", ["graph", "inlined_graph", "onnx_trace"])
def test_a_graph_in_each_format(steady: TestClient, digest: str, kind: str) -> None:
    path = f"/artifacts/{digest}/printouts/{kind}"
    printout = next(each for each in PRINTOUTS if each.kind == kind)

    assert steady.get(path, params={"format": "text"}).text == printout.text
    assert steady.get(path, params={"format": "json"}).json() == printout.model_dump()
    dot = steady.get(path, params={"format": "dot"})
    assert dot.headers["content-type"] == "text/vnd.graphviz; charset=utf-8"
    assert dot.text.startswith(f'digraph "{kind} forward" {{')
    assert 'subgraph "cluster_layer"' in dot.text
    svg = steady.get(path, params={"format": "svg"})
    assert svg.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in svg.headers["content-security-policy"]
    assert "aten::linear" in texts(svg.text)


@pytest.mark.parametrize("form", ["dot", "svg"])
@pytest.mark.parametrize("kind", ["code", "dump"])
def test_what_is_no_graph_is_not_drawn(steady: TestClient, digest: str, kind: str, form: str) -> None:
    answer = steady.get(f"/artifacts/{digest}/printouts/{kind}", params={"format": form})

    document = problem(answer, 422, "invalid-request")
    assert document["formats"] == ["text", "json"]
    assert document["kinds"] == ["graph", "inlined_graph", "onnx_trace"]


def test_a_dump_is_of_a_module_whatever_the_method(steady: TestClient, digest: str) -> None:
    for params in ({}, {"method": "forward"}, {"method": "encode"}):
        answer = steady.get(f"/artifacts/{digest}/printouts/dump", params=params)
        assert answer.text == "module Linear {\n}\n"


@pytest.mark.parametrize(
    ("form", "kind"), [("graph", "graph"), ("inlined", "inlined_graph"), ("onnx-trace", "onnx_trace")]
)
def test_the_forms_of_a_graph(steady: TestClient, digest: str, form: str, kind: str) -> None:
    path = f"/artifacts/{digest}/graph"
    printout = next(each for each in PRINTOUTS if each.kind == kind)

    assert steady.get(path, params={"form": form}).json() == printout.model_dump()
    for format_ in ("text", "dot", "svg"):
        there = steady.get(f"/artifacts/{digest}/printouts/{kind}", params={"format": format_})
        assert steady.get(path, params={"form": form, "format": format_}).text == there.text


def test_a_graph_is_the_inlined_one_if_nothing_is_said(steady: TestClient, digest: str) -> None:
    assert steady.get(f"/artifacts/{digest}/graph").json()["kind"] == "inlined_graph"


def test_what_there_is_no_onnx_trace_of(steady: TestClient, digest: str) -> None:
    answer = steady.get(f"/artifacts/{digest}/graph", params={"form": "onnx-trace", "submodule": "layer"})

    document = problem(answer, 404, "printout-not-found")
    assert (document["methods"], document["submodules"]) == (["forward"], [""])


@pytest.mark.parametrize(
    "params",
    [{"form": "exported"}, {"format": "png"}, {"open": "x" * 501}, {"open": ["x"] * 51}],
)
def test_a_graph_that_cannot_be_asked_for(steady: TestClient, digest: str, params: Any) -> None:
    problem(steady.get(f"/artifacts/{digest}/graph", params=params), 422, "invalid-request")
