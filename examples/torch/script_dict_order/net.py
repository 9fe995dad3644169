import torch


class Net(torch.nn.Module):
    def forward(self, batch: dict[str, torch.Tensor]):
        return torch.cat(list(batch.values()))
