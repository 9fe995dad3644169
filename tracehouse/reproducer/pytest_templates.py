"""Templates: the parts of a counterexample's pytest file."""

BESIDE = '''
def read_beside(name):
    """Read an uploaded file that is too large to be written into this test."""
    path = Path(__file__).with_name(name)
    if not path.exists():
        raise FileNotFoundError(f"put {name} beside this test: it was submitted with the model")
    return path.read_bytes()
'''

UNZIPPED = """
def unzip(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {one.filename: archive.read(one) for one in archive.infolist() if not one.is_dir()}
"""

UNPACKED = """
def unpack(dtype, shape, data):
    flat = torch.frombuffer(bytearray(zlib.decompress(base64.b64decode(data))), dtype=dtype)
    return flat.reshape(shape).clone()
"""

INSTALL = '''
def install(folder, monkeypatch):
    """Write the source to a folder from which Python imports it."""
    for path, text in FILES.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.syspath_prepend(str(folder))
'''

# At the end of INSTALL.
WITHOUT_FAST_PATHS = """
    # As torch.backends.mha.set_fastpath_enabled(False), until the test ends: a trace keeps the path of one mask.
    monkeypatch.setattr(torch.backends.mha, "_is_fastpath_enabled", False)
"""

MAKE = '''
def seed(number):
    torch.manual_seed(number)
    random.seed(number)
    numpy.random.seed(number % 2**32)


def load_entrypoint():
    """Import the entrypoint anew; if it is a class or a factory, call it."""
    module, _, path = ENTRYPOINT.partition(":")
    own = {module.partition(".")[0], *(path.partition("/")[0].removesuffix(".py") for path in FILES)}
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]
    importlib.invalidate_caches()
    seed(SEED)
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    if isinstance(found, torch.nn.Module) or isinstance(getattr(found, "__self__", None), torch.nn.Module):
        return found
    try:
        inspect.signature(found).bind(*INIT_ARGS, **INIT_KWARGS)
    except (TypeError, ValueError):
        return found  # a function that is itself the model
    seed(SEED)
    made = found(*INIT_ARGS, **INIT_KWARGS)
    return made if callable(made) else found


class Method(torch.nn.Module):
    """A module whose forward is a function, or one method of a model."""

    def __init__(self, function):
        super().__init__()
        if isinstance(getattr(function, "__self__", None), torch.nn.Module):
            self.owner = function.__self__
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def model():
    """Return the model with its weights, in its mode and its precision."""
    made = load_entrypoint()
    net = made if isinstance(made, torch.nn.Module) else Method(made)
    owner = getattr(net, "owner", net)
{weights}    if TRAINING != "as-is":
        owner.train(TRAINING)
    net.to(device=DEVICE, dtype=PRECISION)
    if METHOD != "forward":
        net = Method(getattr(owner, METHOD))
    if any(isinstance(one, torch.nn.parameter.UninitializedParameter) for one in net.parameters()):
        ask(net, example())  # lazy modules take their shapes from a first call
    return net


def ask(net, given):
    args, kwargs = arguments(given)
    seed(CALL_SEED)
    with torch.no_grad():
        return net(*args, **kwargs)
'''

# What did not fit is among the findings, and is left out here as there.
LOAD = "    owner.load_state_dict(weights(), strict=False)\n"

SAFETENSORS = """
def weights():
    return rename(safetensors.torch.load(WEIGHTS))
"""

PICKLED = """
def weights():
    loaded = torch.load(io.BytesIO(WEIGHTS), map_location="cpu", weights_only=True)
    states = dict(find_states(loaded, ""))
    usual = [key for key in states if all(name in USUAL_NAMES for name in key.split(".") if name)]
    return rename(states[usual[0] if WEIGHTS_KEY is None else WEIGHTS_KEY])


def find_states(loaded, key):
    if isinstance(loaded, dict) and all(isinstance(value, torch.Tensor) for value in loaded.values()):
        if loaded:
            yield key, loaded
    elif isinstance(loaded, dict):
        for name, value in loaded.items():
            yield from find_states(value, f"{key}.{name}" if key else name)
"""

RENAME = """
def rename(state):
    def new(name):
        old = max((old for old in WEIGHTS_RENAME if name.startswith(old)), key=len, default=None)
        return name if old is None else WEIGHTS_RENAME[old] + name[len(old) :]

    return {new(name): tensor for name, tensor in state.items()}
"""

TRACE = '''
def artifact():
    """Return the model traced on the example."""
    net = model()
    script_parts(net)
    with torch.set_grad_enabled(GRADIENTS):
        return torch.jit.trace(net, tuple(example().values()), **OPTIONS)


def ask_artifact(module, given):
    seed(CALL_SEED)
    with torch.no_grad():
        return module(*given.values())


def script_parts(net):
    """Script the parts of the model that were scripted before it was traced."""
    for name in SCRIPTED:
        parent, _, last = name.rpartition(".")
        setattr(net.get_submodule(parent), last, torch.jit.script(net.get_submodule(name)))
    for name in SCRIPTED_FUNCTIONS:
        module, _, last = name.rpartition(".")
        setattr(sys.modules[module], last, torch.jit.script(getattr(sys.modules[module], last)))
'''

TRACE_ONE_CALL = '''
class Call(torch.nn.Module):
    """The model called as in `arguments`: a trace takes only tensors, and bakes everything else in."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, *tensors):
        args, kwargs = arguments(dict(zip(example(), tensors)))
        return self.net(*args, **kwargs)


def artifact():
    """Return the model traced on the example."""
    net = model()
    script_parts(net)
    with torch.set_grad_enabled(GRADIENTS):
        return torch.jit.trace(Call(net), tuple(example().values()), **OPTIONS)


def ask_artifact(module, given):
    seed(CALL_SEED)
    with torch.no_grad():
        return module(*given.values())


''' + TRACE[TRACE.index("def script_parts") :]

# The trace returns tensors alone. What else the model returns is kept as it is on the example.
TRACE_TENSORS = '''
class Tensors(torch.nn.Module):
    """The model called as in `arguments`, of which a trace keeps the tensors: it returns those with these names."""

    def __init__(self, net, names):
        super().__init__()
        self.net = net
        self.names = names

    def forward(self, *tensors):
        args, kwargs = arguments(dict(zip(example(), tensors)))
        returned = leaves(self.net(*args, **kwargs))
        return tuple(returned[name] for name in self.names)


def artifact():
    """Return the model traced on the example."""
    names = [name for name, leaf in leaves(ask(model(), example())).items() if isinstance(leaf, torch.Tensor)]
    net = model()
    script_parts(net)
    with torch.set_grad_enabled(GRADIENTS):
        return torch.jit.trace(Tensors(net, names), tuple(example().values()), **OPTIONS)


def ask_artifact(module, given):
    constants = ask(model(), example())
    seed(CALL_SEED)
    with torch.no_grad():
        return fill(constants, iter(module(*given.values())))


def fill(value, tensors):
    """Return the value with other tensors."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if dataclasses.is_dataclass(value) and not isinstance(value, dict):
        return {one.name: fill(getattr(value, one.name), tensors) for one in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: fill(item, tensors) for key, item in value.items()}
    return [fill(item, tensors) for item in value] if isinstance(value, (list, tuple)) else value


''' + TRACE[TRACE.index("def script_parts") :]

INLINE = '''
def apply(function, *args, **kwargs):
    """Apply a torch.autograd.Function. In a trace, run its forward alone: an archive has the operators of it."""
    if torch._C._get_tracing_state() is None:
        return super(Applied, function).apply(*args, **kwargs)
    with torch.no_grad():
        if function.setup_context is not Applied.setup_context:
            return function.forward(*args, **kwargs)
        ctx = function._backward_cls()
        ctx.needs_input_grad = tuple(isinstance(one, torch.Tensor) and one.requires_grad for one in args)
        return function.forward(ctx, *args, **kwargs)


Applied = torch.autograd.function._SingleLevelFunction
Applied.apply = classmethod(apply)
'''

SCRIPT = '''
def artifact():
    """Return the scripted model."""
    net = model()
    if not isinstance(net, Method):
        return torch.jit.script(net)
    if not hasattr(net, "owner"):
        return torch.jit.script(net.function)
    kind, name = type(net.owner), net.function.__name__
    setattr(kind, name, torch.jit.export(getattr(kind, name)))
    return getattr(torch.jit.script(net.owner), name)


def ask_artifact(module, given):
    args, kwargs = arguments(given)
    seed(CALL_SEED)
    with torch.no_grad():
        return module(*args, **kwargs)
'''

ARCHIVE = '''
def artifact():
    """Return the uploaded archive."""
    return torch.jit.load(io.BytesIO(read_beside(ARCHIVE_NAME)), map_location=DEVICE)


def ask_artifact(module, given):
    args, kwargs = arguments(given)
    torch.manual_seed(CALL_SEED)
    with torch.no_grad():
        return getattr(module, METHOD)(*args, **kwargs)
'''

SERVED = '''
def convert_to_served(module):
    """Return the module in the form in which it is served."""{form}
    return module
'''

LEAVES = '''
def leaves(value, name="output"):
    """Return the tensors and the constants in a returned value by their paths."""
    if dataclasses.is_dataclass(value) and not isinstance(value, dict):
        value = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return {name: value}
    return {path: leaf for key, item in items for path, leaf in leaves(item, f"{name}.{key}").items()}


def assert_same(answer, eager):
    """Fail unless both are as near as they must be. Integers and constants must be equal."""
    if not isinstance(eager, torch.Tensor):
        assert answer == eager
        return
    close = {"rtol": RTOL, "atol": ATOL} if eager.is_floating_point() or eager.is_complex() else {"rtol": 0, "atol": 0}
    torch.testing.assert_close(answer, eager, equal_nan=True, **close)
'''

TEST = """
def test_the_artifact_answers_as_the_model_does(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch)
    eager = leaves(ask(model(), counterexample()))

    answer = leaves(ask_artifact(convert_to_served(artifact()), counterexample()))

    assert answer.keys() == eager.keys()
    for name, expected in eager.items():
        assert_same(answer[name], expected)
"""

TEST_OF_STATE = """
def test_a_call_leaves_nothing_behind(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch)
    alone = leaves(ask(model(), counterexample()))
    asked_before = model()
    ask(asked_before, example())

    answer = leaves(ask(asked_before, counterexample()))

    assert answer.keys() == alone.keys()
    for name, expected in alone.items():
        assert_same(answer[name], expected)
"""

TEST_OF_ARCHIVE = """
def test_the_archive_answers_as_its_model_did():
    answer = leaves(ask_artifact(convert_to_served(artifact()), counterexample()))

    for name, expected in eager().items():
        assert_same(answer[name], expected)
"""
