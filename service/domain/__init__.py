"""The words of the product, as frozen types; no input or output."""
