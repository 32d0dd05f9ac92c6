"""The grammar of shapes and layouts, and the error messages for invalid strings."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtf_imaging.engine.layout import LayoutError, check_names, format_rules, format_shape, parse_layout, parse_shape

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
def test_valid_shapes(text, shape):
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
def test_valid_layouts(text, layout):
    assert parse_layout(text) == layout


@pytest.mark.parametrize(
    ("text", "carets", "message"),
    [
        ("rows", "^^^^", "'rows' has no ':'; each item is name:size."),
        ("rows=2", "^^^^^^", "'rows=2' has no ':'; each item is name:size. Did you mean 'rows:2'?"),
        ("a:1,rows 2", "    ^^^^^^", "Did you mean 'rows:2'?"),
        (
            "rows:2 cols:2",
            "^^^^^^^^^^^^^",
            "'rows:2 cols:2' has 2 ':', but each item is name:size. Fix: separate items with ','.",
        ),
        ("rows:2:3", "^^^^^^^^", "'rows:2:3' has 2 ':', but each item is name:size."),
        (":2", "^^", "':2' has no name before the ':'; each item is name:size."),
        ("rows:2,cols:", "       ^^^^", "'cols' has no size. Fix: add one, for instance 'cols:2'."),
        ("rows:0", "     ^", "the size of 'rows' must be a positive integer such as 2, not '0'."),
        ("rows: -1", "      ^^", "the size of 'rows' must be a positive integer such as 2, not '-1'."),
        ("rows:2.5", "     ^^^", "not '2.5'"),
        ("rows:two", "     ^^^", "not 'two'"),
        ("rows:02", "     ^^", "not '02'"),
        ("rows:\N{SUPERSCRIPT TWO}", "     ^", "the size of 'rows' must be"),
        ("2:rows", "^", "'2' is not a valid name: a name starts with a letter or '_'"),
        ("rows:2,rows:4", "       ^^^^", "dimension 'rows' appears 2 times. Fix: give each dimension one size."),
        (",", "^", "the item before or after this ',' is empty. Fix: remove it."),
        ("rows:2,", "      ^", "the item before or after this ',' is empty. Fix: remove it."),
        ("rows:2 ; ", "       ^", "the item before or after this ';' is empty. Fix: remove it."),
        (",rows:2", "^", "the item before or after this ',' is empty. Fix: remove it."),
        ("rows:2,,cols:2", "       ^", "the item before or after this ',' is empty. Fix: remove it."),
    ],
)
def test_a_caret_marks_a_fault_in_a_shape(text, carets, message):
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
        ("x:rows,y:", "       ^", "'y' has no mesh dimension. Fix: add one, for instance 'y:rows'."),
        ("x:rows,x:cols", "       ^", "tensor dimension 'x' has 2 rules. Fix: keep only one of them."),
        ("x:rows,x:rows", "       ^", "tensor dimension 'x' has 2 rules. Fix: keep only one of them."),
        ("x:2", "  ^", "'2' is not a valid mesh dimension: a name starts with a letter or '_'"),
    ],
)
def test_a_caret_marks_a_fault_in_a_layout(text, carets, message):
    with pytest.raises(LayoutError) as error:
        parse_layout(text)
    title, echo, pointer, explanation = str(error.value).split("\n")
    assert (title, echo, pointer) == (f"layout '{text}' has 1 fault:", f"    {text}", f"    {carets}")
    assert message in explanation


def test_values_other_than_strings_are_refused():
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
            "  tensor dimension 'x' has 2 rules. Fix: keep only one of them.",
        ]
    )


def test_one_error_lists_the_faults_of_mesh_and_layout():
    with pytest.raises(LayoutError) as error:
        check_names("x:rows,chanels:cols", "rows:0,cols:2", ["x", "channels"])
    assert "mesh shape 'rows:0,cols:2' has 1 fault:" in str(error.value)
    assert "layout 'x:rows,chanels:cols' has 1 fault:" in str(error.value)
    assert "Did you mean 'channels'?" in str(error.value)


def test_an_error_about_dimensions_of_blocks_suggests_a_layout():
    upstream_layout = "batch:cores, image_nx_block:rows, image_ny_block:columns"
    with pytest.raises(LayoutError) as error:
        check_names(upstream_layout, "cores:2,rows:2,columns:2", ["batch", "x", "y", "z", "channels"])
    lines = str(error.value).split("\n")
    assert lines[0] == f"layout '{upstream_layout}' has 2 faults:"
    assert lines[1:4] == [
        f"    {upstream_layout}",
        "                 ^^^^^^^^^^^^^^",
        "  no tensor dimension is called 'image_nx_block'. mesh_tensorflow's convolutions with blocks need x cut into "
        "such dimensions, but mtf_imaging splits the spatial dimension itself. Fix: write the layout as "
        "'batch:cores,x:rows,y:columns'.",
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
def test_the_suggested_layout_has_one_rule_per_dimension(layout, written):
    with pytest.raises(LayoutError, match=rf"Fix: write the layout as '{written}'\."):
        check_names(layout, "rows:2,cols:2", ["x", "y", "z"])


def test_dimensions_of_blocks_that_the_program_has_are_accepted():
    assert check_names("image_nx_block:rows", "rows:2", ["image_nx_block", "image_sx_block"]) == ()
    with pytest.raises(LayoutError, match=r"dimension itself\. Known tensor dimensions: batch, height\."):
        check_names("image_nx_block:rows", "rows:2", ["batch", "height"])


def test_a_rule_on_an_empty_mesh_is_refused():
    with pytest.raises(LayoutError, match=r"no mesh dimension is called 'rows'\. There are no mesh dimensions\."):
        check_names("x:rows", "", ["x"])


def test_mesh_dimensions_that_no_rule_uses_are_returned():
    assert check_names("x:rows", "rows:2,cols:2,cores:1", ["x", "y"]) == ("cols",)
    assert check_names("", "", []) == ()


@given(st.lists(st.tuples(NAMES, st.integers(1, 10**6)), unique_by=lambda pair: pair[0], max_size=5))
def test_parsing_a_formatted_shape_returns_the_shape(shape):
    assert parse_shape(format_shape(shape)) == tuple(shape)


@given(st.lists(st.tuples(NAMES, NAMES), unique_by=lambda pair: pair[0], max_size=5))
def test_parsing_a_formatted_layout_returns_the_layout(layout):
    assert parse_layout(format_rules(layout)) == tuple(layout)


@given(st.lists(st.tuples(SPACES, NAMES, SPACES, NAMES, SPACES), unique_by=lambda item: item[1], max_size=4), st.data())
def test_spaces_are_ignored_and_semicolons_are_commas(items, data):
    text = ""
    for before, tensor_dim, between, mesh_dim, after in items:
        text += data.draw(st.sampled_from(",;")) if text else ""
        text += f"{before}{tensor_dim}{between}:{between}{mesh_dim}{after}"
    assert parse_layout(text) == tuple((item[1], item[3]) for item in items)


@given(st.text(string.ascii_lowercase[:3] + "12:,; =-\n", max_size=12))
def test_any_string_is_parsed_or_refused_with_carets(text):
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
