"""`POST /infer/{model}` with a picture: the answer is that to the values that the check made of such a picture."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from PIL import Image

from service.api.context import AppContext
from service.sandbox.zygote import Zygote
from service.serving.pictures import Pictures
from service.storage.database import Store
from tests.conftest import PATIENCE_S, NewStore
from tests.pictures import encoded, noise, plain
from tests.service.api.conftest import (
    PICTURE_LIMITS,
    REQUEST_MAX_BYTES,
    Register,
    assert_problem,
    serving_runners,
)
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract, MethodClaim
from tracehouse.contract.regions import Region, Span
from tracehouse.spec.image_format import ImageFormat
from tracehouse.tensors.tensor import Datatype, TensorSpec
from tracehouse.torch_values.images import read_image

PNG, JPEG, NPY = "image/png", "image/jpeg", "application/x-npy"
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Same(torch.nn.Module):
    """What it answers is its input, a little changed."""

    def forward(self, image):
        return image + 0


@pytest.fixture(scope="module")
def store(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = new_store(tmp_path_factory.mktemp("pictures"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def http(
    store: Store, torch_zygote: Zygote, tmp_path_factory: pytest.TempPathFactory, models: None
) -> Iterator[httpx.Client]:
    def change(context: AppContext) -> AppContext:
        return replace(context, pictures=Pictures(torch_zygote, PICTURE_LIMITS))

    with (
        serving_runners(store, torch_zygote, tmp_path_factory.mktemp("state"), change=change) as address,
        httpx.Client(base_url=f"http://{address}", timeout=PATIENCE_S) as client,
    ):
        yield client


def samples(*readings: dict[str, Any] | None, method: str = "forward") -> dict[str, Any]:
    files = [{"file": f"cat{place}.png", "method": method} for place in range(len(readings))]
    return {
        "samples": [file | ({} if one is None else {"image": one}) for file, one in zip(files, readings, strict=True)]
    }


NORMAL = {"mean": MEAN, "std": STD}


@pytest.fixture(scope="module")
def models(store: Store, trace: Any, register: Register) -> None:
    def traced(*shape: int, dtype: torch.dtype = torch.float32) -> Artifact:
        artifact: Artifact = trace(store.blobs, Same(), torch.zeros(shape).to(dtype))
        return artifact

    example = traced(2, 3, 8, 10)
    claim = MethodClaim(
        shapes={"image": ("batch", 3, "height", "width")},
        fixed={"image": {"1": "model"}},
        regions=[
            Region(
                spans={
                    "batch": [Span(low=1, high=4)],
                    "height": [Span(low=2, high=64)],
                    "width": [Span(low=2, high=64)],
                },
                basis="proven",
            )
        ],
    )
    answers = [
        (
            {"batch": 1, "height": high, "width": wide},
            [TensorSpec(name="output", datatype=Datatype.FP32, shape=(1, 3, high, wide))],
        )
        for high, wide in ((3, 5), (7, 11))
    ]
    method = example.contract.method("forward").with_claim(claim, answers)
    any_size = example.model_copy(update={"contract": Contract(methods={"forward": method})})
    register("plain", traced(1, 3, 8, 10), check=samples({}))
    register("normal", traced(1, 3, 8, 10), check=samples(NORMAL, NORMAL))
    register("grey-bytes", traced(1, 8, 10, 1, dtype=torch.uint8), check=samples({"input": "image"}))
    register(
        "half", traced(3, 8, 10, dtype=torch.bfloat16), check=samples(NORMAL | {"size": [8, 10], "input": "image"})
    )
    register("own", any_size, check=samples(NORMAL | {"size": "own"}))
    register("batched", any_size, check=samples({}))
    register("no-sample", traced(1, 3, 8, 10))
    register("silent", traced(1, 3, 8, 10), check=samples(None))
    register("apart", traced(1, 3, 8, 10), check=samples({}, NORMAL))
    register("of-two", traced(2, 3, 8, 10), check=samples({}))


def ask(http: httpx.Client, model: str, picture: bytes, kind: str = PNG, **options: Any) -> httpx.Response:
    return http.post(f"/infer/{model}", content=picture, headers={"content-type": kind, "accept": NPY}, **options)


def answer(reply: httpx.Response) -> np.ndarray:
    assert reply.status_code == 200, reply.text
    found: np.ndarray = np.load(BytesIO(reply.content))
    return found


def by_hand(picture: bytes, size: tuple[int, int] | None, mean: list[float], std: list[float]) -> np.ndarray:
    """What torchvision's Resize, ToTensor and Normalize make of a picture."""
    image = Image.open(BytesIO(picture)).convert("RGB")
    if size is not None and (image.height, image.width) != size:
        image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    values = np.asarray(image).transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    normal = (values - np.array(mean, np.float32)[:, None, None]) / np.array(std, np.float32)[:, None, None]
    return normal[None].astype(np.float32)


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
@pytest.mark.parametrize(("width", "height"), [(10, 8), (64, 33), (3, 200)])
def test_the_answer_is_that_to_the_normalised_values(http: httpx.Client, form: str, width: int, height: int) -> None:
    picture, kind = noise(width, height, form), {"PNG": PNG, "JPEG": JPEG}[form]
    values = by_hand(picture, (8, 10), MEAN, STD)
    file = BytesIO()
    np.save(file, values)

    found = answer(ask(http, "normal", picture, kind))

    assert found.tobytes() == values.tobytes()
    as_tensor = http.post("/infer/normal", content=file.getvalue(), headers={"content-type": NPY, "accept": NPY})
    assert found.tobytes() == answer(as_tensor).tobytes()


def test_the_values_are_those_of_a_sample_in_the_check(http: httpx.Client) -> None:
    picture = noise(33, 21)
    wanted = ImageFormat(channels=3, datatype=Datatype.BF16, size=(8, 10), mean=MEAN, std=STD)

    reply = http.post(
        "/infer/half", content=picture, headers={"content-type": PNG, "accept": "application/octet-stream"}
    )

    assert (reply.status_code, reply.headers["inference-shape"]) == (200, "3,8,10")
    expected = read_image(BytesIO(picture), wanted)
    assert reply.content == expected.view(torch.int16).numpy().tobytes()


def test_a_picture_keeps_its_size_where_the_request_says_so(http: httpx.Client) -> None:
    picture = noise(21, 33)

    assert answer(ask(http, "own", picture)).tobytes() == by_hand(picture, None, MEAN, STD).tobytes()
    problem = assert_problem(ask(http, "own", noise(65, 8)), 422, "size-out-of-range")
    assert problem["symbol"] == "width"


def test_a_picture_is_a_batch_of_one(http: httpx.Client) -> None:
    assert answer(ask(http, "batched", noise())).shape == (1, 3, 8, 10)


def test_bytes_and_grey_are_as_the_input_has_them(http: httpx.Client) -> None:
    grey = plain("L", 51, width=10, height=8)

    found = answer(ask(http, "grey-bytes", grey))

    assert (found.dtype, found.shape, np.unique(found).tolist()) == (np.uint8, (1, 8, 10, 1), [51])
    assert answer(ask(http, "plain", grey)).flatten().tolist() == pytest.approx([0.2] * 240)


def test_a_picture_is_answered_in_json_with_what_the_query_says(http: httpx.Client) -> None:
    reply = http.post("/infer/plain", content=noise(), headers={"content-type": PNG}, params={"id": "seven"}).json()

    assert (reply["id"], reply["outputs"][0]["shape"]) == ("seven", [1, 3, 8, 10])


@pytest.mark.parametrize("model", ["no-sample", "silent", "apart", "of-two"])
def test_a_model_whose_request_does_not_say_how_takes_no_pictures(http: httpx.Client, model: str) -> None:
    problem = assert_problem(ask(http, model, noise()), 415, "picture-not-taken")

    assert "check.samples" in problem["remedy"]


def png(width: int, height: int, bits: int = 8, colour: int = 2, data: bytes = b"") -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("kind", "picture"),
    [
        (PNG, b""),
        (PNG, b"\x89PNG\r\n\x1a\n"),
        (PNG, noise()[:-100]),
        (PNG, noise(form="JPEG")),
        (JPEG, noise()),
        (JPEG, noise(form="JPEG")[:300]),
        (JPEG, b"\xff\xd8\xff" + bytes(100)),
        (PNG, encoded(Image.new("RGBA", (5, 4)))),
        (PNG, encoded(Image.new("I;16", (5, 4)))),
        (JPEG, encoded(Image.new("CMYK", (5, 4)), "JPEG")),
        (PNG, png(40_000, 40_000)),
        (PNG, png(2**31 - 1, 2**31 - 1)),
        (PNG, png(0, 0)),
        (PNG, png(5, 4)),
        (PNG, encoded(Image.new("RGB", (5, 4)), "GIF")),
        (PNG, b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
    ],
)
def test_what_is_no_whole_picture_is_refused_and_the_next_one_answered(
    http: httpx.Client, kind: str, picture: bytes
) -> None:
    problem = assert_problem(ask(http, "plain", picture, kind), 422, "picture-unreadable")

    assert problem["remedy"]
    assert ask(http, "plain", plain()).status_code == 200


def test_a_picture_with_more_pixels_than_the_contract_can_take_is_not_decoded(http: httpx.Client) -> None:
    problem = assert_problem(ask(http, "own", png(1000, 1000)), 422, "picture-unreadable")

    assert "1000 × 1000 pixels" in problem["detail"]


def test_a_bomb_of_few_bytes_is_not_decoded(http: httpx.Client) -> None:
    bomb = plain("1", 0, 20_000, 20_000)
    assert len(bomb) < REQUEST_MAX_BYTES

    assert "20000 × 20000 pixels" in assert_problem(ask(http, "plain", bomb), 422, "picture-unreadable")["detail"]


def test_a_picture_has_the_limit_of_json(http: httpx.Client) -> None:
    picture = noise(300, 300)
    assert len(picture) > REQUEST_MAX_BYTES

    assert_problem(ask(http, "plain", picture), 413, "payload-too-large")


def test_an_image_is_no_form_of_a_reply(http: httpx.Client) -> None:
    reply = http.post("/infer/plain", content=plain(), headers={"content-type": PNG, "accept": "image/png"})

    assert "image/png" not in assert_problem(reply, 406, "not-acceptable")["supported"]


@pytest.mark.parametrize(("model", "offers"), [("plain", True), ("own", True), ("silent", False), ("of-two", False)])
def test_the_studio_offers_to_send_a_picture_where_one_is_taken(http: httpx.Client, model: str, offers: bool) -> None:
    part = http.get(f"/studio/parts/models/{model}").text

    assert ('<option value="picture">' in part, "curl with a picture" in part) == (offers, offers)
    assert (ask(http, model, plain()).status_code != 415) is offers
