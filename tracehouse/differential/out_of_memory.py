"""Out of memory: told from what torch and the system say of it."""

# As torch's allocators say it, for they raise RuntimeError.
OF_THE_PROCESS = (
    "DefaultCPUAllocator: ",
    "[enforce fail at alloc_cpu.cpp",
    "Could not allocate bytes object",
    "can't allocate memory",
    "Cannot allocate memory",
    "bad_alloc",
)
_OF_A_GPU = "CUDA out of memory"


def is_said_in(text: str) -> bool:
    return any(words in text for words in (*OF_THE_PROCESS, _OF_A_GPU))
