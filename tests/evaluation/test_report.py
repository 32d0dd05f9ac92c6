"""`report.html`: complete numbers and cases, no external resources, and reproducible bytes."""

import logging
import re

import nibabel
import numpy as np
import pytest

from mtf_imaging.cli.main import main
from mtf_imaging.evaluation.pairs.score import score_folders
from mtf_imaging.evaluation.report.distribution import MAX_DOTS, Dot, distribution
from mtf_imaging.evaluation.report.tables import shown
from mtf_imaging.evaluation.volume_report import plots
from tests.evaluation.html_tree import assert_stands_alone, parse
from tests.evaluation.oracle import GRID, HU_OF_LABEL, oracle, store
from tests.kinds.volumes import evaluate
from tests.scores import read_rows, without_provenance

SHAPE = (20, 16, 12)
AFFINE = np.diag([1.5, 1.5, 3.0, 1.0])
ODD = '<b>&"x'


def labels_of(*lesions, liver=True):
    labels = np.zeros(SHAPE, np.uint8)
    labels[2:16, 2:14, 2:10] = liver
    for box in lesions:
        labels[box] = 2
    return labels


FIRST, SECOND, THIRD = np.s_[4:8, 4:8, 4:6], np.s_[10:13, 8:12, 5:8], np.s_[4:6, 10:12, 7:9]
# case -> (prediction, reference)
CASES = {
    ODD: (labels_of(FIRST), labels_of(FIRST)),
    "missed_1": (labels_of(THIRD), labels_of(FIRST, SECOND)),
    "missed_2": (labels_of(FIRST, THIRD), labels_of()),
    "missed_10": (labels_of(liver=False), labels_of(SECOND)),
    "right": (labels_of(), labels_of()),
    "empty": (labels_of(liver=False), labels_of(liver=False)),
}


def write(folder, name, array):
    folder.mkdir(exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(array, AFFINE), folder / f"{name}.nii.gz")


def write_cases(folder, cases, with_ct=False):
    for key, (prediction, reference) in cases.items():
        write(folder / "r", key, reference)
        write(folder / "p", key, prediction)
        if with_ct:
            write(folder / "ct", key, HU_OF_LABEL[reference])
    return folder


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """The folder of a report that covers all kinds of cases, with their CTs."""
    folder = write_cases(tmp_path_factory.mktemp("report"), CASES, with_ct=True)
    score_folders(folder / "r", folder / "p", folder / "out", 1, progress=False, volume_dir=folder / "ct")
    return folder / "out"


def rows_of(page):
    return {row["data-case"]: row for row in page.one("table", id="cases").all("tr") if row.get("data-case")}


def test_every_case_has_its_row_pictures_and_link(page):
    rows = rows_of(page)
    assert rows.keys() == CASES.keys()
    for key, row in rows.items():
        link = row.one("a")
        assert link.text == key
        section = page.one("section", id=link["href"].removeprefix("#"))
        assert section["data-case"] == key
        assert section.one("h3").text.startswith(f"Case {key} liver Dice")
        assert [figure["data-plane"] for figure in section.all("figure")] == ["axial", "coronal", "sagittal"]
        assert len(list(section.all("img"))) == 3


def test_the_worst_lesion_dice_comes_first(page, metrics):
    order = list(rows_of(page))
    dice = [(metrics["cases"][key]["lesion"]["dice"], metrics["cases"][key]["liver"]["dice"]) for key in order]
    assert dice == sorted(dice)
    assert order[:3] == ["missed_10", "missed_1", "missed_2"]
    assert [section["data-case"] for section in page.all("section", class_="case")] == order
    assert page.one("table", id="cases")["data-sorted"] == "lesion_dice"


def test_rows_contain_the_full_numbers_of_the_csv(page, scored):
    table = {row.pop("case"): row for row in read_rows(scored / "metrics.csv")}
    for key, row in rows_of(page).items():
        cells = {cell["data-key"]: cell for cell in row.all("td")}
        own = {name: value for name, value in table[key].items() if not name.startswith("official_")}
        assert own.keys() | {"lesions_largest_mm"} == cells.keys()
        for name, value in own.items():
            assert cells[name].get("data-value", "") == value
            if value:
                assert float(cells[name].text) == pytest.approx(
                    float(value), abs=5.1e-3 if "d" in name[-4:] else 5.1e-4
                )


def test_an_undefined_value_is_a_dash_with_a_reason(page):
    rows = rows_of(page)
    for key, name, why in (
        ("missed_2", "lesion_assd", "undefined: no lesion in the reference"),
        ("missed_2", "lesion_rvd", "undefined: no lesion in the reference"),
        ("missed_2", "lesions_largest_mm", "undefined: the reference has no lesion"),
        ("missed_10", "liver_hd95", "undefined: no liver in the prediction"),
        ("missed_10", "burden", "undefined: no liver in the reference or in the prediction"),
        ("empty", "lesion_mssd", "undefined: no lesion in the reference and the prediction"),
    ):
        cell = rows[key].one("td", data_key=name)
        assert (cell.text, cell["title"], cell.get("data-value")) == ("\N{EN DASH}", why, None)
        assert "undefined" in cell.classes
    assert "marks an undefined value" in page.text


def test_the_summary_contains_all_numbers_of_metrics_json(page, metrics):
    found = {node["data-metric"]: node for node in page.all() if node.get("data-metric")}

    def leaves(value, path):
        if isinstance(value, dict):
            for name, part in value.items():
                yield from leaves(part, [*path, name])
        else:
            yield ".".join(path), value

    summary = {name: part for name, part in metrics.items() if name not in ("cases", "provenance")}
    count = summary["detected_lesions"].pop("count")
    assert f"detected lesions ({count})" in page.text
    for path, value in leaves(summary, []):
        if ".undefined." in path and not value:
            assert path not in found
            continue
        assert found[path].get("data-value") == (None if value is None else str(value)), path
        assert (value is None) == found[path].text.startswith("\N{EN DASH}"), path
    assert len(found) == len([value for path, value in leaves(summary, []) if value != 0 or ".undefined." not in path])
    assert [box.one("b").text for box in page.one("div", class_="overview").all("div")] == [
        shown(value)
        for value in (
            metrics["official"]["lesion_dice_per_case"],
            metrics["official"]["lesion_dice_global"],
            metrics["official"]["liver_dice_per_case"],
            metrics["official"]["lesion_recall"],
            metrics["official"]["lesion_precision"],
            metrics["official"]["lesion_recall_greater_zero"],
            metrics["official"]["lesion_precision_greater_zero"],
        )
    ]


def test_each_lesion_has_a_mark_that_links_to_its_case(page, metrics):
    chart = next(page.all("svg", aria_label="Lesion Dice by size"))
    marks = [(link.one("title").text, next(link.all()).classes[0], link["href"]) for link in chart.all("a")]
    assert len(marks) == sum(len(case["lesions"]) for case in metrics["cases"].values())
    kinds = [kind for _, kind, _ in marks]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"found": 1, "missed": 3, "false": 3}
    links = {row["data-case"]: row.one("a")["href"] for row in rows_of(page).values()}
    for title, _, href in marks:
        assert links[re.match(r"case (.*): [\d.]+ mm, ", title)[1]] == href
    heights = {
        kind: float(next(link.all()).get("cy", 0)) for (_, kind, _), link in zip(marks, chart.all("a"), strict=True)
    }
    assert heights["found"] == plots.TOP  # Dice 1


def test_histograms_count_every_case():
    for values in ([0.95, 0.96, 1.0, 1.0], [0.0, 0.31, 1.0], [1.0] * 2, [0.5] * 3):
        values = values * MAX_DOTS
        chart = parse(distribution([Dot("", value) for value in values], "liver"))
        counts = [int(bar.one("title").text.split()[0]) for bar in chart.all("rect")]
        assert sum(counts) == len(values)
        assert f"mean {np.mean(values):.3f}" in chart.text
        for bar in chart.all("rect"):
            low, high = map(float, re.findall(r"[\d.]+\.\d\d", bar.one("title").text))
            inside = sum(low - 1e-9 <= value < high - 1e-9 or value == high == 1 for value in values)
            assert int(bar.one("title").text.split()[0]) == inside


def test_each_of_a_few_cases_has_a_dot_that_links_to_its_pictures(page, metrics):
    chart = page.one("svg", aria_label="lesion Dice of each case")
    links = {row["data-case"]: row.one("a")["href"] for row in rows_of(page).values()}
    dots = {link.one("title").text: link["href"] for link in chart.all("a")}
    cases = metrics["cases"].items()
    assert dots == {f"case {key}: Dice {case['lesion']['dice']:.3f}": links[key] for key, case in cases}
    places = [(float(dot["cx"]), float(dot.one("title").text.split()[-1])) for dot in chart.all("circle")]
    assert [value for _, value in places] == sorted(value for _, value in places)
    (left, low), (right, high) = places[0], places[-1]
    for at, value in places:
        assert at == pytest.approx(left + (right - left) * (value - low) / (high - low), abs=0.2)
    assert f"mean {np.mean([case['lesion']['dice'] for _, case in cases]):.3f}" in chart.text


def test_many_cases_are_counted_in_a_histogram():
    dots = [Dot(f"case {n}", n / MAX_DOTS) for n in range(MAX_DOTS + 1)]
    assert len(list(parse(distribution(dots[1:], "liver")).all("circle"))) == MAX_DOTS
    chart = parse(distribution(dots, "liver"))
    assert not list(chart.all("circle"))
    assert sum(int(bar.one("title").text.split()[0]) for bar in chart.all("rect")) == MAX_DOTS + 1


def test_pictures_come_before_tables(page):
    order = [node.text if node.tag == "h2" else node.tag for node in page.all() if node.tag in ("h2", "table", "img")]
    assert order.index("Pictures") == 0
    assert order.index("table") > max(n for n, tag in enumerate(order) if tag == "img")


def test_the_page_loads_no_external_resources(page, scored):
    assert_stands_alone(page, scored)
    assert "url(" not in (scored / "report.html").read_text()


def test_names_are_escaped(page, scored):
    text = (scored / "report.html").read_text()
    assert ODD not in text
    assert "&lt;b&gt;&amp;&quot;x" in text
    assert not [node for node in page.all("b") if node.text.startswith("&")]


def test_the_headline_shows_official_scores_at_the_challenge_threshold_first(page):
    boxes = [box.text for box in page.one("div", class_="overview").all("div")]
    thresholds = [text.split("IoU > ")[1] for text in boxes if "IoU" in text]
    assert thresholds == ["0.5", "0.5", "0", "0"]
    titles = [title.text for title in page.all("h2")]
    assert titles[-2:] == ["Official scores", "Our measures"]


def test_the_footer_names_the_program_and_the_definitions(page):
    assert "mtf-imaging 0.1.0" in page.one("footer").text
    assert "docs/reference/metrics.md" in page.one("footer").text


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes_anywhere(tmp_path, scored):
    folder = write_cases(tmp_path, CASES, with_ct=True)
    score_folders(folder / "r", folder / "p", folder / "o", 2, progress=False, volume_dir=folder / "ct")
    assert (folder / "o/report.html").read_bytes() == (scored / "report.html").read_bytes()


def test_without_a_ct_outlines_are_drawn_on_gray(tmp_path):
    folder = write_cases(tmp_path, CASES)
    score_folders(folder / "r", folder / "p", folder / "out", 1, progress=False)
    page = parse((folder / "out/report.html").read_text())
    assert "No CT was found for any case" in page.one("p", id="without_ct").text
    assert not list(page.all("img"))
    assert len(list(page.all("div", class_="gray"))) == 3 * len(CASES)


def test_evaluate_writes_the_report_that_score_writes(tmp_path):
    for number, codes in ((3, "RAS"), (12, "LPI")):
        store(tmp_path / "cases", number, codes)
    evaluate(tmp_path / "cases", tmp_path / "e", GRID, lambda image: oracle(np.roll(image, 1, 1)), progress=False)
    words = ["--reference_dir", tmp_path / "cases", "--prediction_dir", tmp_path / "e/predictions"]
    assert main(["score", *map(str, words), "--output_dir", str(tmp_path / "s"), "--workers", "1"]) == 0
    written, scored = ((tmp_path / folder / "report.html").read_text() for folder in ("e", "s"))
    calibration = re.compile(r'<section id="calibration">.*?</section>', re.DOTALL)  # of probabilities
    assert calibration.search(written)
    assert without_provenance(scored) == without_provenance(calibration.sub("", written))
    page = parse(written)
    assert len(list(page.all("img"))) == 6
    assert not list(page.all("p", id="without_ct"))


def test_a_ct_of_the_wrong_shape_is_omitted_with_a_warning(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    cases = {"segmentation-1": CASES["right"], "segmentation-2": CASES["missed_1"]}
    folder = write_cases(tmp_path, cases)
    write(folder / "r", "volume-1", np.zeros((20, 16, 11), np.int16))
    write(folder / "r", "volume-2", HU_OF_LABEL[CASES["missed_1"][1]])
    expected = score_folders(folder / "r", folder / "p", folder / "out", 1, progress=False)
    page = parse((folder / "out/report.html").read_text())
    assert "No CT was found for 1 of 2 cases" in page.one("p", id="without_ct").text
    assert len(list(page.all("img"))) == 3
    assert [case.key for case in expected] == ["1", "2"]
    assert expected[0].overlaps["liver"].dice == 1
