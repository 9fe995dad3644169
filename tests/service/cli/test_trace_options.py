"""The options of `tracehouse trace`, and the trace request that they make."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from pydantic import ValidationError

from service.cli.example_inputs import Uploads
from service.cli.sources import name_source
from service.cli.trace_options import (
    CallOptions,
    ImageOptions,
    ModelOptions,
    RequestOptions,
    SizeOptions,
    TorchOptions,
    TraceCheckOptions,
    spec_of,
)
from tracehouse.spec.image_reading import ImageReading
from tracehouse.spec.trace_spec import TraceSpec


def made(folder: Path, methods: list[str] | None = None, **model: Any) -> TraceSpec:
    """The request for a file net.py in the folder."""
    return made_of(folder, ModelOptions(**model), TraceCheckOptions(), ImageOptions(), methods)


def made_of(
    folder: Path,
    model: ModelOptions,
    check: TraceCheckOptions,
    images: ImageOptions,
    methods: list[str] | None = None,
) -> TraceSpec:
    (folder / "net.py").write_text("def Net(x):\n    return x\n")
    groups = model, SizeOptions(), check, images, TorchOptions(), RequestOptions()
    uploads = Uploads()
    named = name_source(f"{folder}/net.py:Net", uploads)
    return TraceSpec.model_validate(spec_of(named, CallOptions(input=["1x2"], method=methods), *groups, uploads))


def test_an_empty_name_is_not_taken_as_none(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="a name is 1 to 64 letters"):
        made(tmp_path, name="")
    assert made(tmp_path).model == "net"


def test_weights_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="/proc/self/mem cannot be read"):
        made(tmp_path, weights=Path("/proc/self/mem"))


def test_weights_go_with_all_that_is_said_of_them(tmp_path: Path) -> None:
    file = tmp_path / "w.pt"
    file.touch()
    spec = made(
        tmp_path,
        weights=file,
        weights_key="state.ema",
        weights_rename=["module.=", "=net."],
        weights_strict=False,
        allow_missing=["*.index"],
    )

    assert spec.weights is not None
    assert spec.weights.model_dump() == {
        "file": "w.pt",
        "key": "state.ema",
        "rename": {"module.": "", "": "net."},
        "strict": False,
        "allow_missing": ["*.index"],
    }


def test_an_environment_is_named_in_the_request(tmp_path: Path) -> None:
    assert made(tmp_path, environment="vision").environment == "vision"
    assert made(tmp_path).environment is None


def test_without_a_file_there_are_no_weights(tmp_path: Path) -> None:
    assert made(tmp_path).weights is None


@pytest.mark.parametrize("option", [{"weights_key": "ema"}, {"weights_strict": False}, {"allow_missing": ["a"]}])
def test_what_is_said_of_weights_needs_a_file(tmp_path: Path, option: dict[str, Any]) -> None:
    with pytest.raises(typer.BadParameter, match="--weights FILE"):
        made(tmp_path, **option)


def test_a_renaming_needs_both_sides(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="OLD=NEW"):
        made(tmp_path, weights_rename=["module."])


def test_a_renaming_and_a_method_that_are_given_twice_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w.pt").touch()
    with pytest.raises(typer.BadParameter, match=r"--weights-rename of 'a\.' is given twice"):
        made(tmp_path, weights=tmp_path / "w.pt", weights_rename=["a.=b.", "a.=c."])
    with pytest.raises(typer.BadParameter, match="method 'encode' is given twice"):
        made(tmp_path, methods=["encode=1x3", "encode=1x4"])


def test_pictures_among_the_samples_are_read_as_the_options_say(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("cat.jpg", "dog.PNG")]
    for file in files:
        file.touch()
    np.savez(tmp_path / "s.npz", **{"0/x": np.ones((1, 2), np.float32)})
    check = TraceCheckOptions(samples=[*map(str, files), str(tmp_path / "s.npz")])
    images = ImageOptions(image_input="x", image_size="64x48", image_mean="0.5", image_std="0.2,0.3,0.4")
    spec = made_of(tmp_path, ModelOptions(), check, images)

    reading = ImageReading(input="x", size=[64, 48], mean=[0.5], std=[0.2, 0.3, 0.4])
    assert [(one.file, one.image) for one in spec.check.samples] == [
        ("cat.jpg", reading),
        ("dog.PNG", reading),
        ("s.npz", None),
    ]
    own = made_of(tmp_path, ModelOptions(), check, ImageOptions(image_size="own"))
    assert own.check.samples[0].image == ImageReading(size="own")
    assert made_of(tmp_path, ModelOptions(), check, ImageOptions()).check.samples[0].image is None


@pytest.mark.parametrize("images", [{"image_size": "64"}, {"image_mean": "a,b"}, {"image_std": ""}])
def test_options_of_pictures_that_say_nothing_are_refused(tmp_path: Path, images: dict[str, str]) -> None:
    (tmp_path / "cat.jpg").touch()
    check = TraceCheckOptions(samples=[str(tmp_path / "cat.jpg")])

    with pytest.raises(typer.BadParameter, match=r"224x224|0\.485"):
        made_of(tmp_path, ModelOptions(), check, ImageOptions(**images))


def test_options_of_pictures_need_a_picture(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match=r"--samples cat\.jpg"):
        made_of(tmp_path, ModelOptions(), TraceCheckOptions(), ImageOptions(image_size="own"))


def test_a_budget_is_a_name_or_seconds(tmp_path: Path) -> None:
    given = [
        made_of(tmp_path, ModelOptions(), TraceCheckOptions(budget=text), ImageOptions()).check
        for text in ("deep", "9.5", None)
    ]

    assert [(one.budget, one.budget_s) for one in given] == [("deep", None), (None, 9.5), ("normal", None)]


@pytest.mark.parametrize("other", ["large", "nan", "inf", "-infinity"])
def test_another_name_of_a_budget_is_refused_with_the_names(tmp_path: Path, other: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"quick, normal, deep or a number of seconds, not '{other}'"):
        made_of(tmp_path, ModelOptions(), TraceCheckOptions(budget=other), ImageOptions())


def test_arguments_of_the_entrypoint_are_json_or_else_text(tmp_path: Path) -> None:
    init = made(
        tmp_path, init='{"bias": true}', arg=["resnet18", "3", "classes=10", "name=a=b", "drop=0.5"]
    ).source.init

    assert init.args == ["resnet18", 3]
    assert init.kwargs == {"bias": True, "classes": 10, "name": "a=b", "drop": 0.5}


def test_an_argument_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="argument 'bias' is given twice"):
        made(tmp_path, init='{"bias": true}', arg=["bias=false"])
