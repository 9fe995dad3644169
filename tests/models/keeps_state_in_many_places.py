"""Each call adds to the answer from whatever all copies of the model share."""

import array
import io
from collections import UserDict, UserList

import torch

NUMBERS = array.array("i", [0])
TEXT = io.StringIO()
BYTES = io.BytesIO()
NAMES = UserDict()
ITEMS = UserList()


def make_counter():
    made = []

    def count():
        made.append(1)
        count.calls = count.calls + 1
        return len(made) + count.calls

    count.calls = 0
    return count


def make_namesake():
    """The attribute has the name of a variable that the function closes over."""
    calls = [1]

    def answer():
        return len(calls)

    answer.calls = 0
    return answer


COUNT, NAMESAKE = make_counter(), make_namesake()


def count_by_default(first=[], /, *, second=[]):
    first.append(1)
    second.append(1)
    return len(first) + len(second)


class Net(torch.nn.Module):
    def forward(self, x):
        NUMBERS[0] += 1
        TEXT.write("x")
        BYTES.write(b"x")
        NAMES[len(NAMES)] = 1
        ITEMS.append(1)
        shared = NUMBERS[0] + len(TEXT.getvalue()) + len(BYTES.getvalue()) + len(NAMES) + len(ITEMS)
        return x * (shared + COUNT() + NAMESAKE() + count_by_default() - 9)
