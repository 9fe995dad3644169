"""The batch layer: whether the rows of a batch are independent of one another."""
