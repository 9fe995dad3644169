"""An encoder like BERT's, of 4 layers, in plain torch: `encoder:encoder`, an input of INT64 [1, 64]."""

import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

TOKENS, POSITIONS, WIDTH, HEADS, LAYERS = 8192, 256, 256, 4, 4


class Layer(nn.Module):
    """Attention and two linear layers, with a norm after each."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wider, self.narrower = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.asked(x).chunk(3, -1)]
        x = self.norms[0](x + self.joined(scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)))
        return self.norms[1](x + self.narrower(gelu(self.wider(x))))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(TOKENS, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.pooled = nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.tokens(tokens) + self.positions(places))
        return torch.tanh(self.pooled(self.layers(x)[:, 0]))


def encoder() -> Encoder:
    return Encoder()
