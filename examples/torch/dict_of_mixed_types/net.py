def stats(x):
    return {"mean": x.mean(), "range": {"low": x.min(), "high": x.max()}}
