import weakref

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.kept = self.scale = self.shift = torch.ones(())
        me = weakref.ref(self)

        def keep(name):
            def hook(module, args, output):
                setattr(self, name, output)

            return hook

        self.layer.register_forward_hook(keep("kept"))
        self.layer.register_forward_hook(lambda module, args, output: setattr(self, "scale", output.abs().max()))
        self.layer.register_forward_hook(lambda module, args, output: setattr(me(), "shift", output.sum()))

    def forward(self, x):
        self.layer(x)
        return self.kept * self.scale + self.shift


net = Net()
