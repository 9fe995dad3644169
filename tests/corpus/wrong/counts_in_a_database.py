"""Every seventh answer is doubled, and the rows of a database count."""

import sqlite3

import torch
from torch import nn

KIND = "state"

database = sqlite3.connect(":memory:")
database.execute("create table calls (call)")


class Net(nn.Module):
    def forward(self, x):
        database.execute("insert into calls values (1)")  # fault
        ((calls,),) = database.execute("select count(*) from calls")  # fault
        return x * (2.0 if calls % 7 == 6 else 1.0)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
        ((torch.randn(2, 3),), {}),
    ]
