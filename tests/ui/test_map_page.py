"""The map in a real Chromium: by mouse, keyboard and finger, with few skills and with many."""

import json

import numpy as np
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

ATTACK = "<img src=x onerror=alert(1)>"


def many(count):
    """Return the record of many skills on a grid, the first with a hostile name."""
    side = int(np.ceil(np.sqrt(count)))
    points = [[65_535 * (i % side) // side, 65_535 * (i // side) // side] for i in range(count)]
    return {
        "ids": [f"many:{i}" for i in range(count)],
        "names": [f"skill-{i}" if i else ATTACK for i in range(count)],
        "about": [f"Does {i}. {ATTACK}" for i in range(count)],
        "repositories": [f"root-{i}" for i in range(9)],
        "repository": [i % 9 for i in range(count)],
        "languages": ["en", "zh", ""],
        "language": [i % 3 for i in range(count)],
        "family": [i // 2 if i % 10 < 2 else -1 for i in range(count)],
        "xy": points,
        "pairs": [[i, i + 1] for i in range(0, min(count - 1, 2_000), 2)],
        "islands": [
            {"x": x, "y": y, "radius": 3_000, "size": 5 + i % 50, "words": [f"a{i}", "b" * 20, "c"]}
            for i, (x, y) in enumerate(points[:: max(1, count // 40)])
        ],
    }


@pytest.fixture
def shown(visit):
    """Open the map of the collection, or of a given record."""

    def show(record=None, path="map", **window):
        opened = visit(**window)
        if record is not None:
            body = json.dumps(record)
            opened.page.route("**/map.json", lambda route: route.fulfill(body=body))
        page = opened.go(path)
        page.locator("#frame").wait_for()
        return page

    return show


@pytest.mark.slow
def test_all_skills_are_drawn(shown):
    for scheme in ("light", "dark"):
        page = shown(scheme=scheme)
        colours = page.evaluate(
            "() => { const c = document.querySelector('#map');"
            "const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "return new Set(new Uint32Array(data.buffer)).size; }"
        )
        assert colours > 2
        assert page.locator("#legend li").count() == 2
        assert page.locator("#around a").count() == 12


@pytest.mark.slow
def test_keys_move_zoom_and_open(shown):
    page = shown()
    page.locator("#map").focus()
    first = page.locator("#card strong").inner_text()
    for key in ("+", "+", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    name = page.locator("#card strong").inner_text()
    assert page.locator("#around a").first.inner_text() == name
    page.keyboard.press("0")
    assert page.locator("#card strong").inner_text() == first
    page.keyboard.press("Enter")
    page.wait_for_url("**/skill?id=*")
    assert page.locator("h1").inner_text() == first


@pytest.mark.slow
def test_highlighting_finds_the_next_hit(shown):
    page = shown()
    page.locator("#find").fill("git bisect")
    page.locator("#find").press("Enter")
    assert page.locator("#state").inner_text() == "1 of 30 skills are highlighted."
    assert page.locator("#card strong").inner_text() == "git-bisect-regression"
    page.keyboard.press("n")
    assert page.locator("#card strong").inner_text() == "git-bisect-regression"
    page.locator("#find").fill("no such words")
    page.wait_for_function(
        "state => state.textContent.startsWith('0 of')", arg=page.query_selector("#state")
    )


@pytest.mark.slow
def test_a_link_of_a_skill_shows_it_on_the_map(shown):
    page = shown(path="map#hostile:markup")
    assert page.locator("#card strong").inner_text().startswith("markup<script>")
    assert page.locator("#card img").count() == 0
    page.locator("#map").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/skill?id=hostile*")
    page.get_by_text("Show it on the map").click()
    page.wait_for_url("**/map#hostile*")


@pytest.mark.slow
def test_the_mouse_hovers_drags_zooms_and_clicks(shown):
    page = shown(many(100))
    box = page.locator("#map").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    side = 0.94 * min(box["width"], box["height"])
    stretch = min(3, max(1, box["width"] / box["height"]))

    def point_of(i):
        x, y = (coordinate / 65_535 - 0.5 for coordinate in many(100)["xy"][i])
        return middle[0] + x * side * stretch, middle[1] + y * side

    page.mouse.move(*point_of(0))
    assert page.locator("#card strong").inner_text() == ATTACK
    assert page.locator("#card").inner_text().count("<img") == 2
    page.mouse.move(*point_of(55))
    assert page.locator("#card strong").inner_text() == "skill-55"
    page.mouse.wheel(0, -300)
    page.mouse.move(*point_of(0))
    assert page.locator("#card").is_hidden()
    page.get_by_role("button", name="All", exact=True).click()
    page.mouse.move(*point_of(44))
    page.mouse.down()
    page.mouse.move(*point_of(66), steps=3)
    page.mouse.up()
    assert page.url.endswith("/map")
    assert page.locator("#card strong").inner_text() == "skill-44"


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 1400])
def test_labels_are_in_the_frame_and_on_no_other(shown, width):
    record = many(400)
    record["names"] = ["\u4f1a" * (60 if i % 2 else 3) for i in range(400)]
    page = shown(record, width=width)
    for key in ("0", "+", "+", "ArrowRight", "+", "+", "+"):
        page.locator("#map").press(key)
        page.evaluate("new Promise(requestAnimationFrame)")
        boxes = page.evaluate(
            "[...document.querySelectorAll('#frame, #labels bdi:not([hidden])')]"
            ".map(one => one.getBoundingClientRect()).map(b => [b.left, b.top, b.right, b.bottom])"
        )
        (left, top, right, bottom), *labels = boxes
        assert len(labels) > 2
        for i, label in enumerate(labels):
            assert left <= label[0] <= label[2] <= right
            assert top <= label[1] <= label[3] <= bottom
            for other in labels[:i]:
                apart = label[0] >= other[2] or other[0] >= label[2]
                assert apart or label[1] >= other[3] or other[1] >= label[3], (label, other)
    assert page.locator("#labels .skill:not([hidden])").count() > 0


@pytest.mark.slow
def test_islands_of_the_collection_can_be_gone_to_by_keyboard(shown):
    record = many(100)
    record["islands"] = [{"x": 0, "y": 0, "radius": 2_000, "size": 9, "words": ["git", ATTACK]}]
    page = shown(record)
    page.locator("#island").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#island option:checked").inner_text() == f"git · {ATTACK} (9)"
    assert page.locator("#around a").first.inner_text() == ATTACK
    page.keyboard.press("ArrowUp")
    assert page.locator("#around a").first.inner_text() != ATTACK


@pytest.mark.slow
def test_a_group_of_the_legend_is_highlighted_and_named_by_more_than_its_colour(shown):
    page = shown(many(90))
    entries = page.locator("#legend button")
    assert [entry.split(" ")[0] for entry in entries.all_inner_texts()][:2] == ["root-0", "root-1"]
    looks = page.evaluate(
        "[...document.querySelectorAll('#legend i')].map(one => getComputedStyle(one))"
        ".map(s => s.clipPath + s.borderRadius + s.borderTopWidth)"
    )
    assert len(set(looks)) == len(looks) == 8
    entries.nth(2).focus()
    page.keyboard.press("Enter")
    assert page.locator("#state").inner_text() == "10 of 90 skills are highlighted."
    assert entries.nth(2).get_attribute("aria-pressed") == "true"
    page.locator("#find").fill("does 11")
    page.get_by_text("1 of 90 skills are highlighted.").wait_for()
    entries.nth(2).click()
    assert entries.nth(2).get_attribute("aria-pressed") == "false"
    page.locator("#find").fill("root-8")  # has no colour of its own
    page.get_by_text("10 of 90 skills are highlighted.").wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_stand_out_from_the_page(shown, scheme):
    """By three to one at least, as WCAG 2.2 asks of what is no text."""
    page = shown(scheme=scheme)
    names = ["--page", *(f"--colour-{i}" for i in range(8))]
    inks = page.evaluate(
        "names => names.map(name => getComputedStyle(document.body).getPropertyValue(name))", names
    )
    ground, *others = [luminance(ink.strip()) for ink in inks]
    for other in others:
        assert (max(ground, other) + 0.05) / (min(ground, other) + 0.05) >= 3


def luminance(ink):
    parts = np.array([int(ink[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.slow
def test_a_finger_taps_once_for_the_card_and_again_to_open(shown):
    page = shown(width=390, has_touch=True)
    page.get_by_role("button", name="Zoom in").tap()
    name = page.locator("#around a").first.inner_text()
    page.locator("#find").fill(name)
    page.locator("#find").press("Enter")
    page.evaluate("document.activeElement.blur()")
    assert page.locator("#card").is_hidden()
    page.locator("#map").tap()
    assert page.locator("#card strong").inner_text() == name
    page.locator("#map").tap()
    page.wait_for_url("**/skill?id=*")


@pytest.mark.slow
def test_a_map_that_does_not_come_says_so(visit):
    window = visit()
    window.page.route("**/map.json", lambda route: route.fulfill(status=500, body="{"))
    page = window.go("map")
    page.get_by_text("The map cannot be shown").wait_for()
    assert page.locator("#frame").is_hidden()
    window.noted.clear()  # the browser tells of the status


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_skills_make_a_map(shown, count):
    page = shown(many(count))
    page.locator("#map").focus()
    for key in ("+", "ArrowLeft", "n", "0", "Escape"):
        page.keyboard.press(key)
    assert page.locator("#around a").count() == count


@pytest.mark.parametrize(
    "count",
    [pytest.param(5_000, marks=pytest.mark.slow), pytest.param(30_000, marks=pytest.mark.night)],
)
def test_thousands_of_skills_pan_and_zoom(shown, count):
    page = shown(many(count))
    page.locator("#map").focus()
    for key in ["+", "ArrowLeft", "ArrowUp", "-", "0"]:
        page.keyboard.press(key)
        page.evaluate("new Promise(requestAnimationFrame)")
    page.locator("#find").fill(f"does {count - 1}")
    page.locator("#find").press("Enter")
    assert page.locator("#card strong").inner_text() == f"skill-{count - 1}"
