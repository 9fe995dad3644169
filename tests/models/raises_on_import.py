import torch  # noqa: F401

half = 1 / 2


def fail():
    raise ValueError("not today")


fail()
