import torch


def forward(x):
    return torch.nn.functional.dropout(x, 0.5, training=True)
