"""The least rate of a body: how far it may fall behind, so that nobody can make it last for ever."""


class LeastRate:
    """The time that a body has left, which each byte prolongs, at most to `grace_s`.

    A body of which nothing arrives is over after `grace_s`, and so is one that arrives by a byte in each second. One
    that arrives at `bytes_per_s` or faster never is, and it may pause for `grace_s`.
    """

    def __init__(self, bytes_per_s: float, grace_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._grace_s = grace_s
        self.left_s = grace_s

    def wait(self, seconds: float) -> None:
        """Count the time that the service has waited; what it did with earlier bytes meanwhile does not count."""
        self.left_s -= seconds

    def receive(self, byte_count: int) -> None:
        self.left_s = min(self._grace_s, self.left_s + byte_count / self._bytes_per_s)
