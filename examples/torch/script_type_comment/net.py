def shifted(pair, by):
    # type: (Tuple[Tensor, Tensor], int) -> Tensor
    left, right = pair
    return left + right + by
