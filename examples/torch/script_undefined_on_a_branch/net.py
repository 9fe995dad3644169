def foo(x):
    if bool(x.sum() < 1e9):
        y = x * 4
    return y
