"""Printouts in their formats: text, JSON, DOT and SVG, by kind and by the form of the graph."""

from concurrent.futures import ThreadPoolExecutor
from inspect import iscoroutinefunction
from threading import Event
from typing import Any
from xml.etree import ElementTree

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from fastapi.testclient import TestClient

from tests.conftest import PATIENCE_S
from tests.service.api.conftest import PRINTOUTS, assert_problem, spec
from tracehouse.artifact.manifest import GraphNode, Printout
from tracehouse.report.graph import svg


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

    document = assert_problem(answer, 422, "invalid-request")
    assert document["formats"] == ["text", "json"]
    assert document["kinds"] == ["graph", "inlined_graph", "onnx_trace"]


def test_a_dump_shows_the_module_whatever_method_is_asked_for(steady: TestClient, digest: str) -> None:
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
    assert steady.get(f"{path}.svg", params={"form": form}).text == there.text


def test_a_graph_is_the_inlined_one_if_nothing_is_said(steady: TestClient, digest: str) -> None:
    assert steady.get(f"/artifacts/{digest}/graph").json()["kind"] == "inlined_graph"


def test_what_there_is_no_onnx_trace_of(steady: TestClient, digest: str) -> None:
    answer = steady.get(f"/artifacts/{digest}/graph", params={"form": "onnx-trace", "submodule": "layer"})

    document = assert_problem(answer, 404, "printout-not-found")
    assert (document["methods"], document["submodules"]) == (["forward"], [""])


@pytest.mark.parametrize(
    "params",
    [{"form": "exported"}, {"format": "png"}, {"open": "x" * 501}, {"open": ["x"] * 51}],
)
def test_a_graph_that_cannot_be_asked_for(steady: TestClient, digest: str, params: Any) -> None:
    assert_problem(steady.get(f"/artifacts/{digest}/graph", params=params), 422, "invalid-request")


def test_pictures_that_take_long_leave_the_other_routes_their_threads(
    steady: TestClient, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing, may_end = Event(), Event()

    def draw(*_: Any) -> str:
        drawing.set()
        may_end.wait(PATIENCE_S)
        return "<svg/>"

    monkeypatch.setattr(svg, "draw", draw)
    path = f"/artifacts/{digest}/graph"
    with ThreadPoolExecutor(81) as callers:
        pictures = [callers.submit(steady.get, path, params={"format": "svg"}) for _ in range(80)]
        try:
            assert drawing.wait(PATIENCE_S)
            assert callers.submit(steady.get, path, params={"format": "text"}).result(10).status_code == 200
            assert not any(picture.done() for picture in pictures)
        finally:
            may_end.set()

    assert {picture.result().text for picture in pictures} == {"<svg/>"}


def test_a_picture_whose_address_is_very_long_has_no_links(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        GraphNode(operator="f", inputs=[], outputs=[], types=[], scope=f"layers.{number // 100}")
        for number in range(300)
    ]
    folded = Printout(kind="inlined_graph", method="forward", submodule="", text="", nodes=nodes)
    monkeypatch.setattr("tests.service.api.conftest.PRINTOUTS", [folded])
    traced = client.post("/trace", json=spec(), headers={"prefer": "wait=30"}).json()["artifacts"][0]["digest"]

    def links(**params: Any) -> list[str | None]:
        answer = client.get(f"/artifacts/{traced}/graph.svg", params=params)
        return [each.get("href") for each in ElementTree.fromstring(answer.text).iter() if each.tag.endswith("}a")]

    assert links() == [f"?open=layers.{number}" for number in range(3)]
    assert links(open="layers.1") == [f"?open=layers.1&open=layers.{number}" for number in (0, 2)]
    assert links(open=["x" * 490] * 50) == []


def test_no_route_takes_threads_that_are_not_shared_out(app: FastAPI) -> None:
    """FastAPI calls a plain function on threads that one tenant could take: those of health alone are left to it."""
    routes = [each.route for each in iter_route_contexts(app.routes)]
    plain = {each.path for each in routes if isinstance(each, APIRoute) and not iscoroutinefunction(each.endpoint)}

    assert plain == {"/readyz", "/v2/health/ready"}
