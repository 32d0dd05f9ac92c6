"""The report, pictures and overlays of any labels: four labels of an MR, regions with an ignore label, 2-D images."""

import base64
import io
import itertools

import nibabel
import numpy as np
import pytest
from PIL import Image, ImageColor

from mtf_imaging.data.description.dataset_json import write_description
from mtf_imaging.evaluation.pairs.score import score_folders
from mtf_imaging.evaluation.report.colors import PALETTE, mask_classes, mask_colors
from mtf_imaging.evaluation.volume_report.case_picture import picture_pixels
from mtf_imaging.evaluation.volume_report.overlay import make_overlays
from mtf_imaging.evaluation.volume_report.planes import find_focus
from mtf_imaging.evaluation.volume_scores.metrics_files import column_names
from tests.evaluation import test_report_browser
from tests.evaluation.descriptions import ORGANS, REGIONS
from tests.evaluation.html_tree import parse
from tests.evaluation.oracle import array_source
from tests.evaluation.test_report import rows_of

SHAPE = (24, 20, 12)
AFFINE = np.diag([1.5, 1.5, 3.0, 1.0])
BOXES = {1: np.s_[2:9, 2:9, 2:9], 2: np.s_[12:18, 2:8, 3:8], 3: np.s_[12:18, 12:18, 3:8], 4: np.s_[4:8, 12:16, 4:7]}


def labels_of(*values, shift=0):
    labels = np.zeros(SHAPE, np.uint8)
    for value in values:
        labels[BOXES[value]] = value
    return np.roll(labels, shift, 0)


# case -> (prediction, reference)
CASES = {
    "scan_1": (labels_of(1, 2, 3, 4), labels_of(1, 2, 3, 4)),
    "scan_2": (labels_of(1, 2), labels_of(1, 2, 3, 4)),
    "scan_3": (labels_of(1, 2, 3, 4, shift=1), labels_of(1, 2, 3, 4)),
    "scan_10": (labels_of(), labels_of(1, 2, 3)),
}


def write_cases(folder, cases, description):
    for name in ("labelsTr", "p"):
        (folder / name).mkdir(parents=True)
    for key, pair in cases.items():
        for name, labels in zip(("p", "labelsTr"), pair, strict=True):
            nibabel.save(nibabel.Nifti1Image(labels, AFFINE), folder / name / f"{key}.nii.gz")
    write_description(folder, description, len(cases))
    return folder


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    folder = write_cases(tmp_path_factory.mktemp("organs"), CASES, ORGANS)
    score_folders(folder / "labelsTr", folder / "p", folder / "out", 1, progress=False)
    return folder / "out"


def test_the_worst_mean_dice_comes_first(page, metrics):
    order = list(rows_of(page))
    dice = [metrics["cases"][key]["mean"]["dice"] for key in order]
    assert dice == sorted(dice)
    assert order == ["scan_10", "scan_2", "scan_3", "scan_1"]
    assert [section["data-case"] for section in page.all("section", class_="case")] == order
    assert page.one("table", id="cases")["data-sorted"] == "mean_dice"


def test_each_mask_has_a_row_with_all_of_its_means(page, metrics):
    found = {node["data-metric"]: node for node in page.all() if node.get("data-metric")}
    for mask in ORGANS.masks:
        for name, value in metrics[mask].items():
            if not isinstance(value, dict):
                assert found[f"{mask}.{name}"].get("data-value") == (None if value is None else str(value))
    for name, value in metrics["mean"].items():
        assert found[f"mean.{name}"]["data-value"] == str(value)
    for name, scores in metrics["cyst"]["detection"].items():
        assert found[f"cyst.detection.{name}.recall"]["data-value"] == str(scores["recall"])
    assert found["right kidney.undefined.hd95"]["data-value"] == "2"
    assert not [path for path in found if path.startswith("spleen.detection")]
    rows = [
        row.one("th", scope="row").text
        for row in next(page.one("div", class_="summary").all("table", class_="numbers")).all("tr")
        if list(row.all("td"))
    ]
    assert rows == ["mean of the masks", *ORGANS.masks]
    assert "at most 1 mm" in page.text
    assert [box.one("span").text for box in page.one("div", class_="overview").all("div")] == [
        "all masks",
        *ORGANS.masks,
    ]


def test_rows_contain_the_numbers_of_metrics_json(page, metrics):
    columns = column_names(ORGANS)
    for key, row in rows_of(page).items():
        cells = {cell["data-key"]: cell for cell in row.all("td")}
        for mask, column in columns.items():
            for name, value in metrics["cases"][key][mask].items():
                if name != "lesions":
                    assert cells[f"{column}_{name}"].get("data-value") == (None if value is None else str(value))
    cell = rows_of(page)["scan_10"].one("td", data_key="left_kidney_hd95")
    assert cell["title"] == "undefined: no left kidney in the prediction"
    cell = rows_of(page)["scan_10"].one("td", data_key="cyst_surface_dice")
    assert cell["title"] == "undefined: no cyst in the reference and the prediction"
    assert rows_of(page)["scan_2"].one("td", data_key="cyst_false_negatives").text == "1"


def test_each_mask_has_outlines_a_color_and_a_box(page, scored):
    text = (scored / "report.html").read_text()
    classes, colors = mask_classes(ORGANS), mask_colors(ORGANS)
    assert list(classes.values()) == ["mask1", "mask2", "mask3", "mask4"]
    assert len({*colors.values()}) == 4
    outlines = [path.classes for path in page.all("path") if {"reference", "prediction"} & {*path.classes}]
    for mask, css_class in classes.items():
        assert ["reference", css_class] in outlines
        assert ["prediction", css_class] in outlines
        assert f"path.{css_class} {{ stroke: {colors[mask]}; " in text
        assert page.one("input", data_hides=css_class)
    contents = text.split("</style>")[1].split("</footer>")[0]
    assert "liver" not in contents
    assert "LiTS" not in contents


def test_only_masks_of_lesions_have_plots_and_lists_of_lesions(page):
    charts = [chart["aria-label"] for chart in page.all("svg", class_="plot") if chart.get("aria-label")]
    assert [name for name in charts if "by size" in name] == ["cyst: lesion Dice by size"]
    assert [name for name in charts if "of each case" in name] == [f"{m} Dice of each case" for m in ORGANS.masks]
    notes = {section["data-case"]: next(section.all("p")).text for section in page.all("section", class_="case")}
    assert notes["scan_2"].startswith("Cyst: lesions: 9 mm missed.")
    assert notes["scan_10"].startswith("Cyst: no lesions in the reference or the prediction.")
    assert "the largest cyst of the reference" in notes["scan_2"]
    assert "the middle of the spleen; there is no cyst" in notes["scan_10"]


def test_the_page_is_complete_without_other_files(page, scored):
    text = (scored / "report.html").read_text()
    assert str(scored.parent) not in text
    assert "$" not in text.split("<script>")[0]
    for node in page.all():
        assert node.tag not in ("link", "iframe", "object", "embed", "base")
    assert "No image was found for any case" in page.one("p", id="without_ct").text


def test_regions_and_an_ignore_label(tmp_path):
    reference = np.zeros(SHAPE, np.uint8)
    reference[4:16, 4:16, 3:9], reference[6:12, 6:12, 4:8], reference[8:10, 8:10, 5:7] = 1, 2, 3
    reference[20:] = 4
    prediction = np.where(reference == 4, 1, reference)
    folder = write_cases(tmp_path, {"a": (prediction, reference)}, REGIONS)
    (score,) = score_folders(folder / "labelsTr", folder / "p", folder / "out", 1, progress=False)
    assert {mask: counts.dice for mask, counts in score.overlaps.items()} == dict.fromkeys(REGIONS.masks, 1.0)
    page = parse((folder / "out/report.html").read_text())
    (section,) = page.all("section", class_="case")
    drawn = {tuple(path.classes) for path in next(section.all("figure")).all("path")}
    assert drawn == {(who, f"mask{n}") for who in ("reference", "prediction") for n in (1, 2, 3)}


@pytest.mark.parametrize("layout", ["one file a channel", "4-D"])
def test_the_report_shows_the_first_channel_of_an_mr(tmp_path, layout):
    labels = labels_of(1, 2)
    folder = write_cases(tmp_path, {"a": (labels, labels)}, REGIONS)
    (folder / "imagesTr").mkdir()
    channels = np.stack([200.0 * (labels > 0) + 40, 0 * labels + 1.5], axis=-1).astype(np.float32)
    files = {"a": channels} if layout == "4-D" else {f"a_000{n}": channels[..., n] for n in range(2)}
    for name, array in files.items():
        nibabel.save(nibabel.Nifti1Image(array, AFFINE), folder / "imagesTr" / f"{name}.nii.gz")
    score_folders(folder / "labelsTr", folder / "p", folder / "out", 1, progress=False)
    page = parse((folder / "out/report.html").read_text())
    pictures = list(page.all("img"))
    assert [picture["alt"] for picture in pictures] == [
        f"{plane} slice of the image of case a" for plane in ("axial", "coronal", "sagittal")
    ]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(pictures[0]["src"].split(",")[1]))))
    assert (pixels < 10).any()  # black and white lie on both sides of the edges of the masks
    assert (pixels > 245).any()
    assert "the channel FLAIR" in page.text


def test_slices_go_through_the_largest_lesion_of_all_masks_else_the_largest_mask():
    labels = labels_of(1, 2, 3, 4)
    assert labels[find_focus(labels, labels, ORGANS).point] == 4
    focus = find_focus(labels_of(2, 3), labels_of(2, 3, 4), ORGANS)
    assert focus.what == "the largest predicted cyst; the reference has no cyst"
    assert labels[focus.point] == 4
    assert labels[find_focus(labels_of(2, 1), labels_of(2), ORGANS).point] == 1
    focus = find_focus(labels_of(), labels_of(3), ORGANS)
    assert (focus.what, labels[focus.point]) == ("the middle of the predicted right kidney; the reference is empty", 3)
    assert find_focus(labels_of(), labels_of(), ORGANS).point == tuple(n // 2 for n in SHAPE)


def test_the_gray_values_of_an_mr_follow_its_percentiles():
    rng = np.random.default_rng(0)
    image = (1e4 + 100 * rng.random(SHAPE)).astype(np.float32)
    image[0, 0, 0] = 1e9  # an artifact
    labels = labels_of(1)
    for view in make_overlays(array_source(image), labels, labels, AFFINE, ORGANS).views:
        pixels = np.asarray(Image.open(io.BytesIO(view.image)))
        assert pixels.min() < 40
        assert pixels.max() > 215


def test_a_picture_has_the_colors_of_the_masks():
    labels = labels_of(1, 2)
    image = array_source(np.zeros(SHAPE, np.float32))
    pixels = picture_pixels(image, labels, labels_of(1), (1.5, 1.5, 3.0), "case 1", ORGANS)

    def is_there(color):
        return np.abs(pixels.astype(int) - ImageColor.getrgb(color)).max(-1).min() < 25  # lines are smoothed

    assert {name: is_there(color) for name, color in mask_colors(ORGANS).items()} == {
        "spleen": True,
        "left kidney": True,
        "right kidney": False,
        "cyst": False,
    }


def test_a_2d_image_has_one_view():
    labels = labels_of(1, 2, 3, 4)[:, :, 5:6]
    image = array_source(labels.astype(np.float32))
    (view,) = make_overlays(image, labels, labels, AFFINE, ORGANS).views
    assert view.plane.name == "axial"
    assert len(view.outlines) == 8
    picture_pixels(image, labels, labels, (1.5, 1.5, 3.0), "case 1", ORGANS)


def simulated(color, matrix):
    """Returns the linear RGB of a color as a person without one type of cones sees it (Machado et al. 2009)."""
    values = np.array(ImageColor.getrgb(color)) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return np.clip(np.array(matrix) @ linear, 0, 1)


def lightness_and_chroma(linear):
    """Returns the CIELAB coordinates of linear sRGB."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ratio = np.array(to_xyz) @ linear / [0.9505, 1.0, 1.089]
    f = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize(
    "matrix",
    [
        np.eye(3),
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    ],
    ids=["normal", "protanopia", "deuteranopia"],
)
def test_the_colors_differ_for_color_blind_people(matrix):
    seen = [lightness_and_chroma(simulated(color, matrix)) for color in PALETTE]
    assert len({*PALETTE}) == 12
    # A difference of 2.3 is just noticeable.
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 22
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen[:5], 2)) > 45


@pytest.mark.slow
@pytest.mark.skipif(
    test_report_browser.CHROMIUM is None, reason="there is no browser; install Debian's package chromium"
)
def test_the_page_sorts_in_a_browser(scored):
    report = scored / "report.html"
    page = test_report_browser.dom(report)
    assert list(rows_of(page)) == ["scan_10", "scan_2", "scan_3", "scan_1"]
    page = test_report_browser.dom(report, "#sort=-left_kidney_dice")
    values = [float(row.one("td", data_key="left_kidney_dice")["data-value"]) for row in rows_of(page).values()]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1]
