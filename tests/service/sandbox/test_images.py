"""Pictures are decoded in every tier that this machine offers, also where a child can import nothing."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from PIL import Image

from service.sandbox.limits import Limits
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote
from tests.pictures import encoded, noise, plain

HERE = Path(__file__).parent
PICTURE = Image.new("RGB", (5, 4))
PICTURES = [
    noise(),
    noise(form="JPEG"),
    plain("L", 51, form="JPEG"),
    encoded(PICTURE.quantize(4)),
    encoded(PICTURE, "JPEG", exif=Image.Exif(), progressive=True),
    encoded(PICTURE, "MPO", save_all=True, append_images=[PICTURE]),
]


@pytest.fixture(scope="module")
def jailing(offered_tier: Tier) -> Iterator[Zygote]:
    with Zygote(["programs.reads_pictures"], tier=offered_tier, path=[HERE]) as zygote:
        yield zygote


def test_a_child_reads_pictures_in_each_tier(jailing: Zygote, tmp_path: Path, until: float) -> None:
    with ExitStack() as stack:
        files = []
        for number, content in enumerate(PICTURES):
            path = tmp_path / str(number)
            path.write_bytes(content)
            files.append(stack.enter_context(path.open("rb")).fileno())
        limits = Limits(address_space_mib=4096, cpu_s=60)
        child = stack.enter_context(jailing.fork("programs.reads_pictures", limits, files))
        answer, _ = child.channel.receive(until)

    assert answer["shapes"] == [[3, 6, 7]] * len(PICTURES)
