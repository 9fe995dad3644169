"""How an inference request names a model."""

import pytest

from service.domain.errors import InvalidName
from service.domain.model import ModelRef


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("resnet", ModelRef(name="resnet")),
        ("resnet@prod", ModelRef(name="resnet", alias="prod")),
        ("resnet:3", ModelRef(name="resnet", version=3)),
        ("Res-Net_1.0", ModelRef(name="Res-Net_1.0")),
    ],
)
def test_a_model_its_alias_or_its_version(text: str, ref: ModelRef) -> None:
    assert ModelRef.parse(text) == ref


@pytest.mark.parametrize(
    "text",
    ["", "@prod", ":1", "a:", "a@", "a:0", "a:-1", "a:1.5", "a:latest", "a@b@c", "a@b:1", "a:1@b", "a/b", "ä", "a b"],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        ModelRef.parse(text)
