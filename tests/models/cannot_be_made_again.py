import threading

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x):
        return x

    def load_state_dict(self, state):
        raise RuntimeError("there can be only one")
