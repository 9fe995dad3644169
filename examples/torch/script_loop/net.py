def fn(x):
    result = x[0]
    for i in range(x.size(0)):
        result = result * x[i]
    return result
