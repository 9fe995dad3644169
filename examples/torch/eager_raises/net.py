def inner(x):
    return x.view(7)


def fn(x):
    return inner(x)
