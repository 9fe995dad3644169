import resource

import torch

print("address space:", resource.getrlimit(resource.RLIMIT_AS)[0])


class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1
