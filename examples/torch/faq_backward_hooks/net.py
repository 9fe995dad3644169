import torch


def make():
    layer = torch.nn.Linear(4, 3)
    layer.register_full_backward_hook(lambda *_: None)
    return layer
