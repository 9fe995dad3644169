"""Pictures of graphs: well-formed whatever is in them, and of a size that can be looked at."""

import re
from collections.abc import Callable, Sequence
from typing import Any
from xml.etree import ElementTree

import pytest

from tracehouse.artifact.manifest import GraphNode, Printout
from tracehouse.report.graph.boxes import BOXES_MAX, EDGES_MAX, INPUTS_MAX, READABLE_MAX
from tracehouse.report.graph.svg import draw

SVG = "{http://www.w3.org/2000/svg}"


def printout(nodes: list[GraphNode], inputs: list[str], outputs: list[str]) -> Printout:
    return Printout(
        kind="inlined_graph", method="forward", submodule="", text="", inputs=inputs, outputs=outputs, nodes=nodes
    )


def chain(length: int, scopes: int = 1) -> Printout:
    """A long model with skips: each node is fed by the one before it, every tenth by an earlier one, too."""
    nodes = []
    for number in range(length):
        skipped = [f"v{number - 10}"] if number >= 10 and number % 10 == 0 else []
        block = number * scopes // length
        nodes.append(
            GraphNode(
                operator="aten::add",
                inputs=[f"v{number - 1}" if number else "x", *skipped],
                outputs=[f"v{number}"],
                types=["Float(1, 4)"],
                scope=f"__module.layer{block}/__module.layer{block}.{number % 2}",
            )
        )
    return printout(nodes, ["x"], [f"v{length - 1}"])


def boxes(svg: str) -> list[ElementTree.Element]:
    return [rect for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect") if rect.get("class") == "box"]


def test_data_flows_downwards() -> None:
    heights = [float(box.get("y", "")) for box in boxes(draw(chain(30)))]

    assert len(heights) == 32
    assert heights == sorted(heights)
    assert len(set(heights)) == 32


def test_no_two_boxes_lie_over_each_other() -> None:
    wide = [GraphNode(operator="f", inputs=["x"], outputs=[f"v{n}"], types=[]) for n in range(40)]
    wide.append(GraphNode(operator="g", inputs=[f"v{n}" for n in range(40)], outputs=["y"], types=[]))

    corners = {(box.get("x"), box.get("y")) for box in boxes(draw(printout(wide, ["x"], ["y"])))}

    assert len(corners) == 43


def test_constants_and_the_way_to_weights_are_left_out() -> None:
    nodes = [
        GraphNode(operator='prim::GetAttr[name="w"]', inputs=["self"], outputs=["w"], types=["Tensor"]),
        GraphNode(operator="prim::Constant[value=1]", inputs=[], outputs=["one"], types=["int"]),
        GraphNode(operator="prim::ListConstruct", inputs=["one", "one"], outputs=["stride"], types=["int[]"]),
        GraphNode(operator="aten::conv2d", inputs=["x", "w", "stride"], outputs=["y"], types=["Tensor"]),
        GraphNode(operator="prim::ListConstruct", inputs=["y", "one"], outputs=["z"], types=["Tensor[]"]),
    ]

    assert len(boxes(draw(printout(nodes, ["self", "x"], ["z"])))) == 4  # x, conv2d, the list of y, return


def test_a_call_bears_the_name_of_what_is_called_and_a_type_is_shown_without_its_strides() -> None:
    node = GraphNode(
        operator="prim::CallMethod",
        inputs=["layer1", "x"],
        outputs=["y"],
        types=["Float(1, 2, strides=[2, 1], requires_grad=0, device=cpu)"],
    )

    texts = [text.text for text in ElementTree.fromstring(draw(printout([node], ["x"], ["y"]))).iter(f"{SVG}text")]

    assert texts == ["x", "layer1()", "Float(1, 2)", "return", "y"]


def test_hostile_names_stay_text() -> None:
    evil = '</title><script>alert(1)</script>\x00\x1b\ud800\uffff&amp;"'
    node = GraphNode(
        operator=evil, inputs=[evil], outputs=["y"], types=[evil], scope=evil, file=evil, line=1, source=evil
    )

    picture = draw(printout([node], [evil], ["y"]).model_copy(update={"method": evil, "submodule": evil}))

    tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(picture.encode()).iter()}
    assert tags == {"svg", "title", "style", "defs", "marker", "path", "rect", "g", "text"}


def test_characters_that_nobody_sees_are_named() -> None:
    node = GraphNode(operator="aten::\u202eadd", inputs=["x"], outputs=["y"], types=[], scope="", source="a\u200bb")

    picture = draw(printout([node], ["x"], ["y"]))

    assert "aten::⟨RIGHT-TO-LEFT OVERRIDE⟩add" in picture
    assert "a⟨ZERO WIDTH SPACE⟩b" in picture


@pytest.mark.parametrize(("length", "scopes"), [(READABLE_MAX + 1, 3), (5000, 100), (10_000, 2)])
def test_a_large_graph_is_folded_by_submodule_until_a_person_can_read_it(length: int, scopes: int) -> None:
    drawn = boxes(draw(chain(length, scopes)))

    assert scopes <= len(drawn) - 2 <= READABLE_MAX


@pytest.mark.parametrize(("length", "scopes"), [(BOXES_MAX * 2, BOXES_MAX * 2), (10_000, 2)])
def test_of_more_boxes_than_can_be_drawn_neighbours_are_joined(length: int, scopes: int) -> None:
    every = [f"layer{block}.{part}" for block in range(scopes) for part in range(2)]

    assert len(boxes(draw(chain(length, scopes), opened=every))) <= BOXES_MAX + 2


def test_a_graph_without_submodules_is_not_folded() -> None:
    graph = chain(READABLE_MAX + 1)
    flat = [node.model_copy(update={"scope": ""}) for node in graph.nodes]

    assert len(boxes(draw(graph.model_copy(update={"nodes": flat})))) == READABLE_MAX + 3


def test_a_folded_graph_says_how_many_nodes_stand_in_a_box() -> None:
    titles = [title.text or "" for title in ElementTree.fromstring(draw(chain(3000, 3))).iter(f"{SVG}title")]

    assert any(title.startswith("layer1\n1000 nodes") for title in titles)


def encoder(layers: int = 12, nodes: int = 40) -> Printout:
    """Layers of two parts each, that the first layer calls once more at its end; each adds its input."""
    scopes = []
    for layer in [*range(layers), 0]:
        path = f"encoder.layers.{layer}"
        scopes += [f"{path}.attention"] * (nodes // 2) + [path] + [f"{path}.feedforward"] * (nodes // 2 - 1)
    values = ["x", *(f"v{number}" for number in range(len(scopes)))]
    return printout(
        [
            GraphNode(operator="aten::add", inputs=["x", made], outputs=[out], types=["Float(1)"], scope=scope)
            for scope, made, out in zip(scopes, values, values[1:], strict=False)
        ],
        ["x"],
        [values[-1]],
    )


def labels(svg: str) -> list[str]:
    """The first line of each box, from the top to the bottom."""
    shown = [text for text in ElementTree.fromstring(svg).iter(f"{SVG}text") if text.get("class") != "type"]
    return [text.text or "" for text in sorted(shown, key=lambda text: float(text.get("y", "")))]


def test_a_large_graph_shows_submodules_as_boxes_and_one_that_is_called_twice_as_two() -> None:
    layers = [f"encoder.layers.{layer}" for layer in [*range(12), 0]]

    assert labels(draw(encoder())) == ["x", *layers, "return"]


def test_an_opened_submodule_shows_its_inside_folded_by_its_own_submodules() -> None:
    opened = labels(draw(encoder(), opened=["encoder.layers.3"]))
    further = labels(draw(encoder(), opened=["encoder.layers.3.attention", "encoder.layers.5"]))

    assert opened[3:8] == [
        "encoder.layers.2",
        "…coder.layers.3.attention",
        "aten::add",
        "…der.layers.3.feedforward",
        "encoder.layers.4",
    ]
    assert further[3:5] == ["encoder.layers.2", "aten::add"]
    assert further.count("aten::add") == 20 + 1 + 1
    assert "…coder.layers.5.attention" in further


def test_edges_of_a_folded_graph_point_downwards() -> None:
    for opened in ([], ["encoder.layers.0"]):
        picture = ElementTree.fromstring(draw(encoder(), opened))
        ends = [
            re.findall(r"-?\d+", path.get("d", ""))
            for path in picture.iter(f"{SVG}path")
            if path.find(f"{SVG}title") is not None
        ]

        assert len(ends) > 13
        assert all(int(way[1]) < int(way[-1]) for way in ends)


def test_a_box_says_how_it_is_opened_and_is_a_link_to_it() -> None:
    picture = ElementTree.fromstring(draw(encoder(), link=lambda path: f"?open={path}&method=a"))

    link = next(link for link in picture.iter(f"{SVG}a") if link.get("href") == "?open=encoder.layers.3&method=a")
    assert "40 nodes\nopen=encoder.layers.3 shows them" in (link.findtext(f"{SVG}g/{SVG}title") or "")
    assert len(list(picture.iter(f"{SVG}a"))) == 13


def test_what_is_in_blocks_stands_between_its_node_and_where_its_values_are_used() -> None:
    def node(operator: str, inputs: str, outputs: str, **more: int) -> GraphNode:
        return GraphNode(operator=operator, inputs=inputs.split(), outputs=outputs.split(), types=[], **more)

    nodes = [
        node("prim::If", "condition", "y"),
        node("prim::Param", "", "", parent=0, block=0),
        node("prim::Return", "x", "", parent=0, block=0),
        node("prim::Param", "", "", parent=0, block=1),
        node("aten::neg", "x", "a", parent=0, block=1),
        node("prim::Return", "a", "", parent=0, block=1),
        node("aten::relu", "y", "z"),
    ]

    picture = ElementTree.fromstring(draw(printout(nodes, ["condition", "x"], ["z"])))

    height = {
        group.findtext(f"{SVG}text"): float(group.find(f"{SVG}rect").get("y")) for group in picture.iter(f"{SVG}g")
    }
    assert height["prim::If"] < height["then"] < height["end of then"] < height["aten::relu"]
    assert height["prim::If"] < height["else"] < height["aten::neg"] < height["end of else"] < height["aten::relu"]
    titles = [path.findtext(f"{SVG}title") for path in picture.iter(f"{SVG}path")]
    assert titles.count("y : ") == 2


@pytest.mark.parametrize("parent", [-1, 0, 1, 2**70])
def test_blocks_that_were_made_up(parent: int) -> None:
    node = GraphNode(operator="prim::Return", inputs=["x"], outputs=["y"], types=[], parent=parent, block=parent)

    assert len(boxes(draw(printout([node, node], ["x"], ["y"])))) == 4


def test_the_weights_of_a_folded_submodule_are_not_drawn_beside_it() -> None:
    graph = encoder()
    first = graph.nodes[0].model_copy(update={"inputs": ["x", "encoder.layers.0.weight", "shared.weight"]})
    inputs = ["x", "encoder.layers.0.weight", "shared.weight"]

    shown = labels(draw(graph.model_copy(update={"nodes": [first, *graph.nodes[1:]], "inputs": inputs})))

    assert sorted(shown[:2]) == ["shared.weight", "x"]
    assert "encoder.layers.0.weight" not in shown


def test_a_graph_of_nothing() -> None:
    assert boxes(draw(printout([], [], []))) == []


def test_an_input_that_is_returned_as_it_is() -> None:
    assert len(boxes(draw(printout([], ["x"], ["x"])))) == 2


def test_values_that_feed_themselves_or_come_from_nowhere() -> None:
    nodes = [
        GraphNode(operator="a", inputs=["loop", "nowhere"], outputs=["loop"], types=["T"]),
        GraphNode(operator="b", inputs=["loop", "later"], outputs=["y"], types=["T"]),
        GraphNode(operator="c", inputs=["y"], outputs=["later"], types=["T"]),
    ]

    assert len(boxes(draw(printout(nodes, [], ["y"])))) == 4


def test_a_printout_whose_nodes_were_left_out_is_a_box_that_says_so() -> None:
    cut = printout([], [], []).model_copy(update={"text": "graph(%x)\n[cut: the rest]"})

    picture = draw(cut)

    assert len(boxes(picture)) == 1
    assert "[cut: the rest]" in picture


def test_a_graph_that_no_model_has_makes_no_endless_picture() -> None:
    long = "long" * 100_000
    chained = [GraphNode(operator="f", inputs=[f"v{n - 1}"], outputs=[f"v{n}"], types=[long]) for n in range(59)]
    every = [f"v{n}" for n in range(59)]
    wide = [GraphNode(operator="g", inputs=[*every, long], outputs=[long], types=[long]) for _ in range(1400)]

    picture = draw(printout([*chained, *wide], [f"i{n}" for n in range(10_000)] + [long], every))

    assert len(list(ElementTree.fromstring(picture).iter(f"{SVG}path"))) <= EDGES_MAX + 1  # and the tip of an arrow
    assert len(picture) < 10_000_000


def test_inputs_beyond_the_limit_are_not_drawn() -> None:
    names = [f"i{n}" for n in range(INPUTS_MAX + 1)]
    node = GraphNode(operator="f", inputs=names, outputs=["y"], types=[])

    assert len(boxes(draw(printout([node], names, ["y"])))) == INPUTS_MAX + 2


class Name(str):
    """Counts how often any of them is looked up or compared."""

    looks = 0

    def __hash__(self) -> int:
        Name.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Name.looks += 1
        return super().__eq__(other)


def names(count: int, kind: str = "v") -> list[str]:
    return [Name(f"{kind}{number}") for number in range(count)]


def made_up(operator: str = "f", inputs: Sequence[str] = (), outputs: Sequence[str] = (), **more: Any) -> GraphNode:
    """As it is, unlike one that is validated: its names go on counting."""
    return GraphNode.model_construct(
        operator=operator, inputs=list(inputs), outputs=list(outputs), types=list(outputs), **more
    )


def made_up_printout(nodes: list[GraphNode], inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> Printout:
    return Printout.model_construct(
        kind="graph",
        method="forward",
        submodule="",
        text="cut",
        inputs=list(inputs),
        outputs=list(outputs),
        nodes=nodes,
    )


def ends(blocks: list[int]) -> list[GraphNode]:
    """Of the first node's blocks, and then a node that takes what they give back."""
    returns = [made_up("prim::Return", parent=0, block=block) for block in blocks]
    return [made_up("prim::If", outputs=names(400)), *returns, made_up("g", names(400))]


@pytest.mark.parametrize(
    "printout",
    [
        made_up_printout([], names(2000, "i"), names(2000, "o")),
        made_up_printout([made_up("f", names(2000), names(2000, "y"))], names(2000), names(2000, "y")),
        made_up_printout([made_up("f", names(1) * 2000, names(1) * 2000)] * 2, names(1) * 2000, names(1) * 2000),
        made_up_printout(ends([0] * 400)),
        made_up_printout(ends([*range(400)])),
        made_up_printout([made_up("f", names(4), names(4)) for _ in range(1400)], names(4), names(4)),
    ],
    ids=["in and out", "one node", "all equal", "ends of a block", "ends of blocks", "values made again"],
)
def test_each_name_is_looked_at_a_few_times_however_many_there_are(printout: Printout) -> None:
    there = len(printout.inputs) + len(printout.outputs)
    there += sum(len(node.inputs) + len(node.outputs) for node in printout.nodes)
    Name.looks = 0

    assert boxes(draw(printout))

    assert 0 < Name.looks < 20 * there


@pytest.mark.parametrize("parent", [lambda n: n, lambda n: n + 1, lambda n: n - 1, lambda n: (n + 1) % 1400])
@pytest.mark.parametrize("operator", ["prim::Param", "prim::Return", "prim::If"])
def test_forged_blocks_inside_themselves_or_one_another_are_drawn(operator: str, parent: Callable[[int], int]) -> None:
    nodes = [
        GraphNode(operator=operator, inputs=[f"v{n}"], outputs=[f"v{n + 1}"], types=[], parent=parent(n), block=n % 3)
        for n in range(1400)
    ]

    picture = ElementTree.fromstring(draw(printout(nodes, ["v0"], ["v1400"])))

    assert len([rect for rect in picture.iter(f"{SVG}rect") if rect.get("class") == "box"]) == 1402
    assert len(list(picture.iter(f"{SVG}path"))) <= EDGES_MAX + 1


def test_what_a_node_with_many_blocks_makes_comes_from_two_of_them() -> None:
    picture = ElementTree.fromstring(draw(made_up_printout(ends([*range(50)]))))

    titles = [path.findtext(f"{SVG}title") or "" for path in picture.iter(f"{SVG}path")]
    assert titles.count("v0 : v0") == 2


def test_scopes_that_are_deeper_than_any_model() -> None:
    deep = ".".join("a" * 500)
    nodes = [
        GraphNode(operator="f", inputs=[], outputs=[], types=[], scope=f"{deep}.{n}" if n % 2 else f"b{n}.{deep}")
        for n in range(300)
    ]

    picture = draw(printout(nodes, [], []), opened=[deep[:499]] * 50, link=lambda path: f"?open={path}")

    assert 1 < len(boxes(picture)) <= 302
    assert len(picture) < 1_000_000
