def careful(x):
    try:
        return x * 2
    except RuntimeError:
        return x
