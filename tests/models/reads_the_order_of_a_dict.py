import torch


class Net(torch.nn.Module):
    def forward(self, parts: dict[str, torch.Tensor], sizes: dict[str, int]) -> torch.Tensor:
        times = list(sizes.values())
        return torch.cat(list(parts.values())) * times[0]
