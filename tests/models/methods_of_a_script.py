import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.half(self.layer(x))

    def half(self, x):
        return x / 2

    @torch.jit.export
    def twice(self, x, by: int = 2):
        return self.half(x) * 2 * by

    def not_marked(self, x):
        return self.layer(x) if bool(x.sum() > 0) else x

    @torch.jit.ignore
    def left_to_python(self, x):
        return x + 1


bound = Net().not_marked
