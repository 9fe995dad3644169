"""Graphs in the language of Graphviz: well-formed whatever is in them, with submodules as clusters."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tracehouse.artifact.manifest import GraphNode, Printout
from tracehouse.report.graph.dot import write

# As https://graphviz.org/doc/info/lang.html has it, and strictly: what we write is a part of the language.
_TOKEN = re.compile(r'\s*("(?:[^"\\\0]|\\[\\"n])*"|->|[{}\[\]=;,]|[A-Za-z_][A-Za-z_0-9]*|[0-9]+)')


class Dot:
    """What a text in the language says. AssertionError where it is not in it."""

    def __init__(self, text: str) -> None:
        self._tokens = self._cut(text)
        self.nodes: dict[str, dict[str, str]] = {}
        self.edges: list[tuple[str, str]] = []
        self.clusters: dict[str, list[str]] = {}
        assert self._next() == "digraph"
        self.name = self._text()
        self._block([])
        assert next(self._tokens, None) is None

    def _cut(self, text: str) -> Iterator[str]:
        place = 0
        while text[place:].strip():
            token = _TOKEN.match(text, place)
            assert token, text[place : place + 100]
            yield token[1]
            place = token.end()

    def _next(self) -> str:
        return next(self._tokens)

    def _text(self, token: str | None = None) -> str:
        token = token or self._next()
        if not token.startswith('"'):
            assert re.fullmatch(r"\w+", token), token
            return token
        return re.sub(r"\\(.)", lambda escape: {"n": "\n"}.get(escape[1], escape[1]), token[1:-1])

    def _block(self, clusters: list[str]) -> None:
        assert self._next() == "{"
        while (token := self._next()) != "}":
            if token == "subgraph":
                name = self._text()
                assert name.startswith("cluster_")
                assert name not in self.clusters
                self.clusters[name] = []
                self._block([*clusters, name])
            else:
                self._statement(self._text(token), clusters)

    def _statement(self, subject: str, clusters: list[str]) -> None:
        token = self._next()
        if token == "=":
            self._text()
            token = self._next()
        elif token == "->":
            self.edges.append((subject, self._text()))
            self._attributes(self._next())
            token = self._next()
        else:
            attributes = self._attributes(token)
            token = self._next()
            if subject not in ("node", "graph"):
                self.nodes[subject] = attributes
                for cluster in clusters[-1:]:
                    self.clusters[cluster].append(attributes["label"])
        assert token == ";"

    def _attributes(self, token: str) -> dict[str, str]:
        assert token == "["
        attributes = {}
        while token != "]":
            name = self._text()
            assert self._next() == "="
            attributes[name] = self._text()
            token = self._next()
            assert token in ("]", ",")
        return attributes


def linear(**named: str) -> Printout:
    node = GraphNode(
        operator=named.get("operator", "aten::linear"),
        inputs=[named.get("x", "x")],
        outputs=["y"],
        types=["Float(1, 2)"],
        scope=named.get("scope", "encoder.layer"),
        file="linear.py",
        line=10,
        source=named.get("source", "return self.layer(x)"),
    )
    return Printout(
        kind="graph", method="forward", submodule="", text="", inputs=node.inputs, outputs=["y"], nodes=[node]
    )


def test_nodes_edges_and_a_cluster_for_each_submodule() -> None:
    graph = Dot(write(linear()))

    assert graph.name == "graph forward"
    assert [node["label"] for node in graph.nodes.values()] == ["x", "return\ny", "aten::linear\nFloat(1, 2)"]
    assert graph.edges == [("n0", "n1"), ("n1", "n2")]
    assert graph.clusters == {"cluster_encoder": [], "cluster_encoder.layer": ["aten::linear\nFloat(1, 2)"]}
    assert "linear.py:10\nreturn self.layer(x)" in graph.nodes["n1"]["tooltip"]


HOSTILE = [
    '"]; evil [label="',
    "\\",
    '\\"',
    "\\N \\l \\G",
    "a\nb\r\nc",
    "\x00\x1b\ud800",
    "<b>x</b>",
    "]}",
    "// /* #",
    "é→",
]


@pytest.mark.parametrize("part", ["operator", "x", "scope", "source"])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_whatever_names_hold_is_text(hostile: str, part: str) -> None:
    graph = Dot(write(linear(**{part: hostile})))

    assert len(graph.nodes) == 3
    assert len(graph.edges) == 2
    graph_text = write(linear(**{part: hostile}))
    graph_text.encode()


def test_what_a_name_holds_is_shown_as_it_is() -> None:
    assert Dot(write(linear(operator='say "\\N"'))).nodes["n1"]["label"] == 'say "\\N"\nFloat(1, 2)'


def test_characters_that_nobody_sees_are_named() -> None:
    shown = Dot(write(linear(operator="a\u200b\x00\u202eb"))).nodes["n1"]["label"]

    assert shown == "a⟨ZERO WIDTH SPACE⟩⟨U+0000⟩⟨RIGHT-TO-LEFT OVERRIDE⟩b\nFloat(1, 2)"


def test_a_large_graph_is_folded_as_the_picture_is() -> None:
    nodes = [
        GraphNode(operator="f", inputs=[f"v{n}"], outputs=[f"v{n + 1}"], types=[], scope=f"encoder.layers.{n // 100}")
        for n in range(1000)
    ]
    graph = Printout(
        kind="graph", method="forward", submodule="", text="", inputs=["v0"], outputs=["v1000"], nodes=nodes
    )

    folded, opened = (Dot(write(graph, paths, lambda path: f"?open={path}")) for paths in ([], ["encoder.layers.3"]))

    assert folded.clusters["cluster_encoder.layers"] == [f"encoder.layers.{n}\n100 nodes" for n in range(10)]
    assert next(node["URL"] for node in folded.nodes.values() if "URL" in node) == "?open=encoder.layers.0"
    assert len(opened.nodes) == 2 + 9 + 100
    assert opened.clusters["cluster_encoder.layers.3"] == ["f"] * 100


@pytest.mark.parametrize(
    "nodes",
    [
        [{"operator": "x" * 1_000_000}, *[{"operator": "prim::Param", "parent": 0, "block": n} for n in range(500)]],
        [{"scope": "x" * 100_000 + ".a" * 60}],
        [{"scope": ".".join(["a" * 100] * 1000), "outputs": ["y" * 100_000], "types": ["T" * 100_000]}] * 90,
    ],
    ids=["a parent's operator", "the first step of a scope", "a value and its type"],
)
def test_a_long_text_is_not_repeated_for_all_that_refer_to_it(nodes: list[dict[str, Any]]) -> None:
    defaults: dict[str, Any] = {"operator": "f", "inputs": ["y" * 100_000], "outputs": [], "types": []}
    made_up = [GraphNode.model_validate(defaults | node) for node in nodes]
    graph = Printout(kind="graph", method="forward", submodule="", text="", nodes=made_up)

    text = write(graph)

    assert len(Dot(text).nodes) == len(nodes)
    assert len(text) < 400_000
