"""The names of weights: renamed by what they begin with, and searched for what would make them fit."""

import pytest

from tracehouse.eager.weight_names import Mend, ModelNames, find_mends, rename
from tracehouse.errors import WeightsMismatch

SHAPES = {"stem.conv.weight": (4, 3), "stem.conv.bias": (4,), "head.weight": (2, 4)}
MODEL = ModelNames([[name] for name in SHAPES], SHAPES)


def test_the_longest_beginning_that_fits_is_replaced_and_other_names_are_kept() -> None:
    named = {"module.a": 1, "module.net.b": 2, "c": 3}

    assert rename(named, {"module.": "", "module.net.": "body."}) == {"a": 1, "body.b": 2, "c": 3}


def test_two_names_may_not_become_one() -> None:
    with pytest.raises(WeightsMismatch) as raised:
        rename({"module.a": 1, "a": 2}, {"module.": ""})
    assert raised.value.facts["name"] == "a"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("module.", ""),
        ("_orig_mod.", ""),
        ("model.", ""),
        ("module._orig_mod.", ""),
        ("net.backbone.", ""),
        ("ema.", ""),
        ("encoder.", "decoder."),
        ("", "model."),
    ],
)
def test_another_beginning_of_all_names_is_found(old: str, new: str) -> None:
    shapes = {f"{new}{name}": shape for name, shape in SHAPES.items()}
    given = {f"{old}{name}": shape for name, shape in SHAPES.items()}

    assert find_mends(ModelNames([[name] for name in shapes], shapes), {"": given}) == [Mend("", {old: new}, 0)]


def test_wrappers_of_single_parts_are_found_wherever_they_are() -> None:
    given = {"stem._orig_mod.conv.weight": (4, 3), "stem._orig_mod.conv.bias": (4,), "head.weight": (2, 4)}

    assert find_mends(MODEL, {"": given}) == [Mend("", {"stem._orig_mod.": "stem."}, 0)]


def test_two_beginnings_that_fit_alike_are_both_found() -> None:
    given = {f"{old}{name}": shape for old in ("ema_model.", "online_model.") for name, shape in SHAPES.items()}

    assert [mend.rename for mend in find_mends(MODEL, {"": given})] == [{"ema_model.": ""}, {"online_model.": ""}]


def test_the_state_dict_that_leaves_the_fewest_names_unused_is_found() -> None:
    states = {"ema": {**SHAPES, "decay": ()}, "params": {f"module.{name}": shape for name, shape in SHAPES.items()}}

    assert find_mends(MODEL, states) == [Mend("params", {"module.": ""}, 0)]


@pytest.mark.parametrize(
    "given",
    [
        {"module.stem.conv.weight": (4, 3), "module.head.weight": (2, 4)},
        {f"module.{name}": (9, 9) for name in SHAPES},
        {"weight": (4, 3)},
        {},
    ],
    ids=["one is nowhere", "other shapes", "one name", "nothing"],
)
def test_what_does_not_fit_entirely_is_not_offered(given: dict[str, tuple[int, ...]]) -> None:
    assert find_mends(MODEL, {"": given}) == []


def test_one_name_of_a_shared_tensor_is_enough() -> None:
    shapes = {**SHAPES, "tail.weight": (2, 4)}
    model = ModelNames([["stem.conv.weight"], ["stem.conv.bias"], ["head.weight", "tail.weight"]], shapes)
    given = {f"module.{name}": shape for name, shape in SHAPES.items()}

    assert find_mends(model, {"": given}) == [Mend("", {"module.": ""}, 0)]


def test_a_mend_says_which_options_to_set() -> None:
    mend = Mend("ema", {"module.": ""}, unused=1)

    assert mend.describe("", strict=True) == (
        'weights.key to "ema" and weights.rename to {"module.": ""} and weights.strict to false'
    )
    assert mend.describe("ema", strict=False) == 'weights.rename to {"module.": ""}'
