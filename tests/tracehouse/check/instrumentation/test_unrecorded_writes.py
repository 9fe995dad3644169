"""Unrecorded writes: what changes a tensor past torch's tracer is noted with its line, and operators are not."""

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tracehouse.check.instrumentation.unrecorded_writes import WriteWatcher
from tracehouse.introspection import user_lines

POOL = ThreadPoolExecutor(1)


def through_data(x: torch.Tensor) -> None:
    x.data.masked_fill_(x.data == -999, 0)


def through_a_part_of_data(x: torch.Tensor) -> None:
    x.data[0].fill_(0)


def of_a_storage(x: torch.Tensor) -> None:
    torch.empty(0).set_(x.untyped_storage())


def of_a_pickle(x: torch.Tensor) -> None:
    pickle.loads(pickle.dumps(x))


def with_the_memory_of_another(x: torch.Tensor) -> None:
    torch.empty(0).data = x


def of_another_length(x: torch.Tensor) -> None:
    x.resize_(2)


def through_memory_of_numpy(x: torch.Tensor) -> None:
    torch.from_numpy(x.numpy()).zero_()


def element_by_element(x: torch.Tensor) -> None:
    x.apply_(abs)


def in_a_thread(x: torch.Tensor) -> None:
    thread = threading.Thread(target=x.zero_)
    thread.start()
    thread.join()


class Zeroes(threading.Thread):
    def __init__(self, x: torch.Tensor) -> None:
        super().__init__()
        self.x = x

    def run(self) -> None:
        self.x.zero_()


def in_a_thread_of_a_class(x: torch.Tensor) -> None:
    thread = Zeroes(x)
    thread.start()
    thread.join()


def in_a_pool_that_was_there(x: torch.Tensor) -> None:
    POOL.submit(x.zero_).result()


def into_numpys_view(x: torch.Tensor) -> None:
    view = x.numpy()
    view[view == -999] = 0


def watched(run: Callable[[torch.Tensor], object]) -> WriteWatcher:
    watcher, x = WriteWatcher(), torch.ones(3, 4).clone()
    try:
        with torch.no_grad(), watcher:
            run(x + 0 * x)
    except ValueError as error:
        watcher.note_error(str(error), user_lines.line_of_error(error))
    return watcher


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize(
    "run",
    [
        through_data,
        through_a_part_of_data,
        copy.copy,
        copy.deepcopy,
        of_a_storage,
        of_a_pickle,
        with_the_memory_of_another,
        of_another_length,
        through_memory_of_numpy,
        element_by_element,
        in_a_thread,
        in_a_thread_of_a_class,
        in_a_pool_that_was_there,
        into_numpys_view,
    ],
    ids=lambda run: run.__name__,
)
def test_a_write_past_the_tracer_is_noted(run: Callable[[torch.Tensor], None]) -> None:
    assert len(watched(run).found) == 1


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda x: x[0].fill_(1), id="view"),
        pytest.param(lambda x: x.detach().mul_(2), id="detach"),
        pytest.param(lambda x: x.t().contiguous().add_(1), id="copy"),
        pytest.param(lambda x: x.data.clone().add_(1), id="copy of data"),
        pytest.param(lambda x: x.numpy().copy().fill(1), id="copy of NumPy's view"),
        pytest.param(lambda x: torch.add(x, 1, out=x), id="out"),
        pytest.param(lambda x: torch.nn.Linear(4, 4).to(x.device)(x), id="module that is moved"),
        pytest.param(torch.nn.GRU(4, 4), id="recurrent network"),
        pytest.param(lambda x: torch.nn.MultiheadAttention(4, 2)(x, x, x), id="attention"),
        pytest.param(torch.nn.BatchNorm1d(4), id="running statistics"),
    ],
)
def test_what_a_trace_records_is_not_noted(run: Callable[[torch.Tensor], object]) -> None:
    assert not watched(run).found


def test_what_other_threads_of_the_process_do_is_not_the_model_s() -> None:
    begun, ended = threading.Event(), threading.Event()

    def beside() -> None:
        begun.wait()
        (torch.ones(2) + 1).numpy()[0] = 3
        Zeroes(torch.ones(2)).start()
        ended.set()

    other = threading.Thread(target=beside)
    other.start()
    watcher = WriteWatcher()
    with watcher:
        begun.set()
        ended.wait()
    other.join()

    assert not watcher.found


def test_all_is_as_it_was_afterwards() -> None:
    before = [
        torch.Tensor.data,
        torch.Tensor.numpy,
        torch.Tensor.apply_,
        threading.Thread.start,
        ThreadPoolExecutor.submit,
    ]

    watched(into_numpys_view)

    assert before == [
        torch.Tensor.data,
        torch.Tensor.numpy,
        torch.Tensor.apply_,
        threading.Thread.start,
        ThreadPoolExecutor.submit,
    ]
    assert torch.ones(2).numpy().flags.writeable
