"""torch's encoder, whose fast path looks at the values of the padding mask; a mean over what is not padding."""

import torch
from torch import nn

OPEN = {"x": [0, 1], "padding": [0, 1]}
WITHOUT_FAST_PATHS = True


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x, padding):
        y = self.encoder(x, src_key_padding_mask=padding)
        keep = (~padding).unsqueeze(-1)
        return (y * keep).sum(1) / keep.sum(1).clamp(min=1)


def example():
    return (
        torch.randn(2, 4, 8),
        torch.tensor([[False, False, False, True], [False, False, True, True]]),
    ), {}


def others():
    left = torch.tensor([[True, False, False], [True, True, False], [False, False, False]])
    scattered = torch.tensor([[False, True, False, True, False, True]])
    return [
        ((torch.randn(3, 3, 8), left), {}),
        ((torch.randn(1, 6, 8), scattered), {}),
        ((torch.randn(2, 5, 8), torch.zeros(2, 5, dtype=torch.bool)), {}),
    ]
