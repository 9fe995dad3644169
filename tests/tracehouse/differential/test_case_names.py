"""Case names: what is read out of them is what was written into them."""

from tracehouse.differential.case_names import name_counterexample, name_value_read, shows_value_read


def test_a_counterexample_of_a_value_read_is_known_by_its_line() -> None:
    case = name_counterexample(name_value_read("net.py", 6))

    assert case == "counterexample: value at net.py:6"
    assert shows_value_read(case, "net.py", 6)
    assert not shows_value_read(case, "net.py", 16)
    assert not shows_value_read(case, "pkg/net.py", 6)
    assert not shows_value_read(name_counterexample("size of batch"), "net.py", 6)
