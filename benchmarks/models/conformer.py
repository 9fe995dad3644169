"""Four blocks of a Conformer (arXiv:2005.08100): `conformer:conformer`, an input of FP32 [1, 80, 200].

As published, but for positions, which are absolute.
"""

import torch
from torch import nn


class FeedForward(nn.Sequential):
    def __init__(self, width: int) -> None:
        super().__init__(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))


class Convolution(nn.Module):
    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)
        self.out = nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gated = nn.functional.glu(self.gate(self.norm(x).transpose(1, 2)), dim=1)
        out = self.out(nn.functional.silu(self.batch_norm(self.depthwise(gated))))
        return out.transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = FeedForward(width), FeedForward(width)
        self.attention_norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.convolution = Convolution(width, 15)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.first(x) / 2
        y = self.attention_norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.convolution(x)
        return self.norm(x + self.second(x) / 2)


class Conformer(nn.Module):
    def __init__(self, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.subsample = nn.Sequential(
            nn.Conv2d(1, width, 3, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 2), nn.ReLU()
        )  # fmt: skip
        self.proj = nn.Linear(width * 19, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = self.subsample(mel.transpose(1, 2).unsqueeze(1))
        x = self.proj(x.transpose(1, 2).flatten(2))
        for block in self.blocks:
            x = block(x)
        return x


def conformer() -> Conformer:
    return Conformer(width=144, heads=4, depth=4)
