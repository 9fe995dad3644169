"""torch's own generators of random numbers: the default one of each device."""

import torch


def read_generators() -> list[bytes]:
    """Return the states of the default generators. They change whenever a random number is drawn."""
    # Asking CUDA for its state would initialize it in a process that does not use it.
    states = [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]
    return [state.numpy().tobytes() for state in states]
