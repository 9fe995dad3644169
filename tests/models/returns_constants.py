import torch


class Rows(torch.nn.Module):
    def forward(self, x):
        return {"y": x * 2, "rows": x.shape[0]}


class HalfRows(torch.nn.Module):
    def forward(self, x):
        return x * 2, [f"{x.shape[0] / 2:.1f} pairs"]


class Seldom(torch.nn.Module):
    def forward(self, x):
        label = "odd" if abs(float(x.mean()) - 7.25) < 1e-6 else "usual"
        return x * 2, label


class Always(torch.nn.Module):
    def forward(self, x):
        return {"y": x * 2, "labels": ["cat", None, 1.5]}
