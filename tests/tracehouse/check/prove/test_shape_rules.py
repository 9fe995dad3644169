"""Shape rules give the shapes that torch gives for real tensors, and put hardly any conditions on the sizes."""

from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch

from tests.tracehouse.check.targets import make_target
from tracehouse.check.prove.prover import Proof, prove
from tracehouse.check.prove.shape_rules import ShapeRuleMode
from tracehouse.check.prove.symbols import Symbols, expression_or_number, find_ratio, have_same_expression
from tracehouse.check.size_groups import Groups
from tracehouse.contract.dims import SymbolicShape
from tracehouse.differential.budget import Budget

aten = torch.ops.aten
SIZES = {"batch": 3, "height": 6, "width": 5}
SHAPES: dict[str, SymbolicShape] = {
    "image": ("batch", 4, "height", "width"),
    "other": ("batch", 4, "height", "width"),
    "scale": ("batch", 4, 1, 1),
    "row": ("width",),
    "wider": (2, "batch", 4, "height", "width"),
}
PLAIN = [
    (aten.relu.default, ("image",), {}),
    (aten.silu.default, ("image",), {}),
    (aten.gelu.default, ("image",), {"approximate": "tanh"}),
    (aten.hardtanh_.default, ("image", 0.0, 6.0), {}),
    (aten._softmax.default, ("image", -1, False), {}),
    (aten.add.Tensor, ("image", "other"), {"alpha": 2.0}),
    (aten.add_.Tensor, ("image", "other"), {}),
    (aten.mul.Tensor, ("image", "scale"), {}),
    (aten.mul.Tensor, ("scale", "image"), {}),
    (aten.mul_.Tensor, ("image", "row"), {}),
    (aten.sub.Tensor, ("row", "wider"), {}),
    (aten.div.Tensor, ("image", 2.0), {}),
    (aten.add_.Tensor, ("scale", 1), {}),
]


class Residual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = torch.nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.again = torch.nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = self.down(x)
        x = self.again(torch.nn.functional.silu(self.norm(shortcut)))
        x += shortcut
        return torch.relu(x)


class Mixed(torch.nn.Module):
    """Layers on tensors whose dims are permuted."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 4)
        self.again = torch.nn.Linear(4, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned: torch.Tensor = self.again(self.layer(x.permute(0, 2, 3, 1)).transpose(1, 2))
        return turned


class Upsampled(torch.nn.Module):
    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = torch.nn.functional.interpolate(x[:, :, ::2, ::2], size=x.shape[2:], mode=self.mode)
        return torch.nn.functional.interpolate(half + x, scale_factor=1.5, mode=self.mode)


class UpsampledByPython(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sizes = [int(float(size) * 1.5) for size in x.shape[2:]]
        return torch.nn.functional.interpolate(x, size=sizes)


class Windows(torch.nn.Module):
    """Each window of 4 by 4 by itself, as in Swin: the image is padded to whole windows, and cut again."""

    def __init__(self, counted: int | None = None) -> None:
        super().__init__()
        self.counted = counted

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        x = torch.nn.functional.pad(x, (0, -width % 4, 0, -height % 4))
        down, across = x.shape[2] // 4, self.counted or x.shape[3] // 4
        x = x.view(batch, channels, down, 4, across, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, channels)
        x = x.softmax(1).view(batch, down, across, 4, 4, channels)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(batch, channels, 4 * down, 4 * across)[:, :, :height, :width]


class Skip(torch.nn.Module):
    """Joins channels of images whose sizes come from other divisions: they are equal where the height allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.down = torch.nn.Conv2d(2, 2, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = self.down(x)
        again = torch.nn.functional.interpolate(self.down(half), scale_factor=2.0)
        return torch.cat([half, again], 1) + torch.cat([again, half], 1)


def proof_of(module: torch.nn.Module) -> Proof:
    target = make_target(module, torch.randn(2, 2, 12, 12))
    (name,) = target.call.tensors
    groups = Groups({name: ("batch", 2, "height", "width")}, {"batch": 2, "height": 12, "width": 12}, {name: {}})
    return prove(target, groups, {"batch": range(1, 9), "height": range(1, 65), "width": range(1, 65)}, Budget(60))


def real_tensor(name: str) -> torch.Tensor:
    return torch.randn([SIZES[dim] if isinstance(dim, str) else dim for dim in SHAPES[name]])


def run_on_symbols(
    operator: Any, given: tuple[Any, ...], keywords: dict[str, Any], *, flipped: bool = False
) -> tuple[Any, int]:
    """Return the operator's result on symbols, and how many conditions it added; `flipped` swaps the last two dims."""
    symbols = Symbols(SIZES, dict.fromkeys(SIZES, 64))
    like = torch.empty(())
    inputs = [symbols.empty(SHAPES[one], like) if isinstance(one, str) else one for one in given]
    before = len(symbols.conditions())
    with symbols.activate(), ShapeRuleMode():  # type: ignore[no-untyped-call]
        made = operator(*(_flipped(one) if flipped else one for one in inputs), **keywords)
    return made, len(symbols.conditions()) - before


def _flipped(value: Any) -> Any:
    return value.transpose(-1, -2) if isinstance(value, torch.Tensor) and value.dim() > 1 else value


def layout_of(tensor: torch.Tensor) -> tuple[list[int], list[int], torch.dtype]:
    return [int(size) for size in tensor.shape], [int(stride) for stride in tensor.stride()], tensor.dtype


@pytest.mark.parametrize(("operator", "given", "keywords"), PLAIN, ids=[f"{one[0]} of {one[1]}" for one in PLAIN])
def test_an_operator_element_by_element_asks_nothing_of_the_sizes(
    operator: Any, given: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    expected = operator(*(real_tensor(one) if isinstance(one, str) else one for one in given), **keywords)

    made, conditions = run_on_symbols(operator, given, keywords)

    assert (layout_of(made), conditions) == (layout_of(expected), 0)


@pytest.mark.parametrize(("operator", "given", "keywords"), PLAIN[:7], ids=[f"{one[0]}" for one in PLAIN[:7]])
def test_of_tensors_in_another_order_its_result_is_as_torch_lays_it_out(
    operator: Any, given: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    expected = operator(*(_flipped(real_tensor(one)) if isinstance(one, str) else one for one in given), **keywords)

    made, _ = run_on_symbols(operator, given, keywords, flipped=True)

    assert layout_of(made) == layout_of(expected)


def test_a_convolution_of_images_channel_by_channel_lays_its_result_out_so_too() -> None:
    weight = torch.randn(4, 4, 3, 3)
    settings = (None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1)
    symbols = Symbols(SIZES, dict.fromkeys(SIZES, 64))
    rows = symbols.empty(("batch", "height", "width", 4), torch.empty(()))
    before = len(symbols.conditions())

    with symbols.activate(), ShapeRuleMode():  # type: ignore[no-untyped-call]
        made = aten.convolution.default(rows.permute(0, 3, 1, 2), symbols.fake_of(weight), *settings)

    real = torch.randn(3, 6, 5, 4).permute(0, 3, 1, 2)
    assert layout_of(made) == layout_of(aten.convolution.default(real, weight, *settings))
    assert not [one for one in symbols.conditions()[before:] if "Mod" in str(one.expression)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("groups", "kernel"), [(1, 1), (1, 3), (4, 3)])  # the rule leaves grouped kernels of 1 out
@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 9), (9, 1), (5, 7), (60, 60), (120, 120)])
@pytest.mark.parametrize("batch", [1, 2, 16])
def test_torch_keeps_images_channel_by_channel_at_all_sizes(
    batch: int, height: int, width: int, groups: int, kernel: int, threads: int
) -> None:
    images, weight = (
        torch.randn(batch, height, width, 4).permute(0, 3, 1, 2),
        torch.randn(4, 4 // groups, kernel, kernel),
    )

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        made = torch.nn.functional.conv2d(images, weight, padding=1, groups=groups)
    finally:
        torch.set_num_threads(before)

    rows = made.permute(0, 2, 3, 1)
    strides = zip(rows.shape, rows.stride(), torch.empty(rows.shape).stride(), strict=True)
    assert all(size == 1 or stride == expected for size, stride, expected in strides)


def test_a_kernel_of_one_pixel_that_lies_channel_by_channel_lays_the_result_out_so() -> None:
    weight = torch.empty_strided((4, 8, 1, 1), (8, 1, 8, 8)).normal_()
    settings = (None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    symbols = Symbols(SIZES, dict.fromkeys(SIZES, 64))
    image = symbols.empty(("batch", 8, "height", "width"), torch.empty(()))

    with symbols.activate(), ShapeRuleMode():  # type: ignore[no-untyped-call]
        made = aten.convolution.default(image, symbols.fake_of(weight), *settings)

    real = aten.convolution.default(torch.randn(3, 8, 6, 5), weight, *settings)
    assert layout_of(made) == layout_of(real)


def test_of_grouped_products_of_single_pixels_no_layout_is_taken_for_granted() -> None:
    symbols = Symbols(SIZES, dict.fromkeys(SIZES, 64))
    rows = symbols.empty(("batch", "height", "width", 4), torch.empty(()))
    weight = symbols.fake_of(torch.randn(4, 1, 1, 1))
    before = len(symbols.conditions())

    with symbols.activate(), ShapeRuleMode():  # type: ignore[no-untyped-call]
        aten.convolution.default(rows.permute(0, 3, 1, 2), weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 4)

    assert len(symbols.conditions()) > before


def test_what_torch_pools_is_known_to_be_contiguous() -> None:
    symbols = Symbols(SIZES, dict.fromkeys(SIZES, 64))
    image = symbols.empty(SHAPES["image"], torch.empty(()))
    with symbols.activate(), ShapeRuleMode():  # type: ignore[no-untyped-call]
        pooled = torch.nn.functional.avg_pool2d(image, 2)
        before = len(symbols.conditions())
        made = torch.cat([torch.relu(pooled), torch.sigmoid(pooled) + pooled], dim=-3)
    conditions = len(symbols.conditions()) - before

    expected = torch.nn.functional.avg_pool2d(real_tensor("image"), 2)
    assert (conditions, layout_of(made)) == (0, layout_of(torch.cat([expected, expected], dim=-3)))


def test_a_layer_of_a_tensor_in_another_order_asks_nothing_of_the_sizes() -> None:
    symbols = Symbols(SIZES, dict.fromkeys(SIZES, 64))
    image = symbols.empty(SHAPES["image"], torch.empty(()))
    layer = torch.nn.Linear(4, 7)
    before = len(symbols.conditions())
    with symbols.activate(), ShapeRuleMode():  # type: ignore[no-untyped-call]
        made = layer(image.permute(0, 3, 2, 1)[:, ::2])
    asked_of_sizes = [one for one in symbols.conditions()[before:] if "Mod" in str(one) or "Ne" in str(one)]

    assert (asked_of_sizes, layout_of(made)) == ([], layout_of(layer(real_tensor("image").permute(0, 3, 2, 1)[:, ::2])))


def channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format).permute(0, 3, 1, 2)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as it is": lambda x: x,
    "a slice of channels": lambda x: x[:, 1:3],
    "one channel": lambda x: x[:, 1:2],
    "half of the rows": lambda x: x[:, :, ::2],
    "part of the width": lambda x: x[..., 1:],
    "channels last": channels_last,
    "tokens as an image": lambda x: x.flatten(2).transpose(1, 2).contiguous().transpose(1, 2).view(x.shape),
    "a slice of heads": lambda x: torch.stack([x, x, x], 1).permute(1, 0, 3, 2, 4)[0],
    "turned": lambda x: x.transpose(2, 3),
    "pooled channels last": lambda x: channels_last(torch.nn.functional.avg_pool2d(x, 2)),
    "a part of channels last": lambda x: x.permute(0, 2, 3, 1).contiguous()[..., 1:3].permute(0, 3, 1, 2),
}
STEPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "times a number": lambda x: x * 0.5,
    "plus itself": lambda x: x + x,
    "cat": lambda x: torch.cat([x, x], 1),
    "clone to contiguous": lambda x: x.clone(memory_format=torch.contiguous_format),
    "clone": lambda x: x.clone(),
    "softmax": lambda x: x.softmax(1),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x.transpose(1, 3), (x.shape[1],)),
    "roll": lambda x: x.roll((1, 2), (2, 3)),
    "roll by a size": lambda x: x.roll((3, 3), (2, 3)),
    "roll as one row": lambda x: x.roll(1),
    "relu, then upsample": lambda x: torch.nn.functional.interpolate(torch.relu(x), size=(9, 12), mode="bilinear"),
    "largest of pairs": lambda x: torch.nn.functional.max_pool2d(x, (x.shape[2], 1)),
    "upsample": lambda x: torch.nn.functional.interpolate(x, size=(9, 12), mode="bilinear"),
    "convolution": lambda x: torch.nn.functional.conv2d(x, x.new_ones(3, x.shape[1], 2, 2)),
    "tokens": lambda x: x.reshape(x.shape[0], x.shape[1], -1),
    "tokens of each row": lambda x: x.transpose(1, 3).reshape(x.shape[0], -1, x.shape[1]),
    "split channels": lambda x: x.view(x.shape[0], x.shape[1], 1, *x.shape[2:]),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 3])
def test_what_is_said_of_a_layout_is_what_torch_does(batch: int, layout: str, step: str) -> None:
    sizes = {**SIZES, "batch": batch}
    symbols = Symbols(sizes, dict.fromkeys(("batch", "height", "width") if batch > 1 else ("height", "width"), 64))
    with symbols.activate(), ShapeRuleMode():  # type: ignore[no-untyped-call]
        made = STEPS[step](LAYOUTS[layout](symbols.empty(SHAPES["image"], torch.empty(()))))

    for height, width in ((6, 5), (2, 2), (3, 3), (2, 9), (4, 4), (5, 7), (7, 5), (8, 12)):
        others = {"batch": 2 * batch if batch > 1 else 1, "height": height, "width": width}
        if is_of_the_case(symbols, others):
            real = STEPS[step](LAYOUTS[layout](torch.randn(others["batch"], 4, height, width)))
            assert strides_at(made, symbols, others) == strides_at(real, symbols, others), others


def is_of_the_case(symbols: Symbols, sizes: dict[str, int]) -> bool:
    """Whether all conditions hold at these sizes, so that what the run shows is said of them too."""
    values = values_of(symbols, sizes)
    return all(bool(one.expression.xreplace(values)) for one in symbols.conditions())


def values_of(symbols: Symbols, sizes: dict[str, int]) -> dict[Any, Any]:
    return {symbol: sympy.Integer(sizes[name]) for symbol, name in symbols.names.items()}


def strides_at(tensor: torch.Tensor, symbols: Symbols, sizes: dict[str, int]) -> list[tuple[int, int | None]]:
    """Return sizes and strides, but for the stride of a dim of size 1, which torch leaves anywhere."""
    values = values_of(symbols, sizes)
    at = [[int(expression_or_number(one).xreplace(values)) for one in each] for each in (tensor.shape, tensor.stride())]
    return [(size, stride if size > 1 else None) for size, stride in zip(*at, strict=True)]


class TurnsRound(torch.nn.Module):
    """Where the shift is the size, torch lays the result out otherwise, and the model asks for that."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = channels_last(x).roll((3, 3), (2, 3))
        return y + 1 if y.is_contiguous() else y * 2


class EnlargesSinglePixels(torch.nn.Module):
    """Where a pool leaves one pixel, torch lays what is made of it out otherwise, and the model asks for that."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(channels_last(torch.nn.functional.avg_pool2d(x, 4)))
        y = torch.nn.functional.interpolate(y, scale_factor=2.0)
        return y + 1 if y.is_contiguous() else y * 2


@pytest.mark.parametrize("network", [TurnsRound, EnlargesSinglePixels])
def test_a_layout_that_some_sizes_change_is_proven_for_no_others(network: type[torch.nn.Module]) -> None:
    proof = proof_of(network())
    traced = torch.jit.trace(network(), torch.randn(2, 2, 12, 12))

    for height, width in ((3, 3), (3, 12), (4, 4), (5, 5), (7, 7), (8, 8), (6, 12)):
        x = torch.randn(2, 2, height, width)
        if any(region.contains({"batch": 2, "height": height, "width": width}) for region in proof.regions):
            assert torch.equal(network()(x), traced(x)), (height, width)


def test_sizes_are_compared_by_their_factors() -> None:
    symbols = Symbols(SIZES, dict.fromkeys(SIZES, 64))
    height, width = symbols.empty(("height", "width"), torch.empty(())).shape
    one, other = (4 * (height + 1)) * (width + 1), (height + 1) * (4 * (width + 1))

    assert have_same_expression(one, other)
    assert not have_same_expression(one, other + 1)
    assert find_ratio(6 * one, other) == 6
    assert find_ratio(one, 8 * other) == 0.125
    assert [find_ratio(*pair) for pair in ((one, height), (0, one), (one, 0))] == [None] * 3


@pytest.mark.parametrize("given", [("row", "image"), ("image", "wider")])
def test_what_does_not_fit_into_the_tensor_that_is_written_is_refused(given: tuple[str, str]) -> None:
    with pytest.raises(RuntimeError):
        run_on_symbols(aten.add_.Tensor, given, {})


def test_a_tensor_that_was_turned_in_place_is_no_longer_taken_as_it_was() -> None:
    symbols = Symbols(SIZES, dict.fromkeys(SIZES, 64))
    image = symbols.empty(SHAPES["image"], torch.empty(()))
    with symbols.activate(), ShapeRuleMode():  # type: ignore[no-untyped-call]
        made = torch.relu(image)
        made.transpose_(1, 2)
        again = torch.relu(made)

    assert layout_of(again) == layout_of(torch.relu(real_tensor("image").transpose_(1, 2)))


@pytest.mark.parametrize("network", [Residual, Mixed])
def test_a_network_is_proven_for_all_sizes_in_one_run(network: type[torch.nn.Module]) -> None:
    proof = proof_of(network())

    assert [str(region) for region in proof.regions] == ["batch 1 to 8, height 1 to 64, width 1 to 64"]
    assert proof.cases == 1


def test_windows_are_proven_of_sizes_that_are_padded_too() -> None:
    proof = proof_of(Windows())

    for sizes in ((2, 12, 12), (5, 36, 48), (3, 13, 12), (8, 12, 47), (4, 61, 63)):
        named = dict(zip(("batch", "height", "width"), sizes, strict=True))
        assert any(region.contains(named) for region in proof.regions)


def test_sizes_of_other_divisions_that_must_be_equal_are_proven_where_they_are() -> None:
    proof = proof_of(Skip())

    assert proof.cases < 24
    for height in range(3, 65):
        sizes = {"batch": 2, "height": height, "width": 12}
        fits = (height + 1) // 2 % 2 == 0
        assert any(region.contains(sizes) for region in proof.regions) == fits


def test_a_number_of_windows_that_is_counted_by_hand_is_proven_of_no_other() -> None:
    proof = proof_of(Windows(counted=3))

    assert proof.regions
    for region in proof.regions:
        assert not any(region.contains({"batch": 2, "height": 12, "width": width}) for width in (4, 8, 13, 16, 24))


@pytest.mark.parametrize("sizes", [[-1], [-1, 2], [1, -1, 4], [2, -1]])
def test_a_contiguous_tensor_is_viewed_in_other_sizes_without_a_condition(sizes: list[int]) -> None:
    made, conditions = run_on_symbols(aten.view.default, ("image", sizes), {})

    assert (layout_of(made), conditions) == (layout_of(real_tensor("image").view(sizes)), 0)


def test_a_view_of_as_many_elements_at_some_sizes_has_that_condition() -> None:
    made, conditions = run_on_symbols(aten.view.default, ("image", [-1, 9]), {})

    assert (layout_of(made), conditions) == (layout_of(real_tensor("image").view(-1, 9)), 1)
    with pytest.raises(RuntimeError):
        run_on_symbols(aten.view.default, ("image", [-1, 7]), {})


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_what_is_upsampled_is_one_operator_of_all_sizes(mode: str) -> None:
    proof = proof_of(Upsampled(mode))

    assert [str(region) for region in proof.regions] == ["batch 1 to 8, height 1 to 64, width 1 to 64"]
    # A size of 1 may be a run of its own.
    assert proof.cases <= 2**3


def test_what_is_upsampled_to_a_size_that_python_made_is_proven_of_no_other() -> None:
    proof = proof_of(UpsampledByPython())

    assert [one for one in ((6, 12), (12, 24), (16, 16)) for region in proof.regions
            if region.contains({"batch": 2, "height": one[0], "width": one[1]})] == []  # fmt: skip
    assert any("upsample_nearest2d" in one.reason or "upsample_nearest2d" in one.operator for one in proof.refutations)
