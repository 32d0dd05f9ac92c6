"""The grammar of shapes and layouts, and what is said of strings that break it."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtf_imaging.layout import LayoutError, check_names, format_rules, format_shape, parse_layout, parse_shape

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_./-]{0,8}", fullmatch=True)
SPACES = st.text(" \t\n", max_size=2)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("", ()),
        ("   ", ()),
        ("rows:2", (("rows", 2),)),
        ("rows:2,cols:16", (("rows", 2), ("cols", 16))),
        ("rows:2;cols:16", (("rows", 2), ("cols", 16))),
        (" rows : 2 ,\tcols:16 ", (("rows", 2), ("cols", 16))),
        ("_a/b.c-d:1", (("_a/b.c-d", 1),)),
    ],
)
def test_shapes_that_can_be_read(text, shape):
    assert parse_shape(text) == shape


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("", ()),
        ("x:rows", (("x", "rows"),)),
        ("x:rows,y:cols; batch : cores", (("x", "rows"), ("y", "cols"), ("batch", "cores"))),
        ("x:rows,y:rows", (("x", "rows"), ("y", "rows"))),
    ],
)
def test_layouts_that_can_be_read(text, layout):
    assert parse_layout(text) == layout


@pytest.mark.parametrize(
    ("text", "carets", "message"),
    [
        ("rows", "^^^^", "'rows' has no ':'; each item is name:size."),
        ("rows=2", "^^^^^^", "'rows=2' has no ':'; each item is name:size. Did you mean 'rows:2'?"),
        ("a:1,rows 2", "    ^^^^^^", "Did you mean 'rows:2'?"),
        ("rows:2 cols:2", "^^^^^^^^^^^^^", "'rows:2 cols:2' is more than one item; put a ',' after each name:size."),
        ("rows:2:3", "^^^^^^^^", "is more than one item"),
        (":2", "^^", "no name stands before the ':' of ':2'."),
        ("rows:2,cols:", "       ^^^^", "'cols' has no size. Write it as 'cols:2'."),
        ("rows:0", "     ^", "the size of 'rows' must be 1, 2, 3 ..., not '0'."),
        ("rows: -1", "      ^^", "the size of 'rows' must be 1, 2, 3 ..., not '-1'."),
        ("rows:2.5", "     ^^^", "not '2.5'"),
        ("rows:two", "     ^^^", "not 'two'"),
        ("rows:02", "     ^^", "not '02'"),
        ("rows:\N{SUPERSCRIPT TWO}", "     ^", "the size of 'rows' must be"),
        ("2:rows", "^", "'2' is no name: names start with a letter or '_'."),
        ("rows:2,rows:4", "       ^^^^", "dimension 'rows' is named 2 times; one size each."),
        (",", "^", "a ',' with nothing on one side of it."),
        ("rows:2,", "      ^", "a ',' with nothing on one side of it."),
        ("rows:2 ; ", "       ^", "a ';' with nothing on one side of it."),
        (",rows:2", "^", "a ',' with nothing on one side of it."),
        ("rows:2,,cols:2", "       ^", "a ',' with nothing on one side of it."),
    ],
)
def test_a_fault_in_a_shape_is_pointed_at(text, carets, message):
    with pytest.raises(LayoutError) as error:
        parse_shape(text, "mesh shape")
    title, echo, pointer, explanation = str(error.value).split("\n")
    assert title == f"mesh shape '{text.strip()}' has 1 fault:"
    assert echo == f"    {text}"
    assert pointer == f"    {carets}"
    assert message in explanation


@pytest.mark.parametrize(
    ("text", "carets", "message"),
    [
        ("x=rows", "^^^^^^", "'x=rows' has no ':'; each item is tensor_dim:mesh_dim. Did you mean 'x:rows'?"),
        ("x:rows,y:", "       ^", "'y' has no mesh dimension, as in 'y:rows'."),
        ("x:rows,x:cols", "       ^", "tensor dimension 'x' has 2 rules; one mesh dimension each."),
        ("x:rows,x:rows", "       ^", "tensor dimension 'x' has 2 rules; one mesh dimension each."),
        ("x:2", "  ^", "'2' is no name of a mesh dimension."),
    ],
)
def test_a_fault_in_a_layout_is_pointed_at(text, carets, message):
    with pytest.raises(LayoutError) as error:
        parse_layout(text)
    title, echo, pointer, explanation = str(error.value).split("\n")
    assert (title, echo, pointer) == (f"layout '{text}' has 1 fault:", f"    {text}", f"    {carets}")
    assert message in explanation


def test_what_is_no_string_is_refused():
    with pytest.raises(LayoutError, match="mesh shape must be a string such as 'rows:2,cols:2', not None"):
        parse_shape(None, "mesh shape")
    with pytest.raises(LayoutError, match="layout must be a string such as 'x:rows,y:cols', not 4"):
        parse_layout(4)


def test_all_faults_are_reported_at_once():
    with pytest.raises(LayoutError) as error:
        check_names("x:rosw, q:cols,x:rows", "rows:2,cols:2", ["batch", "x", "y"])
    assert str(error.value) == "\n".join(
        [
            "layout 'x:rosw, q:cols,x:rows' has 3 faults:",
            "    x:rosw, q:cols,x:rows",
            "      ^^^^",
            "  no mesh dimension is called 'rosw'. Did you mean 'rows'? Known mesh dimensions: rows, cols.",
            "    x:rosw, q:cols,x:rows",
            "            ^",
            "  no tensor dimension is called 'q'. Known tensor dimensions: batch, x, y.",
            "    x:rosw, q:cols,x:rows",
            "                   ^",
            "  tensor dimension 'x' has 2 rules; one mesh dimension each.",
        ]
    )


def test_faults_of_mesh_and_layout_come_in_one_error():
    with pytest.raises(LayoutError) as error:
        check_names("x:rows,chanels:cols", "rows:0,cols:2", ["x", "channels"])
    assert "mesh shape 'rows:0,cols:2' has 1 fault:" in str(error.value)
    assert "layout 'x:rows,chanels:cols' has 1 fault:" in str(error.value)
    assert "Did you mean 'channels'?" in str(error.value)


def test_dimensions_of_blocks_are_answered_with_the_layout_to_write():
    upstreams = "batch:cores, image_nx_block:rows, image_ny_block:columns"
    with pytest.raises(LayoutError) as error:
        check_names(upstreams, "cores:2,rows:2,columns:2", ["batch", "x", "y", "z", "channels"])
    lines = str(error.value).split("\n")
    assert lines[0] == f"layout '{upstreams}' has 2 faults:"
    assert lines[1:4] == [
        f"    {upstreams}",
        "                 ^^^^^^^^^^^^^^",
        "  no tensor dimension is called 'image_nx_block': so mesh_tensorflow's convolutions with blocks call what "
        "they cut x into; here a dimension itself is split. Write the layout as 'batch:cores,x:rows,y:columns'.",
    ]
    assert "'image_ny_block'" in lines[6]
    assert check_names("batch:cores,x:rows,y:columns", "cores:2,rows:2,columns:2", ["batch", "x", "y"]) == ()


@pytest.mark.parametrize(
    ("layout", "written"),
    [
        ("image_nz_block:rows", "z:rows"),
        ("image_sz_block:rows", "z:rows"),
        ("image_sx_block:rows,image_nx_block:cols", "x:cols"),
        ("image_nx_block:rows,image_sx_block:cols", "x:rows"),
        ("y:cols,image_nx_block:rows", "y:cols,x:rows"),
        ("x:cols,image_nx_block:rows", "x:rows"),
    ],
)
def test_each_axis_comes_once_in_the_layout_to_write(layout, written):
    with pytest.raises(LayoutError, match=rf"Write the layout as '{written}'\."):
        check_names(layout, "rows:2,cols:2", ["x", "y", "z"])


def test_dimensions_of_blocks_that_a_program_has_are_none_to_correct():
    assert check_names("image_nx_block:rows", "rows:2", ["image_nx_block", "image_sx_block"]) == ()
    with pytest.raises(LayoutError, match=r"split, whatever its name\. Known tensor dimensions: batch, height\."):
        check_names("image_nx_block:rows", "rows:2", ["batch", "height"])


def test_a_rule_on_an_empty_mesh_says_that_there_is_none():
    with pytest.raises(LayoutError, match=r"no mesh dimension is called 'rows'\. There is no mesh dimension at all\."):
        check_names("x:rows", "", ["x"])


def test_mesh_dimensions_that_no_rule_uses_are_returned():
    assert check_names("x:rows", "rows:2,cols:2,cores:1", ["x", "y"]) == ("cols",)
    assert check_names("", "", []) == ()


@given(st.lists(st.tuples(NAMES, st.integers(1, 10**6)), unique_by=lambda pair: pair[0], max_size=5))
def test_a_formatted_shape_is_read_back(shape):
    assert parse_shape(format_shape(shape)) == tuple(shape)


@given(st.lists(st.tuples(NAMES, NAMES), unique_by=lambda pair: pair[0], max_size=5))
def test_a_formatted_layout_is_read_back(layout):
    assert parse_layout(format_rules(layout)) == tuple(layout)


@given(st.lists(st.tuples(SPACES, NAMES, SPACES, NAMES, SPACES), unique_by=lambda item: item[1], max_size=4), st.data())
def test_spaces_and_semicolons_mean_nothing(items, data):
    text = ""
    for before, tensor_dim, between, mesh_dim, after in items:
        text += data.draw(st.sampled_from(",;")) if text else ""
        text += f"{before}{tensor_dim}{between}:{between}{mesh_dim}{after}"
    assert parse_layout(text) == tuple((item[1], item[3]) for item in items)


@given(st.text(string.ascii_lowercase[:3] + "12:,; =-\n", max_size=12))
def test_any_string_is_read_or_refused_with_carets(text):
    for parse, write in ((parse_shape, format_shape), (parse_layout, format_rules)):
        try:
            pairs = parse(text)
        except LayoutError as error:
            lines = str(error).split("\n")
            assert len(lines) % 3 == 1
            for pointer in lines[2::3]:
                marked = [place - 4 for place, mark in enumerate(pointer) if mark == "^"]
                assert marked
                assert 0 <= marked[0] <= marked[-1] < len(text)
        else:
            assert parse(write(pairs)) == pairs
