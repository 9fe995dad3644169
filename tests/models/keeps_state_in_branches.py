"""State that a script keeps on a branch, or in one method for another, so that no call that is tried shows it."""

import torch


class BetweenMethods(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = torch.zeros(1, 4)

    @torch.jit.export
    def put(self, x):
        self.kept = x * 1
        return x * 1

    def forward(self, x):
        return torch.where(x > 1000, self.kept, x)


class Calibrated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ready = False
        self.most = torch.ones(())

    def forward(self, x):
        if not self.ready:
            self.most = x.abs().max()
            self.ready = True
        return torch.where(x > 1000, x / self.most, x)


class OnABranch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = torch.zeros(1, 4)

    def forward(self, x):
        if bool(x.sum() > 0):
            return x * 2
        self.kept = self.kept + x
        return self.kept + x


class InARow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(3, 4))

    def forward(self, x):
        if bool((x > 50).all()):
            self.rows[1] = x[0]
        return x + self.rows.sum(0)


class InALaterItem(torch.nn.Module):
    seen: list[int]

    def __init__(self):
        super().__init__()
        self.seen = [0] * 200

    def forward(self, x):
        self.seen[150] += 1
        return x + float(self.seen[150] > 60)


class HoldsIt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.jit.script(InALaterItem())

    def forward(self, x):
        return self.part(x)


class Harmless(torch.nn.Module):
    """It keeps what it never reads, counts in train mode alone, and has an object of its own in each call."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.dropout = torch.nn.Dropout(0.5)
        self.attention = torch.nn.LSTM(4, 4, dropout=0.1, num_layers=2)
        self.last = torch.zeros(1, 4)
        self.register_buffer("count", torch.zeros(()))
        self.steps = 0

    def forward(self, x):
        if self.training:
            self.steps += 1
            x = x * self.steps
        if bool((x > 50).all()):
            self.last = x * 1
            self.count.add_(1)
        totals = Totals()
        totals.add(x)
        x, _ = self.attention(self.dropout(self.norm(totals.sum)))
        return x


@torch.jit.script
class Totals:
    def __init__(self):
        self.sum = torch.zeros(())

    def add(self, x: torch.Tensor):
        self.sum = self.sum + x
