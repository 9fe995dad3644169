import math

import torch
import torch.nn.functional as F
from torch import nn


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x).relu() * 2 + 1.5


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return F.adaptive_avg_pool2d(F.relu(self.norm(self.convolution(x))), 1).flatten(1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(attended.transpose(1, 2).reshape(batch, length, width))


class MaskedByLengths(nn.Module):
    def forward(self, x, lengths):
        mask = torch.arange(x.shape[1])[None, :] < lengths[:, None]
        return (x * mask[:, :, None]).sum(1) / lengths[:, None]


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 4)
        self.places = nn.Embedding(64, 4)

    def forward(self, ids):
        return self.words(ids) + self.places(torch.arange(ids.shape[1]))


class TwoInputs(nn.Module):
    def forward(self, queries, keys):
        scores = queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[-1])
        return scores.softmax(-1), (queries.sum(1), keys.sum(1))


class WritesInPlace(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[:, 1:] += x[:, :-1]
        y[:, 0] = 0
        y[:, -1].mul_(3)
        return y


class WritesItsInput(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x[:, 0]


class DividesByItsLength(nn.Module):
    def forward(self, x):
        return x.sum(1) / x.shape[1], x.flatten(1), x.reshape(x.shape[0], -1, 1).expand(-1, -1, 2)


class HalvesItsLength(nn.Module):
    def forward(self, x):
        half = x.shape[1] // 2
        return torch.cat([x[:, half:], x[:, :half]], 1)


class PairsUp(nn.Module):
    def forward(self, x):
        return x.view(x.shape[0], x.shape[1] // 2, 2).flip(-1).reshape(x.shape[0], -1)


class ChecksItsShape(nn.Module):
    def forward(self, x):
        assert x.shape[1] % 4 == 0, "a multiple of four"
        return x.view(x.shape[0], -1, 4).sum(-1)


class Windows(nn.Module):
    def forward(self, x):
        batch, channels, height, width = x.shape
        x = x.view(batch, channels, height // 4, 4, width // 4, 4)
        return x.permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, channels).mean(1)


class CachesItsMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, x):
        if self.mask is None or self.mask.shape[0] != x.shape[1]:
            self.mask = torch.ones(x.shape[1], x.shape[1]).tril()
        return self.mask @ x


class KeepsATable(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(32, 4))

    def forward(self, x):
        return x + self.table[: x.shape[1]]


class Upsamples(nn.Module):
    def forward(self, x):
        return F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), mode="nearest")


class PadsToAMultiple(nn.Module):
    def forward(self, x):
        return F.pad(x, (0, (4 - x.shape[1] % 4) % 4))


class Einsum(nn.Module):
    def forward(self, x):
        return torch.einsum("bnd,bmd->bnm", x, x)


class Grouped(nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        y[:, ::2] = x[:, ::2]
        return torch.where(x > 0, y, x.new_full((x.shape[1],), -1.0)), x.cumsum(1), x.argmax(1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        return self.layer(x)


class ComparesAnInteger(nn.Module):
    def forward(self, ids):
        return (ids < ids.shape[1]).float() * ids.shape[1], ids * 2, ids / 2, ids + ids.size(0)


class Branches(nn.Module):
    def forward(self, x):
        if x.dim() == 2:
            x = x.unsqueeze(1)
        return x.squeeze(1) * 2


class LooksAtAValue(nn.Module):
    def forward(self, x):
        if x.sum() > 1e9:
            print("large")
        return x * 2


class Scripted(nn.Module):
    def forward(self, x):
        if x.size(1) > 12:
            x = x * 2
        for _ in range(3):
            x = x + x.size(0)
        return x


class Steps(nn.Module):
    """As a script: each length is a loop of its own."""

    def forward(self, x):
        state = x[:, 0]
        for place in range(1, x.size(1)):
            state = torch.tanh(state + x[:, place])
        return state


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.GRU(4, 3, bidirectional=True, batch_first=True)
        self.score = nn.Linear(6, 2)

    def forward(self, x):
        states, last = self.cells(x)
        return self.score(states), last


class Elman(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.RNN(4, 3, 2)

    def forward(self, x):
        return self.cells(x, x.new_zeros(2, x.size(1), 3))[0]


class Spaced(nn.Module):
    def forward(self, x):
        return x * torch.linspace(0, 1, x.shape[1]).unsqueeze(-1)


class PoolsByItsShape(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, x.shape[1:]).flatten()


class TakesTheLargestOfItsShape(nn.Module):
    def forward(self, x):
        every = F.max_pool2d(x, x.shape[1:]) + F.max_pool2d(x, (1, x.size(2)), stride=(1, x.size(2)))[:, :1]
        return every.flatten()


class AsksWhetherItsMaskIsCausal(nn.Module):
    def forward(self, x):
        mask, causal = (nn.Transformer.generate_square_subsequent_mask(x.shape[1]) for _ in range(2))
        if not bool((mask == causal).all()) or not torch.equal(mask, causal):
            raise ValueError("it is not")
        return torch.softmax(x @ x.transpose(1, 2) + mask, -1) if (mask == causal).all() else x @ x.transpose(1, 2)


class Samples(nn.Module):
    def forward(self, x):
        image, turn = x.unsqueeze(1), x.new_tensor([[[1.0, 0.5, 0.0], [0.0, 1.0, 0.25]]])
        grid = F.affine_grid(turn.expand(x.shape[0], -1, -1), image.shape, align_corners=False)
        return F.grid_sample(image, grid, align_corners=False)


class TakesTheLastOfEach(nn.Module):
    def forward(self, x, lengths):
        return x[torch.arange(x.shape[0]), lengths - 1]


class Remembers(nn.Module):
    def forward(self, x, keys, values):
        keys, values = torch.cat([keys, x], 1), torch.cat([values, x], 1)
        return torch.softmax(x @ keys.mT, -1) @ values, keys, values


class Draws(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


class DrawsInTrainingAlone(nn.Module):
    def forward(self, x):
        return F.rrelu(F.dropout(x, 0.5, self.training), training=self.training)


def same(size, kernel, stride):
    """The padding after which a convolution gives as many as steps begin."""
    if isinstance(size, torch.Tensor):
        return torch.clamp(((size / stride).ceil() - 1) * stride + kernel - size, min=0)
    return max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)


class PadsTheSame(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 3, stride=2)

    def forward(self, x):
        height, width = (same(size, 3, 2) for size in x.shape[-2:])
        return self.convolution(F.pad(x, (width // 2, width - width // 2, height // 2, height - height // 2)))


class DividesByLengths(nn.Module):
    def forward(self, x):
        return x / x.size(-1) + torch.arange(x.shape[1]) / x.shape[1]


class MultipliesByAnInverse(nn.Module):
    def forward(self, x):
        return x * (1.0 / x.shape[1])


class VariesByHand(nn.Module):
    def forward(self, x):
        mean = x.sum(1, keepdim=True) / x.shape[1]
        return ((x - mean) ** 2).sum(1) / (x.shape[1] + 1)


class TakesTheLargerHalf(nn.Module):
    def forward(self, x):
        return x[:, : (x.shape[1] + 1) // 2]


class AssertsAndLogs(nn.Module):
    def forward(self, x):
        assert not torch.isnan(x).any(), "a number"
        if x.abs().max() > 1e6:
            print("large:", x.shape)
        return x / x.shape[1]


class AsksForIntsOfItsShape(nn.Module):
    def forward(self, x):
        length = x.shape[1]
        if not isinstance(length, int | torch.Tensor):
            raise TypeError(f"a length is no {length}")
        return x / length


class MultipliesByAnInverseTwice(nn.Module):
    def forward(self, x):
        return x * (1 / x.shape[1] / x.shape[1])


class DividesOnBothSides(nn.Module):
    def forward(self, x):
        if (x >= 0).all():
            return x / x.shape[1]
        return torch.where(x >= 0, x, x) / x.shape[1]


class MatchesTwoSets(nn.Module):
    """How alike each of some rows is to each of others."""

    def forward(self, x: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return (x @ others.t()).softmax(-1)


class MultipliesSizesInPlace(nn.Module):
    def forward(self, x):
        elements = 1
        for size in x.shape[1:]:
            elements *= size
        elements += x.shape[0]
        elements -= x.shape[0]
        return x.reshape(x.shape[0], elements) / elements


class WritesNumbersFirst(nn.Module):
    def forward(self, x):
        half = x.shape[1] / 2
        return torch.where(half < x.abs(), half * x + (half + x) - (half - x), x)


class ScalesByAColumn(nn.Module):
    def forward(self, x):
        column = torch.tensor([[2.0, 3.0]])[:, 0]
        return x * column


class PoolsTheLargest(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.MaxPool1d(2, ceil_mode=True)

    def forward(self, x):
        return torch.nn.functional.max_pool1d(self.down(x.transpose(1, 2)), 3, stride=2, padding=1)


class Derives(nn.Module):
    """Derives a line along its length, by its frequencies."""

    def forward(self, x):
        frequencies = torch.fft.fftfreq(x.shape[1], d=0.5)
        positive = torch.fft.rfftfreq(x.shape[1])
        derived = torch.fft.ifft(torch.fft.fft(x) * frequencies).real
        return derived + torch.fft.irfft(torch.fft.rfft(x) * positive, n=x.shape[1])


class GoesToASpectrumAndBack(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.ones(4))

    def forward(self, x):
        spectrum = torch.stft(x, 4, 2, window=self.window, return_complex=True)
        return torch.istft(spectrum, 4, 2, window=self.window, length=x.shape[1])


class MakesTensorsOfSizes(nn.Module):
    def forward(self, x):
        length = torch.tensor(x.shape[1])
        rows = torch.as_tensor(x.size(0), dtype=torch.float32)
        mean = x / (length.float() + 1).sqrt() / rows
        return mean * x.new_tensor(x.shape[1]) + torch.stack([torch.as_tensor(size) for size in x.shape]).sum()


class AsksATensorOfItsLength(nn.Module):
    def forward(self, x):
        if torch.as_tensor(x.shape[1]) < 1:
            raise ValueError("it is empty")
        return x / torch.as_tensor(x.shape[1]).expand(x.shape[1])


class MasksFrames(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 2, 10, stride=5)
        self.second = nn.Conv1d(2, 3, 3, stride=2)

    def forward(self, sound, mask):
        return self.second(self.first(sound[:, None])) * mask[:, None]


class MasksSpectra(nn.Module):
    def forward(self, sound, mask):
        window = torch.ones(16)
        return torch.stft(sound, 16, 8, window=window, return_complex=True).abs() * mask[:, None]


class MasksWindows(nn.Module):
    def forward(self, sound, mask):
        return sound.unfold(1, 8, 4) * mask[:, :, None]
