import torch


class ImageNormalizer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        means = torch.tensor([103.939, 116.779, 123.68])
        self.means = torch.nn.Parameter(means.resize_(1, 3, 1, 1))
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
        self.net = torch.jit.trace(net, torch.rand(1, 3, 8, 8))

    def shifted(self, image):
        return self.net(image - self.means)

    def forward(self, image):
        return self.shifted(image)

    @torch.jit.export
    def brighter(self, image):
        return self.by_ten(image)

    def by_ten(self, image):
        return image + 10
