import torch


class Net(torch.nn.Module):
    """Its trace keeps how long its positions are."""

    def forward(self, ids, mask):
        positions = torch.arange(int(ids.shape[1]))
        return (ids + positions) * mask


class Unscriptable(Net):
    """In whose place no script can stand."""

    def forward(self, ids, mask):
        return next(kept for kept in [super().forward(ids, mask)])


class Longest(Unscriptable):
    """Takes no more than six."""

    def forward(self, ids, mask):
        if ids.shape[1] > 6:
            raise ValueError("too long")
        return super().forward(ids, mask)
