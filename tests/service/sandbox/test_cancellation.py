from threading import Event, Thread

from service.sandbox.cancellation import Cancellation

PATIENCE_S = 120.0


def test_the_first_reason_stays():
    cancellation = Cancellation()
    assert cancellation.reason is None

    cancellation.set("cancelled")
    cancellation.set("stopping")

    assert cancellation.reason == "cancelled"


def test_a_callback_is_called_once_when_it_is_set():
    calls = []
    cancellation = Cancellation()

    with cancellation.calls(lambda: calls.append(cancellation.reason)):
        assert calls == []
        cancellation.set("stopping")
        cancellation.set("stopping")

    assert calls == ["stopping"]


def test_a_callback_that_comes_too_late_is_called_at_once():
    calls = []
    cancellation = Cancellation()
    cancellation.set("cancelled")

    with cancellation.calls(lambda: calls.append("called")):
        assert calls == ["called"]


def test_a_callback_is_not_called_after_its_block():
    calls = []
    cancellation = Cancellation()

    with cancellation.calls(lambda: calls.append("called")):
        pass
    cancellation.set("cancelled")

    assert calls == []


def test_a_block_does_not_end_while_its_callback_is_called():
    """Else a child's pid could be killed after it was given to another process."""
    entered, called, finish, order = Event(), Event(), Event(), []
    cancellation = Cancellation()

    def callback() -> None:
        called.set()
        assert finish.wait(PATIENCE_S)
        order.append("callback ended")

    def block() -> None:
        with cancellation.calls(callback):
            entered.set()
            assert called.wait(PATIENCE_S)
            finish.set()
        order.append("block ended")

    running = Thread(target=block)
    running.start()
    assert entered.wait(PATIENCE_S)
    setting = Thread(target=cancellation.set, args=["cancelled"])
    setting.start()
    running.join(PATIENCE_S)
    setting.join(PATIENCE_S)

    assert order == ["callback ended", "block ended"]
