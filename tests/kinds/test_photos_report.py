"""The report of photos: complete numbers, layers of classes, order, no external resources, and reproducible bytes."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from mtf_imaging.evaluation.report.tables import DASH
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.pictures import LabeledPhoto
from mtf_imaging.kinds.photos.report.layers import WorstPhotos, make_layers
from mtf_imaging.kinds.photos.report.page import class_ious, photo_report_html
from mtf_imaging.kinds.photos.report.tables import class_columns
from mtf_imaging.kinds.photos.scoring.folder import write_photo_scores
from mtf_imaging.kinds.photos.scoring.scores import score_photo
from tests.evaluation import test_report_browser
from tests.evaluation.html_tree import assert_stands_alone, parse
from tests.evaluation.test_report import rows_of

ODD = '<b>&"x'
FOUR = PhotoDescription(("ground", "traffic sign", ODD, "sky"), ((0, 0, 0), (220, 220, 0), (0, 128, 0), (70, 130, 180)))
SIZE = (24, 32)


def reference_of(rows=12):
    labels = np.zeros(SIZE, np.uint8)
    labels[:rows] = 2
    labels[rows, :] = 255
    return labels


def with_error(columns):
    labels = np.where(reference_of() == 255, 0, reference_of())
    labels[4:8, :columns] = 1
    return labels


PHOTO = np.random.default_rng(0).integers(60, 180, (*SIZE, 3)).astype(np.uint8)
# key -> (prediction, reference)
PHOTOS = {
    "city/right": (with_error(0), reference_of()),
    "city/wrong": (with_error(30), reference_of()),
    "ignored": (with_error(0), np.full(SIZE, 255, np.uint8)),
    ODD: (with_error(10), reference_of()),
}


def score_all(limit):
    scores, worst = [], WorstPhotos(limit)
    for key, (prediction, reference) in PHOTOS.items():
        scores.append(score_photo(key, prediction, reference, FOUR))
        worst.add(scores[-1], LabeledPhoto(PHOTO, prediction, reference), FOUR)
    return scores, worst.layers


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    write_photo_scores(folder, *score_all(3), FOUR, False, Provenance())
    return folder


def pixels_of(source):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(source.split(",")[1]))).convert("RGBA"))


def test_the_worst_photo_comes_first_and_links_to_its_pictures(page, metrics):
    rows = rows_of(page)
    assert list(rows) == ["city/wrong", ODD, "city/right", "ignored"]
    assert [section["data-case"] for section in page.all("section", class_="case")] == list(rows)
    assert page.one("table", id="cases")["data-sorted"] == "mean_iou"
    for key, row in rows.items():
        link = row.one("a")
        assert link.text == key
        section = page.one("section", id=link["href"].removeprefix("#"))
        assert section["data-case"] == key
        assert section.one("h3").text.startswith(f"Photo {key} mean IoU ")
        assert "32 x 24 pixels." in section.text


def test_only_the_worst_photos_have_pictures(page):
    figures = {section["data-case"]: len(list(section.all("figure"))) for section in page.all("section", class_="case")}
    assert figures == {"city/wrong": 3, ODD: 3, "city/right": 3, "ignored": 0}
    assert "Only 3 photos, with the lowest mean IoU, have pictures." in page.text


@pytest.mark.parametrize("limit", [0, 1, 2, 4, 9])
def test_the_collection_keeps_the_photos_with_the_lowest_mean_iou(limit):
    _, layers = score_all(limit)
    assert set(layers) == {*["city/wrong", ODD, "city/right", "ignored"][:limit]}
    page = parse(photo_report_html(score_all(limit)[0], layers, FOUR))
    assert len(list(page.all("figure", data_layer="reference"))) == min(limit, 4)
    expected = {0: "Only 0 photos, with the", 1: "Only 1 photo, with the lowest mean IoU, have pictures."}
    assert expected.get(limit, "") in page.text


def test_all_numbers_of_the_classes_are_in_the_page(page, metrics):
    found = {node["data-metric"]: node for node in page.all() if node.get("data-metric")}
    for name, values in metrics["classes"].items():
        for key, value in values.items():
            node = found[f"classes.{name}.{key}"]
            assert node.get("data-value") == (None if value is None else str(value))
    for name in ("mean_iou", "mean_class_accuracy", "boundary_f"):
        assert found[name]["data-value"] == str(metrics[name])
    boxes = [box.one("b").text for box in page.one("div", class_="overview").all("div")]
    names = ("mean_iou", "pixel_accuracy", "mean_class_accuracy", "frequency_weighted_iou", "boundary_f")
    assert boxes == [f"{metrics[name]:.3f}" for name in names]
    assert found["classes.sky.iou"].text == DASH
    assert "within 0.75 % of the image diagonal" in page.text.replace("\n", " ")


def test_rows_contain_the_numbers_of_metrics_json(page, metrics):
    columns = class_columns(FOUR)
    assert list(columns.values()) == ["iou_ground", "iou_traffic_sign", "iou__b___x", "iou_sky"]
    for key, row in rows_of(page).items():
        cells = {cell["data-key"]: cell.get("data-value") for cell in row.all("td")}
        fields = metrics["photos"][key]
        expected = {name: fields[name] for name in ("mean_iou", "pixel_accuracy", "boundary_f")}
        expected |= {"height": SIZE[0], "width": SIZE[1]}
        expected |= {column: fields["classes"].get(name, {}).get("iou") for name, column in columns.items()}
        assert cells == {name: None if value is None else str(value) for name, value in expected.items()}
    cell = rows_of(page)["city/right"].one("td", data_key="iou_sky")
    assert (cell.text, cell["title"]) == (DASH, "undefined: neither image has sky")
    assert rows_of(page)["ignored"].one("td", data_key="mean_iou")["title"] == "undefined: no pixel counts"


def test_the_confusion_matrix_has_counts_and_shares(page, metrics):
    table = page.one("div", class_="confusion").one("table")
    rows = list(table.one("tbody").all("tr"))
    counts = [[int(cell["data-value"]) for cell in row.all("td")] for row in rows]
    assert counts == metrics["confusion"]
    cell = list(rows[2].all("td"))[1]
    share = counts[2][1] / sum(counts[2])
    assert 0 < share < 1
    assert cell.text == f"{100 * share:.1f}"
    title = (
        f"{counts[2][1]:,} of {sum(counts[2]):,} pixels of {ODD} ({100 * share:.2f} %) are predicted as traffic sign"
    )
    assert cell["title"] == title
    opacity = [float(re.search(r"/ ([\d.]+)\)", one.get("style", "/ 0)"))[1]) for one in rows[2].all("td")]
    assert opacity == pytest.approx([0.7 * count / sum(counts[2]) for count in counts[2]], abs=1e-3)
    assert {cell.text for cell in rows[3].all("td")} == {DASH}
    heads = [head.text for head in table.one("thead").all("th")]
    assert heads == ["", *FOUR.classes]


def test_each_photo_with_a_score_has_a_dot(page):
    chart = page.one("svg", aria_label="mean IoU of each photo")
    assert len(list(chart.all("circle"))) == 3


def test_each_class_has_a_swatch_a_box_and_layers(page, scored):
    text = (scored / "report.html").read_text()
    for label, color in enumerate(FOUR.colors):
        assert page.one("input", data_hides=f"class{label}")
        assert f".hide-class{label} .layer.class{label} {{ display: none; }}" in text
        assert "background:rgb({} {} {})".format(*color) in text
    for who in ("prediction", "reference", "difference"):
        assert page.one("input", data_hides=who)
        assert f".hide-{who} .layer.{who}" in text
    section = page.one("section", data_case="city/wrong")
    layers = {tuple(image.classes[1:]): pixels_of(image["src"]) for image in section.all("img")}
    prediction, reference = PHOTOS["city/wrong"]
    assert set(layers) == {
        ("prediction", "class0"),
        ("prediction", "class1"),
        ("prediction", "class2"),
        ("reference", "class0"),
        ("reference", "class2"),
        ("difference", "wrong"),
        ("difference", "ignored"),
    }
    for (who, name), pixels in layers.items():
        labels = {"prediction": prediction, "reference": reference}.get(who)
        if labels is not None:
            mask, color = labels == int(name[5:]), FOUR.colors[int(name[5:])]
            np.testing.assert_array_equal(pixels[mask][:, :3], np.tile(color, (mask.sum(), 1)))
        else:
            ignored = reference == 255
            mask = ignored if name == "ignored" else (prediction != reference) & ~ignored
        np.testing.assert_array_equal(pixels[..., 3] == 255, mask)
        np.testing.assert_array_equal(pixels[..., 3] == 0, ~mask)


def test_the_photo_is_stored_once_per_section(page):
    section = page.one("section", data_case="city/wrong")
    source = re.fullmatch(
        r"background-image:url\((data:image/jpeg;base64,[\w+/=]+)\)", section.one("div", class_="views")["style"]
    )
    photo = pixels_of(source[1])[..., :3].astype(int)
    assert np.abs(photo.mean(axis=(0, 1)) - PHOTO.mean(axis=(0, 1))).max() < 5
    assert len(list(section.all("div", class_="photo"))) == 3


def test_large_photos_are_stored_smaller():
    photo, labels = np.zeros((900, 1600, 3), np.uint8), np.zeros((900, 1600), np.uint8)
    labels[:, 800:] = 3
    layers = make_layers(LabeledPhoto(photo, labels, labels), FOUR)
    assert layers.size == (360, 640)
    assert set(layers.layers) == {(who, label) for who in ("reference", "prediction") for label in (0, 3)}
    assert layers.wrong is None
    assert layers.ignored is None
    for png in layers.layers.values():
        assert Image.open(io.BytesIO(png)).size == (640, 360)
        assert len(png) < 1000  # 1 bit per pixel


def test_the_largest_class_comes_first_in_the_text_of_a_photo():
    score = score_photo("a", *PHOTOS["city/wrong"], FOUR)
    assert [part.rsplit(" ", 1)[0] for part in class_ious(score, FOUR).split(", ")] == [ODD, "ground", "traffic sign"]


def test_the_page_loads_no_external_resources(page, scored):
    assert_stands_alone(page, scored)
    assert "mtf-imaging 0.1.0" in page.one("footer").text


def test_names_are_escaped(scored):
    text = (scored / "report.html").read_text()
    assert ODD not in text
    assert "&lt;b&gt;&amp;&quot;x" in text


def test_the_same_scores_give_the_same_bytes(scored, tmp_path, capsys):
    write_photo_scores(tmp_path, *score_all(3), FOUR, True, Provenance())
    for name in ("report.html", "metrics.json", "metrics.csv"):
        assert (tmp_path / name).read_bytes() == (scored / name).read_bytes()
    assert "traffic sign" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(
    test_report_browser.CHROMIUM is None, reason="there is no browser; install Debian's package chromium"
)
def test_the_page_sorts_in_a_browser(scored):
    report = scored / "report.html"
    assert list(rows_of(test_report_browser.dom(report))) == ["city/wrong", ODD, "city/right", "ignored"]
    page = test_report_browser.dom(report, "#sort=-iou_ground")
    values = [row.one("td", data_key="iou_ground").get("data-value") for row in rows_of(page).values()]
    assert values[-1] is None
    assert [float(value) for value in values[:-1]] == sorted(map(float, values[:-1]), reverse=True)
    assert [section["data-case"] for section in page.all("section", class_="case")] == list(rows_of(page))


@pytest.mark.slow
@pytest.mark.skipif(
    test_report_browser.CHROMIUM is None, reason="there is no browser; install Debian's package chromium"
)
def test_photos_are_drawn_and_boxes_hide_layers_in_a_browser(scored):
    look = """<script>
        const shown = (css) => [...document.querySelectorAll(".layer" + css)]
          .filter((layer) => getComputedStyle(layer).display !== "none").length;
        const count = () => [".prediction", ".reference", ".difference", ".class2"].map(shown).join();
        const counts = [count()];
        for (const name of ["class2", "difference", "reference"]) {
          document.querySelector(`[data-hides=${name}]`).click();
          counts.push(count());
        }
        document.documentElement.dataset.counts = counts.join(" ");
        const drawn = [...document.querySelectorAll(".photo")].map((photo) => getComputedStyle(photo)).filter((style) =>
          style.backgroundImage.startsWith('url("data:image/jpeg') && style.backgroundSize === "100% 100%");
        document.documentElement.dataset.drawn = drawn.length;
    </script></body>"""
    copy = scored / "boxes.html"
    copy.write_text((scored / "report.html").read_text().replace("</body>", look))
    text, _ = test_report_browser.browse(copy, "--dump-dom")
    # Of three photos: 3 + 3 + 2 predicted classes, 2 classes in each reference, and 2 + 2 + 1 layers of differences.
    root = parse(text).one("html")
    assert root["data-drawn"] == "9"
    assert root["data-counts"] == "8,6,5,6 5,3,5,0 5,3,0,0 5,0,0,0"
