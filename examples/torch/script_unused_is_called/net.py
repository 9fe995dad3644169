import torch


class Net(torch.nn.Module):
    def __init__(self, memory_efficient):
        super().__init__()
        self.memory_efficient = memory_efficient

    @torch.jit.unused
    def efficient(self, x):
        return torch.from_numpy(x.numpy() + 10)

    def forward(self, x):
        if self.memory_efficient:
            return self.efficient(x)
        return x + 10
