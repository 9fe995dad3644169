def stats(x):
    return {"low": x.min(), "high": x.max()}
