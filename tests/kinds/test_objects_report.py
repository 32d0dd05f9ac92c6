"""The report of detections: complete numbers, shapes of objects, order, no external resources, reproducible bytes."""

import json

import numpy as np
import pytest

from mtf_imaging.evaluation.report.tables import DASH
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.output import write_object_scores
from mtf_imaging.kinds.objects.reading.images import Seen
from mtf_imaging.kinds.objects.report import page as object_page
from mtf_imaging.kinds.objects.report.layers import make_object_layers
from mtf_imaging.kinds.objects.scoring.coco import MEASURES
from mtf_imaging.kinds.objects.scoring.scores import score_images
from tests.evaluation import test_report_browser
from tests.evaluation.html_tree import assert_stands_alone, parse
from tests.evaluation.test_report import rows_of
from tests.kinds.object_scenes import detect, make_image, make_object

ODD = '<b>&"x'
THREE = ObjectDescription(((7, "cup"), (3, ODD), (9, "fork")))
CROWD = make_object(0, (40, 40, 60, 80), is_crowd=True)
# key -> (objects, detections)
SCENES = {
    "right": ([make_object(0, (0, 0, 10, 10))], [(0, 0.7, (0, 0, 10, 10))]),
    "city/wrong": (
        [make_object(0, (0, 0, 20, 20)), make_object(1, (20, 20, 40, 40)), CROWD],
        [(0, 0.95, (0, 0, 20, 20)), (0, 0.9, (41, 41, 50, 60)), (1, 0.8, (2, 50, 20, 70)), (1, 0.1, (0, 0, 5, 5))],
    ),
    ODD: ([], []),
    "missed": ([make_object(1, (20, 20, 40, 40))], []),
}
PIXELS = np.random.default_rng(0).integers(60, 180, (60, 80, 3)).astype(np.uint8)


def write(folder, scenes=SCENES, masks=True, progress=False):
    images = [make_image(key, number, objects) for number, (key, (objects, _)) in enumerate(scenes.items(), 1)]
    detections = [detect(*rows, masks=masks) for _, rows in scenes.values()]
    scores = score_images(images, detections, THREE)
    layers = {
        images[n].key: make_object_layers(
            Seen(PIXELS, images[n], detections[n]), scores.matches[n], scores.counted_from, THREE
        )
        for n in object_page.pictured(scores)
    }
    write_object_scores(folder, scores, layers, THREE, progress, Provenance())
    return folder


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    return write(tmp_path_factory.mktemp("objects"))


def shapes(page, key, who):
    """Returns the CSS class, the label and whether there is a mask for each shape of a picture, the topmost last."""
    figure = page.one("section", data_case=key).one("figure", data_layer=who)
    groups = figure.one("svg").all("g")
    return [(one["class"], one.one("text").text, any(True for _ in one.all("path"))) for one in groups]


def test_all_numbers_are_in_the_page(page, metrics):
    cells = {node["data-metric"]: node for node in page.all() if node.get("data-metric")}
    for kind in ("boxes", "masks"):
        for name in MEASURES:
            value = metrics[kind][name]
            assert cells[f"{kind}.{name}"].get("data-value") == (None if value is None else str(value))
        for category, values in metrics[kind]["categories"].items():
            for name, value in values.items():
                cell = cells[f"{kind}.categories.{category}.{name}"]
                assert cell.get("data-value") == (None if value is None else str(value))
    assert cells["boxes.ap_large"].text == DASH
    headlines = [box.one("b").text for box in page.one("div", class_="overview").all("div")]
    expected = [metrics[kind][name] for kind in ("boxes", "masks") for name in ("ap", "ap50", "ap75")]
    assert headlines == [f"{value:.3f}" for value in (*expected, metrics["masks"]["ar100"], metrics["f1"])]


def test_rows_contain_the_counts_of_images(page, metrics):
    rows = rows_of(page)
    assert [*rows] == ["missed", "city/wrong", "right", ODD], "the lowest F1 comes first"
    for key, row in rows.items():
        fields = metrics["images"][key]
        expected = {name: fields[name] for name in ("f1", "objects", "found", "false", "missed")}
        expected |= {"height": 60, "width": 80}
        cells = {cell["data-key"]: cell.get("data-value") for cell in row.all("td")}
        assert cells == {name: None if value is None else str(value) for name, value in expected.items()}
        assert page.one("section", id=row.one("a")["href"].removeprefix("#"))["data-case"] == key
    assert [section["data-case"] for section in page.all("section", class_="case")] == [*rows]


def test_shapes_have_the_state_of_their_object(page, metrics):
    assert metrics["score_threshold"] == 0.7
    assert shapes(page, "city/wrong", "reference") == [
        ("ignored category0", "cup (crowd)", True),
        ("wrong category1", ODD, True),
        ("found category0", "cup", True),
    ]
    assert shapes(page, "city/wrong", "prediction") == [
        ("wrong category1", f"{ODD} 0.80", True),
        ("ignored category0", "cup 0.90", True),
        ("found category0", "cup 0.95", True),
    ]
    assert shapes(page, ODD, "reference") == shapes(page, ODD, "prediction") == []
    box = page.one("section", data_case="right").one("figure", data_layer="prediction").one("rect")
    assert [box[name] for name in ("x", "y", "width", "height")] == ["0.0", "0.0", "10.0", "10.0"]
    titles = [one.text for one in page.one("section", data_case="city/wrong").all("title")]
    assert titles[:3] == ["cup (crowd): does not count", f"{ODD}: missed", "cup: found"]
    text = page.one("section", data_case="city/wrong").one("p").text
    assert text == "2 objects: 1 found, 1 missed. 1 wrong detection. 80 x 60 pixels."


def test_curves_of_all_categories_with_objects_are_plotted(page):
    labels = [node["aria-label"] for node in page.all("svg", role="img")]
    expected = [f"{name} ({kind})" for name in ("cup", ODD) for kind in ("boxes", "masks")]
    means = [f"{kind}, mean of the categories" for kind in ("boxes", "masks")]
    assert labels[:6] == [f"Precision by recall: {title}" for title in means + expected]
    curves = [node["class"] for node in page.all("path") if "curve" in node.get("class", "")]
    assert curves[:3] == ["curve ap50", "curve ap75", "curve ap"]
    mean = next(node for node in page.all("path") if node.get("class") == "curve ap50")
    # One of the categories is found with a precision of 1, the other one is not found.
    points = [tuple(map(float, point.split())) for point in mean["d"].removeprefix("M").split("L")]
    assert [points[0], points[-1]] == [(70.0, 174.0), (626.0, 174.0)]


def test_boxes_only(tmp_path):
    page = parse((write(tmp_path, masks=False) / "report.html").read_text())
    assert "masks" not in json.loads((tmp_path / "metrics.json").read_text())
    assert not list(page.all("input", data_hides="mask"))
    assert not any(has_mask for _, _, has_mask in shapes(page, "city/wrong", "reference"))
    assert len(list(page.one("div", class_="overview").all("div"))) == 5


@pytest.mark.parametrize("rows", [[], [(1, 0.5, (0, 0, 9, 9))]], ids=["nothing", "only_wrong"])
def test_images_without_objects_have_a_report(tmp_path, rows):
    page = parse((write(tmp_path, {"empty": ([], rows)}) / "report.html").read_text())
    assert next(page.one("div", class_="overview").all("b")).text == DASH
    assert "There are no objects." in page.text
    assert [each[:2] for each in shapes(page, "empty", "prediction")] == [
        ("wrong category1", f"{ODD} 0.50") for _ in rows
    ]


def test_only_the_best_and_the_worst_images_have_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(object_page, "WORST", 1)
    monkeypatch.setattr(object_page, "BEST", 1)
    page = parse((write(tmp_path) / "report.html").read_text())
    counts = {section["data-case"]: len(list(section.all("figure"))) for section in page.all("section", class_="case")}
    assert counts == {"missed": 2, "city/wrong": 0, "right": 2, ODD: 0}
    assert "Only 2 images, with the lowest and the highest F1, have pictures." in page.text


def test_large_images_are_stored_smaller():
    image = make_image("a", 1, [make_object(0, (90, 160, 180, 320))], size=(900, 1600))
    detections = detect(masks=True)
    scores = score_images([image], [detections], THREE)
    layers = make_object_layers(
        Seen(np.zeros((900, 1600, 3), np.uint8), image, detections), scores.matches[0], 0.0, THREE
    )
    assert layers.size == (360, 640)
    (shape,) = layers.objects
    assert shape.box == pytest.approx((36, 64, 72, 128))
    assert shape.path.startswith("M")


def test_the_page_loads_no_external_resources_and_escapes_names(page, scored):
    assert_stands_alone(page, scored)
    text = (scored / "report.html").read_text()
    assert ODD not in text
    assert next(page.all("title")).text == "Detection report, 4 images"
    assert ".hide-category2 .shapes .category2 { display: none; }" in text


def test_the_same_scores_give_the_same_bytes(scored, tmp_path, capsys):
    write(tmp_path, progress=True)
    for name in ("report.html", "metrics.json", "metrics.csv"):
        assert (tmp_path / name).read_bytes() == (scored / name).read_bytes()
    assert "fork" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(
    test_report_browser.CHROMIUM is None, reason="there is no browser; install Debian's package chromium"
)
def test_the_page_sorts_and_hides_in_a_browser(scored):
    visit = """<script>
        const shown = (what) => getComputedStyle(document.querySelector(`.shapes ${what}`)).display;
        const before = [".box", ".label", ".mask", ".category1"].map(shown);
        const click = (name) => document.querySelector(`[data-hides=${name}]`).click();
        ["box", "label", "mask", "category1"].forEach(click);
        const after = [".box", ".label", ".mask", ".category1"].map(shown);
        const root = document.documentElement;
        root.dataset.seen = [...before, ...after, root.scrollWidth - root.clientWidth].join(" ");
    </script></body>"""
    copy = scored / "visited.html"
    copy.write_text((scored / "report.html").read_text().replace("</body>", visit))
    page = test_report_browser.dom(copy, "#sort=-objects")
    assert page.one("html")["data-seen"] == "inline block inline inline none none none none 0"
    assert next(iter(rows_of(page))) == "city/wrong"


def test_without_a_match_no_score_is_called_the_best(tmp_path):
    scenes = {"a": ([make_object(0, (0, 0, 10, 10))], [(0, 0.7, (40, 40, 50, 50))])}
    text = (write(tmp_path, scenes) / "report.html").read_text()
    assert f"score from {DASH}, no detection matches an object" in text
    assert "No detection matches an object, so no score maximizes F1." in text
    assert "which maximizes F1" not in text
    assert "0.000, which" not in text
