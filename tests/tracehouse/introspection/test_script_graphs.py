import torch

from tracehouse.introspection import script_graphs


def sort_or_clip(x: torch.Tensor, times: int) -> torch.Tensor:
    for _ in range(times):
        if x.sum() > 0:
            x, _order = torch.sort(x)
        else:
            x = x.relu()
    return x


class Nested(torch.nn.Module):
    def forward(self, x: torch.Tensor, pair: list[torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            first, second = pair
            while bool(first.sum() < 3):
                first = first + second
        return torch.cat([sort_or_clip(first, 3), second, x])


def test_all_nodes_of_nested_blocks_are_found_with_what_they_take_and_give() -> None:
    graph = torch.jit.script(Nested()).inlined_graph

    found = [*script_graphs.nodes(graph)]

    kinds = [node.kind() for node in found]
    assert (kinds.count("prim::Loop"), kinds.count("prim::If"), kinds.count("aten::relu")) == (2, 1, 1)
    for node in found:
        assert names(script_graphs.inputs(node)) == names(node.inputs())
        assert names(script_graphs.outputs(node)) == names(node.outputs())
        assert len(script_graphs.blocks(node)) == len([*node.blocks()])


def names(values: list[script_graphs.Value]) -> list[str]:
    return [value.debugName() for value in values]
