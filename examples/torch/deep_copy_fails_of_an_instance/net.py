import threading

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x):
        with self.lock:
            return x * 2


net = Net()
