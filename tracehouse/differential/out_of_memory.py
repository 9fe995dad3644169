"""Out of memory: recognised by the messages of torch and of the system."""

# What torch's allocators (c10/core/impl/alloc_cpu.cpp), Python, C++ and the system say. They raise RuntimeError or
# OSError, and no type of their own.
PROCESS_MESSAGES = (
    "DefaultCPUAllocator: ",
    "[enforce fail at alloc_cpu.cpp",
    "Could not allocate bytes object",
    "can't allocate memory",
    "Cannot allocate memory",
    "bad_alloc",
)
_GPU_MESSAGE = "CUDA out of memory"


def reports_out_of_memory(text: str) -> bool:
    """Whether the text of an error says that memory ran out, that of the process or that of the GPU."""
    return any(words in text for words in (*PROCESS_MESSAGES, _GPU_MESSAGE))
