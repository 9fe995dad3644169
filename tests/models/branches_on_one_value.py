import math

import torch

END = 57
PAIRS = {(12, 40): 2}


class Net(torch.nn.Module):
    """The value is an attribute's."""

    def __init__(self):
        super().__init__()
        self.end = 57

    def forward(self, ids):
        return ids * 0 if ids[0].item() == self.end else ids + 1


class Listed(torch.nn.Module):
    def forward(self, ids):
        return ids * 0 if END in ids.tolist() else ids + 1


class Keyed(torch.nn.Module):
    def forward(self, ids):
        first, second, *_ = ids.tolist()
        return ids * PAIRS.get((first, second), 1)


class Between(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ends", torch.tensor([0.4131, 0.4132]))

    def forward(self, x):
        low, high = self.ends.tolist()
        return -x if low < float(x.mean()) < high else x


class Computed(torch.nn.Module):
    def forward(self, ids):
        return ids * 0 if sum(ids.tolist()) * 31 % 1009 == 17 else ids + 1


class Shown(torch.nn.Module):
    def forward(self, x):
        return x * 0 if f"{x.mean().item():.2f}" == "4.25" else x


class InNumpy(torch.nn.Module):
    def forward(self, x):
        values = x.numpy()
        return x * 0 if values[0, 0] > 5e5 and values.mean() < -5e5 else x


class BySine(torch.nn.Module):
    def forward(self, x):
        return -x if math.sin(x.sum().item()) > 0.9999 else x


class Converted(torch.nn.Module):
    def forward(self, x):
        return -x if math.sin(float(x.sum())) > 0.9999 else x


class BesideADatatype(torch.nn.Module):
    """torch takes int itself alone."""

    def forward(self, ids):
        first, second = ids.to(int)[:2].tolist()
        return ids * 0 if isinstance(first, int) and (first * 31 + second) % 1009 == 17 else ids


class Subset(torch.nn.Module):
    def forward(self, ids):
        return ids * 0 if {901, 902} <= set(ids.tolist()) else ids


class Caught(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factors = {500: 3, 501: 4}

    def forward(self, ids):
        try:
            return ids * self.factors[ids[0].item()]
        except KeyError:
            return ids


class CaughtSlightly(torch.nn.Module):
    """Its sides differ by less than a usual tolerance, and by far more than rounding."""

    def __init__(self):
        super().__init__()
        self.known = {"12345": None}

    def forward(self, x):
        try:
            self.known[str(int(x[0, 0]) * 7919 % 100003)]
        except KeyError:
            return x * 2
        return x * 2.000006


class Both(torch.nn.Module):
    """Neither comparison alone changes the graph."""

    def forward(self, ids):
        return ids * 0 if self._begins(ids) and ids[-1] == 57 else ids + 1

    def _begins(self, ids):
        return bool(ids[0] == 58)


class Logs(torch.nn.Module):
    def forward(self, x):
        mean, values = x.mean().item(), x.flatten().tolist()
        if (mean == 57.0 and max(values) > 100) or f"{mean:.2f}" == "4.25":
            print(mean)
        return x * 2


class LogsTokens(torch.nn.Module):
    def forward(self, ids):
        if END in ids.tolist():
            print(PAIRS.get(tuple(ids.tolist())))
        return ids + 1
