def foo(x, y):
    return 2 * x + y
