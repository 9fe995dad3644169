import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x, factor: float = 2.0):
        if bool(x.sum() > 0):
            return self.layer(x) * factor
        return self.layer(x)

    @torch.jit.export
    def encode(self, x):
        return self.layer(x)


net = torch.jit.script(Net())
method = net.encode
traced = torch.jit.trace(torch.nn.Linear(4, 2), torch.ones(1, 4))


def make(training=False):
    return torch.jit.script(Net()).train(training)


class WithParts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.jit.script(Net())
        self.functions = [branches]

    def forward(self, x):
        return self.functions[0](self.part(x))


@torch.jit.script
def branches(x):
    return x if bool(x.sum() > 0) else x * 3
