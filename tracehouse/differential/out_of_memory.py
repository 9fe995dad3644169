"""Out of memory: told from what torch and the system say of it."""

# As torch's allocators say it, for they raise RuntimeError.
PROCESS_MESSAGES = (
    "DefaultCPUAllocator: ",
    "[enforce fail at alloc_cpu.cpp",
    "Could not allocate bytes object",
    "can't allocate memory",
    "Cannot allocate memory",
    "bad_alloc",
)
_OF_A_GPU = "CUDA out of memory"


def reports_out_of_memory(text: str) -> bool:
    return any(words in text for words in (*PROCESS_MESSAGES, _OF_A_GPU))
