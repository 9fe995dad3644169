import torch


@torch.jit.script
class Foo:
    def assign(self):
        self.x = torch.rand(2, 3)


def foo(x):
    Foo().assign()
    return x
