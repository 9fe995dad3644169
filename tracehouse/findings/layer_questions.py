"""What each layer of the check finds out, as a person reads it."""

_QUESTIONS = {
    "observe": "what the model reads and writes beside its inputs and outputs",
    "sizes": "which sizes may vary",
    "prove": "for which sizes the trace is right, proven for all of them",
    "graphs": "whether a trace on other inputs is another one",
    "flip": "whether the values that Python reads change the answer",
    "calls": "whether the trace answers as the model does at other sizes",
    "probe": "whether the trace answers as the model does on inputs that the check makes up",
    "batch": "whether requests may be answered together",
}


def question_of(layer: str) -> str:
    """Return what the layer of this name finds out; one of another release may have a name that is not known here."""
    return _QUESTIONS.get(layer, f"what the layer {layer} finds out")
