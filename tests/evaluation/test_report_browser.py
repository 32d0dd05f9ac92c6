"""The report in a real browser: the script sorts, hides and logs no errors."""

import shutil
import subprocess

import pytest
from PIL import Image

from mtf_imaging.evaluation.pairs.score import score_folders
from tests import waiting
from tests.evaluation.html_tree import parse
from tests.evaluation.test_report import CASES, rows_of, write_cases

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no browser; install Debian's package chromium"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    if subprocess.run([CHROMIUM, "--version"], capture_output=True).returncode:
        pytest.skip(f"{CHROMIUM} does not run; install Debian's package chromium")
    folder = write_cases(tmp_path_factory.mktemp("browser"), CASES, with_ct=True)
    score_folders(folder / "r", folder / "p", folder / "out", 1, progress=False, volume_dir=folder / "ct")
    return folder / "out/report.html"


def browse(report, *words, fragment=""):
    """Opens the report and returns the output and the log of the browser."""
    profile = report.parent / "profile"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += ["--enable-logging=stderr"]
    command += [f"--user-data-dir={profile}", "--virtual-time-budget=5000", *words, f"{report.as_uri()}{fragment}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=waiting.LIMIT)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(profile, ignore_errors=True)
    return done.stdout, done.stderr


def dom(report, fragment=""):
    text, log = browse(report, "--dump-dom", fragment=fragment)
    page = parse(text)
    assert page.one("html").get("data-error") is None
    assert "CONSOLE" not in log
    return page


def with_script(report, name, script):
    """Returns a copy of the report that runs a script at its end."""
    copy = report.with_name(f"{name}.html")
    copy.write_text(report.read_text().replace("</body>", f"<script>{script}</script></body>"))
    return copy


def test_the_default_order_is_the_order_of_the_file(report):
    written = parse(report.read_text())
    page = dom(report)
    assert list(rows_of(page)) == list(rows_of(written))
    assert page.one("html")["data-ready"] == ""  # set at the end of the script


@pytest.mark.parametrize("column", ["liver_dice", "-liver_dice", "lesion_assd", "-lesion_assd", "case"])
def test_the_address_determines_the_order(report, column):
    page = dom(report, f"#sort={column}")
    table = page.one("table", id="cases")
    assert table["data-sorted"] == column
    key = column.removeprefix("-")
    assert [head["data-key"] for head in table.all("th") if head.get("aria-sort")] == [key]
    rows = rows_of(page)
    if key == "case":
        assert list(rows) == ['<b>&"x', "empty", "missed_1", "missed_2", "missed_10", "right"]
        return
    values = [row.one("td", data_key=key).get("data-value") for row in rows.values()]
    numbers = [float(value) for value in values if value is not None]
    assert numbers == sorted(numbers, reverse=column.startswith("-"))
    assert values[len(numbers) :] == [None] * (len(values) - len(numbers))  # undefined values come last
    assert [section["data-case"] for section in page.all("section", class_="case")] == list(rows)


def test_clicks_sort_and_boxes_hide(report):
    """A script clicks twice on a column and once on a checkbox, and stores the results in the page."""
    visit = """
        const head = document.querySelector('[data-key="liver_voe"]');
        head.querySelector("button").click();
        const first = document.getElementById("cases").dataset.sorted;
        head.querySelector("button").click();
        document.querySelector('[data-hides="prediction"]').click();
        const of = (who) => getComputedStyle(document.querySelector(`.outlines .${who}`)).display;
        document.documentElement.dataset.seen = [
          first, document.getElementById("cases").dataset.sorted, of("reference"), of("prediction"),
        ].join(" ");
    """
    assert dom(with_script(report, "visited", visit)).one("html")["data-seen"] == "liver_voe -liver_voe inline none"


def test_the_first_pictures_are_shown_until_more_are_requested(report):
    """A button shows the other pictures, and so does a link to one of them."""
    count = """
        const shown = () => [...document.getElementById("pictures").children].filter((one) => one.offsetParent).length;
        const seen = [shown(), document.getElementById("more").hidden];
        %s
        seen.push(shown(), document.getElementById("more").hidden);
        document.documentElement.dataset.seen = seen.join(" ");
    """
    last = list(parse(report.read_text()).all("section", class_="case"))[-1]["id"]
    button, link = (
        with_script(report, name, count % click) for name, click in (("button", "more.click();"), ("link", ""))
    )
    assert dom(button).one("html")["data-seen"] == "3 false 6 true"
    assert dom(link, f"#{last}").one("html")["data-seen"] == "6 true 6 true"


@pytest.mark.parametrize("width", [500, 1400])
def test_the_page_fits_the_window_and_shows_the_ct(report, width):
    """No element makes the page wider than the window, and all images are loaded."""
    look = """
        addEventListener("load", () => {
          const root = document.documentElement;
          root.dataset.overflow = root.scrollWidth - root.clientWidth;
          const images = [...document.images];
          root.dataset.images = images.filter((image) => image.complete && image.naturalWidth > 0).length;
          // the distance between outlines and images, in pixels
          root.dataset.apart = Math.max(...images.map((image) => {
            const [a, b] = [image, image.nextElementSibling].map((part) => part.getBoundingClientRect());
            return Math.max(...["left", "top", "right", "bottom"].map((side) => Math.abs(a[side] - b[side])));
          }));
        });
    """
    copy = with_script(report, "looked", look)
    copy.write_text(copy.read_text().replace('loading="lazy"', ""))  # the load event then waits for the last image
    text, _ = browse(copy, f"--window-size={width},2000", "--dump-dom")
    root = parse(text).one("html")
    assert root["data-overflow"] == "0"
    assert int(root["data-images"]) == 3 * len(CASES)
    assert float(root["data-apart"]) < 0.01


def test_a_screenshot_has_the_colors_of_both_outlines(report, tmp_path):
    browse(report, "--window-size=1400,6000", "--hide-scrollbars", f"--screenshot={tmp_path}/page.png")
    image = Image.open(tmp_path / "page.png").convert("RGB")
    colors = {color: count for count, color in image.getcolors(1 << 24)}
    assert colors.get((0x3C, 0xCB, 0xFF), 0) > 100  # reference
    assert colors.get((0xFF, 0xB0, 0x00), 0) > 100  # prediction


@pytest.mark.parametrize(("width", "some"), [(420, True), (1400, False)])
def test_tables_show_that_they_scroll(report, width, some):
    """The page is narrowed because windows of the headless browser have at least 500 px."""
    look = """
        document.body.style.maxWidth = "%dpx";
        dispatchEvent(new Event("resize"));
        const parts = [...document.querySelectorAll(".scroll")];
        const hint = (part) => getComputedStyle(part, "::before").content.includes("Scroll sideways");
        const scrolls = (part) => part.scrollWidth > part.clientWidth;
        document.documentElement.dataset.wrong = parts.filter((part) => hint(part) !== scrolls(part)).length;
        document.documentElement.dataset.hints = parts.filter(hint).length;
    """
    text, _ = browse(with_script(report, "narrow", look % width), f"--window-size={max(500, width)},2000", "--dump-dom")
    root = parse(text).one("html")
    assert root["data-wrong"] == "0"
    assert len(list(parse(text).all("div", class_="scroll"))) >= 7
    assert (int(root["data-hints"]) > 1) == some
