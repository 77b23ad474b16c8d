"""All pages in a real Chromium: by keyboard, for screen readers, in any width, and unharmed."""

from urllib.parse import quote

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(300)]

PATHS = {
    "search": "?q=squash+my+last+three+commits",
    "nothing fits": "?q=who+won+the+world+cup",
    "skill": "skill?id=examples:git-history-rewrite",
    "Chinese": f"skill?id={quote('examples:周报')}",
    "right to left": "skill?id=hostile:arabic",
    "hostile": "skill?id=hostile:markup",
    "huge": "skill?id=hostile:huge",
    "file": "file?id=hostile:huge&path=SKILL.md",
    "map": "map",
    "families": "families",
    "hosts": "hosts",
    "health": "health",
    "empty": "",
    "audit": "audit",
    "reports": "reports",
}
NARROW, TABLET, WIDE = 390, 768, 1400
PAPER = 718  # pixels of A4 within its margins


@pytest.mark.parametrize("name", PATHS)
def test_a_page_has_no_violation_in_any_width_and_scheme(visit, violations, name):
    for width, scheme in ((NARROW, "light"), (WIDE, "dark")):
        page = visit(width, scheme).go(PATHS[name])
        if name == "map":
            page.locator("#frame").wait_for()
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["skill", "families", "hosts", "health", "audit", "huge"])
def test_on_a_phone_each_row_of_a_table_is_a_card(visit, name):
    page = visit(NARROW).go(PATHS[name])
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.locator("table").count() > 0
    wrong = page.evaluate(
        """() => [...document.querySelectorAll("table")].flatMap(table => {
          const heads = [...table.querySelectorAll("thead th")].map(one => one.textContent);
          return [...table.querySelectorAll("tbody tr:has(td) > *")].filter(one => {
            const box = one.getBoundingClientRect(), style = getComputedStyle(one, "::before");
            if (!one.textContent) return box.height > 0;
            const label = one.cellIndex ? JSON.stringify(heads[one.cellIndex]) : "none";
            return style.content !== label || box.right > innerWidth || box.left < 0
              || one.scrollWidth > one.clientWidth + 1 || !box.height;
          }).map(one => one.outerHTML.slice(0, 200));
        })"""
    )
    assert wrong == []
    inner = (
        "[...document.querySelectorAll('.scroll')].map(one => one.scrollWidth - one.clientWidth)"
    )
    assert max(page.evaluate(inner)) <= 0


@pytest.mark.parametrize("name", ["skill", "families", "hosts", "health", "audit", "huge"])
def test_on_paper_and_on_a_tablet_nothing_is_cut(visit, name):
    hidden = (
        "[...document.querySelectorAll('.scroll')]"
        ".map(one => [one.scrollWidth - one.clientWidth, one.scrollHeight - one.clientHeight])"
    )
    page = visit(TABLET, "dark").go(PATHS[name])
    assert [wide for wide, _ in page.evaluate(hidden) if wide > 0] == []
    page.set_viewport_size({"width": PAPER, "height": 1_000})
    page.emulate_media(media="print")
    assert [cut for cut in page.evaluate(hidden) if max(cut) > 0] == []
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden()


def test_without_scripts_an_example_searches(visit):
    page = visit(java_script_enabled=False).go("")
    link = page.locator(".requests a").first
    request = link.inner_text()
    link.click()
    page.locator("h2.fits").wait_for()
    assert page.locator("#q").input_value() == request


def test_typing_searches_and_the_keyboard_alone_reaches_a_skill(visit):
    page = visit().go("")
    page.keyboard.type("rebase my branch")
    page.locator("h2.fits").wait_for()
    page.wait_for_url("**?q=rebase+my+branch")
    assert page.locator("#said").text_content().startswith("1 skill fits")
    assert page.locator("#q").evaluate("one => one === document.activeElement")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "git-history-rewrite"
    page.keyboard.press("Enter")
    page.wait_for_url("**/skill?id=*")
    assert page.locator("h1").inner_text() == "git-history-rewrite"


def test_enter_submits_what_is_typed(visit):
    page = visit().go("")
    page.keyboard.type("rebase my branch")
    with page.expect_request("**/results?*submitted=1"):
        page.keyboard.press("Enter")
    page.locator("h2.fits").wait_for()


def test_a_part_that_was_opened_stays_open_while_typing(visit):
    page = visit().go("?q=squash+commits")
    page.locator("summary").first.click()
    page.locator("#q").focus()
    page.keyboard.type(" now")
    page.wait_for_url("**?q=squash+commits+now")
    assert page.locator("details").first.evaluate("one => one.open")


def test_the_first_tab_skips_the_navigation(visit):
    page = visit().go("families")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_what_a_skill_says_is_text(visit):
    for path in ("?q=squash+everything", "skill?id=hostile:markup", "audit", "families", "health"):
        page = visit().go(path)
        page.wait_for_timeout(200)
        assert "skillsearch" in page.title()
        assert page.locator("main img, main script, main iframe, main [onerror]").count() == 0
        assert page.locator("a[href^='javascript' i]").count() == 0
    page = visit().go("skill?id=hostile:unseen")
    text = page.locator("main").inner_text()
    assert page.locator("h1").inner_text() == "unseen"
    assert not {"\u202e", "\u200b", "\u2066", "\x1b", "\x07"} & set(text)


def test_files_with_hostile_names_can_be_read(visit):
    page = visit().go("skill?id=hostile:markup")
    names = page.locator(".files a").all_inner_texts()
    assert "<img src=x onerror=alert(1)>.md" in names
    page.get_by_text("<img src=x onerror=alert(1)>.md").click()
    page.wait_for_url("**/file?*")
    assert "<script>document.title" in page.locator("pre").inner_text()


def test_text_from_right_to_left_stays_in_its_place(visit):
    page = visit(NARROW).go("skill?id=hostile:arabic")
    assert page.locator("h1").inner_text() == "جداول"
    assert page.locator("pre").evaluate("one => getComputedStyle(one).direction") == "rtl"
    assert page.locator("main").evaluate("one => getComputedStyle(one).direction") == "ltr"


def test_a_page_that_is_not_there_says_so(visit):
    window = visit()
    page = window.go("skill?id=no:such")
    assert "no:such" in page.locator("main").inner_text()
    assert page.locator("nav a").count() == 7
    assert len(window.noted) == 2
    window.noted.clear()
