"""The report in a browser: headless Chromium, driven by selenium.

What is needed: Debian's ``chromium`` and ``chromium-driver``, the extra ``browser``, and for contrast the file
``axe.min.js`` of axe-core (npm), whose path is in ``AXE_CORE``, or npm to fetch it.
"""

import os
import shutil
import subprocess
import tarfile

import numpy as np
import pandas as pd
import pytest

from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.solvers import Greedy

pytestmark = pytest.mark.slow

#: Width, height, and the scheme of colours that the reader prefers.
SCREENS = {"desk": (1280, 900, "light"), "desk, dark": (1280, 900, "dark"), "phone, dark": (390, 844, "dark")}


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra: browser)")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("there is no chromium with its driver; on Debian: apt install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The address of a report with many components, so that there is a filter."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(90, 6)), columns=[f"column {k}" for k in "abcdef"])
    y = table["column a"] * table["column b"] + table["column c"] ** 2 + rng.normal(size=90)
    path = tmp_path_factory.mktemp("report") / "report.html"
    model = MKLRegressor(Products(degree=2), solver=Greedy(max_kernels=14, tol=1e-9), C=100.0).fit(table, y)
    model.report(path, table, y, baselines=())
    return path.as_uri()


@pytest.fixture(params=SCREENS)
def opened(request, browser, page):
    """The browser with the report, on every screen."""
    width, height, scheme = SCREENS[request.param]
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": "screen", "features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    browser.get(page)
    return browser


def _column(browser, table, number):
    script = (
        "return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)]"
        ".filter(row => !row.hidden).map(row => row.cells[arguments[1]].textContent)"
    )
    return browser.execute_script(script, table, number)


def test_the_console_is_silent_and_nothing_is_fetched(opened, page):
    fetched = opened.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert fetched == []
    assert [entry for entry in opened.get_log("browser") if "favicon" not in entry["message"]] == []


def test_figures_are_there_and_the_page_is_as_wide_as_the_screen(opened):
    sizes = opened.execute_script(
        "return [...document.querySelectorAll('figure svg')].map(s => [s.getBoundingClientRect().width, "
        "s.getBoundingClientRect().height])"
    )
    assert len(sizes) >= 4 and min(min(size) for size in sizes) > 100
    assert opened.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_letters_in_figures_have_the_colour_of_the_text(opened):
    colours = opened.execute_script(
        "const text = getComputedStyle(document.body).color;"
        "return [...document.querySelectorAll('figure svg')].map(s => [getComputedStyle(s).fill, text])"
    )
    assert all(figure == text for figure, text in colours)


def test_tables_sort_by_mouse_and_by_keyboard(opened):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    button = opened.find_elements(By.CSS_SELECTOR, "#component-table th button")[2]
    opened.execute_script("arguments[0].click()", button)
    first = [float(value) for value in _column(opened, "component-table", 2)]
    button.send_keys(Keys.ENTER)
    second = [float(value) for value in _column(opened, "component-table", 2)]
    assert len(first) > 12 and {tuple(first), tuple(second)} == {
        tuple(sorted(first)),
        tuple(sorted(first, reverse=True)),
    }


def test_a_filter_leaves_what_holds_its_letters(opened):
    from selenium.webdriver.common.by import By

    before = _column(opened, "component-table", 0)
    opened.find_element(By.CSS_SELECTOR, "input[data-filters=component-table]").send_keys("COLUMN A")
    after = _column(opened, "component-table", 0)
    assert 0 < len(after) < len(before) and all("column a" in name for name in after)


def test_the_tabulator_goes_through_links_tables_and_buttons(opened):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    body, seen = opened.find_element(By.TAG_NAME, "body"), []
    for _ in range(40):
        opened.switch_to.active_element.send_keys(Keys.TAB)
        seen.append(opened.switch_to.active_element.tag_name)
    assert body is not None and {"a", "button", "input", "figure"} <= set(seen)


def test_a_printed_page_is_black_on_white(opened):
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    shown = opened.execute_script(
        "const s = getComputedStyle(document.body);"
        "return [s.color, s.backgroundColor, getComputedStyle(document.querySelector('nav')).display]"
    )
    assert shown == ["rgb(0, 0, 0)", "rgb(255, 255, 255)", "none"]


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The text of axe-core."""
    if "AXE_CORE" in os.environ:
        with open(os.environ["AXE_CORE"], encoding="utf-8") as stream:
            return stream.read()
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    got = npm and subprocess.run([npm, "pack", "axe-core"], cwd=folder, capture_output=True, timeout=100)
    if not got or got.returncode:
        pytest.skip("there is no axe-core: name its axe.min.js in AXE_CORE, or install npm")
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as files:
        stream = files.extractfile("package/axe.min.js")
        assert stream is not None
        return stream.read().decode("utf-8")


def test_axe_finds_nothing_wrong(opened, axe):
    opened.execute_script(axe)
    found = opened.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    assert any(rule["id"] == "color-contrast" for rule in found["passes"])
    wrong = [f"{rule['id']}: {node['html'][:120]}" for rule in found["violations"] for node in rule["nodes"]]
    assert wrong == []
