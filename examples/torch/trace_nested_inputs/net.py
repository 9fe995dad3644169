def mix(pair, batch):
    left, right = pair
    return left @ right, batch["scale"] * left
