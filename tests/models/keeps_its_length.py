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


class AlsoBranches(Net):
    """Is wrong for other values, too."""

    def forward(self, ids, mask):
        kept = super().forward(ids, mask)
        if ids.sum() > 0:
            return kept
        return kept - 1
