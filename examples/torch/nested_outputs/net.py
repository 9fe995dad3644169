def parts(x):
    return x * 2, (x + 1, [x - 1, -x])
