seen = []


def count(x):
    seen.append(x.shape)
    return x + len(seen)
