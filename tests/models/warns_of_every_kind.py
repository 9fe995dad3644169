import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if x[0] > 0:
            x = x + 1
        n = int(x[0])
        f = float(x[1])
        listed = sum(x.tolist())
        counted = float(x.numpy().sum())
        for row in x:
            f = f + row
        size = len(x)
        made = torch.tensor([1.0, 2.0, 3.0])
        return x * n + f + listed + counted + size + made

    def encode(self, x):
        return self.forward(x) * (2 if x.sum() > 0 else 3)
