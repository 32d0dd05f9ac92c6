"""The class `Layout`."""

import copy
import pickle

import pytest

from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout
from mtf_imaging.errors import LayoutError


def test_layouts_are_parsed_and_compared_by_value():
    layout = Layout.parse("rows: 2; cols:4", " x:rows, y:cols")
    assert layout == Layout((("rows", 2), ("cols", 4)), (("x", "rows"), ("y", "cols")))
    assert hash(layout) == hash(Layout.parse("rows:2,cols:4", "x:rows,y:cols"))
    assert (layout.mesh_string, layout.rules_string) == ("rows:2,cols:4", "x:rows,y:cols")
    assert layout.processors == 8
    assert layout.slices_per_dimension == {"x": 2, "y": 4}
    assert pickle.loads(pickle.dumps(layout)) == copy.copy(layout) == layout


def test_one_processor():
    assert Layout.parse() == Layout() == ONE_PROCESSOR
    assert (ONE_PROCESSOR.processors, str(ONE_PROCESSOR)) == (1, "one processor")


def test_one_error_lists_all_faults_of_both_strings():
    with pytest.raises(LayoutError) as error:
        Layout.parse("rows:0,cols:2", "x:rows,y")
    assert "mesh_shape 'rows:0,cols:2' has 1 fault" in str(error.value)
    assert "layout 'x:rows,y' has 1 fault" in str(error.value)


def test_unknown_names_are_marked_in_the_string_that_the_user_typed():
    layout = Layout.parse("rows:2;cols:2", "x : rosw; q:cols")
    with pytest.raises(LayoutError) as error:
        layout.check_names(["batch", "x"])
    lines = str(error.value).splitlines()
    assert lines[0] == "layout 'x : rosw; q:cols' has 2 faults:"
    assert lines[1:3] == ["    x : rosw; q:cols", "        ^^^^"]
    assert "Did you mean 'rows'?" in lines[3]


def test_a_mesh_dimension_without_a_rule_is_returned():
    assert Layout.parse("rows:2,cols:2,cores:1", "x:rows").check_names(["x"]) == ("cols",)
    assert Layout.parse("rows:2", "x:rows").check_names(["x", "y"]) == ()


def test_restrict_drops_rules_and_their_mesh_dimensions():
    layout = Layout.parse("rows:2,cores:2,spare:2", "x:rows,batch:cores")
    assert layout.restrict(lambda dim: dim != "batch") == Layout.parse("rows:2,spare:2", "x:rows")
    assert layout.restrict(lambda dim: True) is layout


def test_strings_and_layouts_are_converted_to_layouts():
    layout = Layout.parse("rows:2", "x:rows")
    assert Layout.of(layout) is layout
    assert Layout.of("x:rows", "rows:2") == layout
    with pytest.raises(LayoutError) as error:
        Layout.of(layout, "rows:4")
    assert str(error.value) == (
        "mesh_shape 'rows:4' conflicts with the layout 'x:rows on rows:2', which already includes a mesh. "
        "Fix: omit mesh_shape, or pass the layout as a string."
    )


def test_a_program_takes_a_layout_or_strings():
    import mtf_imaging as mi

    layout = mi.Layout.parse("rows:2", "x:rows")
    inputs = {"image": "batch:1,x:4,channels:1"}
    programs = [
        mi.Program(lambda image: image * 2, inputs, layout=layout),
        mi.Program(lambda image: image * 2, inputs, mesh_shape="rows:2", layout="x:rows"),
    ]
    assert [program.layout for program in programs] == [layout, layout]
    assert [program.slice_shape("image") for program in programs] == [[1, 2, 1], [1, 2, 1]]
