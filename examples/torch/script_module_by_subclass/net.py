import torch


class Net(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.factor = torch.jit.Attribute(0.5, float)
        self.names = torch.jit.Attribute({"a": 1}, dict[str, int])

    @torch.jit.script_method
    def forward(self, x):
        return x * self.factor + self.names["a"]
