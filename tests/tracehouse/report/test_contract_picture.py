"""The picture of a contract: what is accepted of each free size and how that is known, beside a table with the same."""

from typing import Any
from xml.etree import ElementTree

from tracehouse.contract.contract import Batch, MethodContract
from tracehouse.contract.input_spec import InputSpec, ValueRange
from tracehouse.contract.memory import Memory, SizeProduct
from tracehouse.contract.regions import Region, Span
from tracehouse.contract.structure import Argument, BakedLeaf, TensorLeaf
from tracehouse.report.contract_picture import draw, picture
from tracehouse.report.free_sizes import free_sizes
from tracehouse.tensors.tensor import Datatype

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</text></svg><script>alert(1)</script>\"'&\x00\u202e"


def method(name: str = "ids", **changes: Any) -> MethodContract:
    given = InputSpec(name=name, datatype=Datatype.INT64, shape=("batch", "seq"), example=(2, 16))
    whole: dict[str, Any] = {
        "arguments": [Argument(name=name, structure=TensorLeaf(tensor=name))],
        "inputs": [given],
        "outputs": [],
        "returns": BakedLeaf(baked=None),
        "regions": [
            region("proven", batch=[Span(low=1, high=256)], seq=[Span(low=8, high=512, step=8)]),
            region("tested", batch=[Span(low=1, high=4)], seq=[Span(low=1, high=7), Span(low=16, high=16)]),
        ],
    }
    return MethodContract(**(whole | changes))


def region(basis: Any, beyond: dict[str, int] | None = None, **spans: list[Span]) -> Region:
    return Region(spans=spans, basis=basis, beyond=beyond or {})


def one_size(**changes: Any) -> MethodContract:
    given = InputSpec(name="x", datatype=Datatype.FP32, shape=("batch",), example=(2,))
    whole: dict[str, Any] = {"inputs": [given], "arguments": [Argument(name="x", structure=TensorLeaf(tensor="x"))],
                             "regions": [region("tested", batch=[Span(low=2, high=4)])]}  # fmt: skip
    return method(**(whole | changes))


def described(found: MethodContract, *, is_open: bool = False) -> tuple[str, str]:
    """Return the description of the picture, and its visible words."""
    svg = ElementTree.fromstring(draw("forward", free_sizes(found), "p", is_open=is_open))
    words = " | ".join(one.text or "" for one in svg.iter(f"{SVG}text"))
    return svg.findtext(f"{SVG}desc") or "", words


def test_each_size_says_what_is_accepted_and_how_that_is_known() -> None:
    said, words = described(method())

    assert said == (
        "batch: 1 to 256 (proven); the example has 2. "
        "seq: 8 to 512 in steps of 8 (proven); 1 to 7 (tested); the example has 16."
    )
    assert "batch | 1 | 256 | 2 | seq | in steps of 8 | 1 | 512 | 16" in words
    assert words.endswith("proven | tested by calls | the example | refused")


def test_the_table_beside_it_has_the_same() -> None:
    shown = picture("forward", method(), 1)

    table = ElementTree.fromstring(shown[shown.index("<table>") : shown.index("</table>") + 8])
    rows = [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")][1:]
    assert rows == [
        ["batch", "1 to 256", "proven", "2", "–"],
        ["seq", "8 to 512 in steps of 8", "proven", "16", "–"],
        ["seq", "1 to 7", "tested", "", ""],
    ]
    assert "The combinations are below." in shown


def test_what_goes_beyond_calls_is_told_apart_and_so_are_rows_that_are_answered_together() -> None:
    products = [SizeProduct(times=2, powers={"batch": 1})]
    found = one_size(
        regions=[region("proven", {"batch": 16_777_216}, batch=[Span(low=1, high=256)])],
        memory=Memory(bytes=products, elements=products),
        batch=Batch(symbol="batch", up_to=64, inputs={"x": 0}, outputs={}),
        called=[{"batch": 3}],
    )

    said, words = described(found)

    assert "1 to 256 (proven); 257 to 16,777,216 (proven, if memory allows)" in said
    assert "rows are answered together up to 64" in said
    for each in (
        "proven, if memory allows",
        "batch certificate: rows answered together",
        "called by the service itself",
    ):
        assert each in words


def test_a_size_that_is_wrong_is_marked_and_an_open_contract_does_not_say_refused() -> None:
    found = one_size(wrong=[{"batch": 7}])

    assert "wrong at 7" in described(found)[0]
    assert described(found)[1].endswith("wrong, always refused | refused")
    assert described(found, is_open=True)[1].endswith("not known: answered with a warning")


def test_values_have_a_row_of_their_own_also_where_one_side_has_no_limit() -> None:
    values = ValueRange(low=0, basis="tested")
    given = InputSpec(name="ids", datatype=Datatype.INT64, shape=(2,), example=(2,), values=values)

    argument = Argument(name="ids", structure=TensorLeaf(tensor="ids"))
    said, words = described(one_size(inputs=[given], arguments=[argument], regions=[]))

    assert said == "values of ids: 0 to any (tested)."
    assert words == "values of ids | 0 | tested by calls | refused"


def test_without_a_free_size_there_is_no_picture() -> None:
    fixed = InputSpec(name="x", datatype=Datatype.FP32, shape=(2,), example=(2,))

    assert picture("forward", one_size(inputs=[fixed], regions=[]), 1) == ""


def test_no_colour_says_alone_how_a_size_is_known() -> None:
    """Every bar of another basis has another fill, of which at most one is plain."""
    bases = ("proven", "sampled", "tested", "observed")
    regions = [region(basis, batch=[Span(low=at * 10 + 1, high=at * 10 + 5)]) for at, basis in enumerate(bases)]

    svg = ElementTree.fromstring(draw("forward", free_sizes(one_size(regions=regions)), "p"))

    bars = {bar.get("fill") for bar in svg.findall(f"{SVG}rect")}
    assert bars == {"#2a8f66", "url(#p-sampled)", "url(#p-tested)", "none"}


def test_no_name_becomes_markup_and_ids_of_two_pictures_differ() -> None:
    values = ValueRange(low=0, high=9, basis="tested")
    given = InputSpec(name=HOSTILE, datatype=Datatype.INT64, shape=("batch", "seq"), example=(2, 16), values=values)
    shown = [picture(HOSTILE, method(HOSTILE, inputs=[given]), number) for number in (1, 2)]

    ids: list[str] = []
    for one in shown:
        svg = ElementTree.fromstring(one[one.index("<svg") : one.index("</svg>") + 6])
        assert not [*svg.iter(f"{SVG}script")]
        assert not [key for element in svg.iter() for key in element.attrib if key == "style" or key.startswith("on")]
        ids += [value for element in svg.iter() if (value := element.get("id"))]
    assert len(ids) == len(set(ids))


def test_the_picture_stays_small_whatever_the_contract_has() -> None:
    spans = [Span(low=at * 4, high=at * 4 + 1) for at in range(256)]
    regions = [region("tested", batch=spans), region("sampled", batch=[Span(low=2000, high=2001)])]

    [row] = free_sizes(one_size(regions=regions, inputs=[
        InputSpec(name="x", datatype=Datatype.FP32, shape=("batch",), example=(4,))]))  # fmt: skip

    assert len(row.accepted) == 24
    assert row.spans_left_out == 233
    assert len(draw("forward", [row] * 100, "p")) < 100_000
