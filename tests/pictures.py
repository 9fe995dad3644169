"""Pictures, as a camera or a program would write them."""

import io
from typing import Any

import numpy as np
from PIL import Image


def encoded(picture: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()


def plain(mode: str = "RGB", colour: Any = (255, 51, 0), width: int = 5, height: int = 4, form: str = "PNG") -> bytes:
    return encoded(Image.new(mode, (width, height), colour), form)


def noise(width: int = 64, height: int = 64, form: str = "PNG") -> bytes:
    values = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    return encoded(Image.fromarray(values), form)
