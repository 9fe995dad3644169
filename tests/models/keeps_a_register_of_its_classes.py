import torch


class Registered(type):
    names = set()

    def __new__(cls, name, bases, namespace, **given):
        assert name not in cls.names
        cls.names.add(name)
        return super().__new__(cls, name, bases, namespace, **given)

    def __init__(cls, name, bases, namespace, **_):
        super().__init__(name, bases, namespace)


class Tagged(torch.nn.Module, metaclass=Registered):
    def __init_subclass__(cls, *, tag):
        cls.tag = tag


class Net(Tagged, tag="net"):
    def forward(self, x):
        self.last = x * 2
        return self.last
