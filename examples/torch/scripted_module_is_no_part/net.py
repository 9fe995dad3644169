import torch

gate = torch.jit.script(torch.nn.Linear(2, 2))


def forward(x):
    return gate(x) + 1
