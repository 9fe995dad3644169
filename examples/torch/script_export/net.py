import torch


class Net(torch.nn.Module):
    def implicitly_compiled(self, x):
        return x + 99

    def forward(self, x):
        return x + 10

    @torch.jit.export
    def another_forward(self, x):
        return self.implicitly_compiled(x)

    def not_compiled(self, x):
        return x - 20
