def raised(x, by):
    for _ in range(by):
        x = x * x
    return x
