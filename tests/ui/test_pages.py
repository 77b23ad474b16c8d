"""All pages in a real Chromium: by keyboard, for screen readers, in any width, and unharmed."""

from urllib.parse import quote

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.browser]

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
    "audit": "audit",
    "reports": "reports",
}


@pytest.mark.parametrize("name", PATHS)
def test_a_page_has_no_violation_in_any_width_and_scheme(visit, violations, name):
    """Axe-core finds nothing, and nothing has to be scrolled sideways."""
    for width, scheme in ((390, "light"), (1400, "dark")):
        page = visit(width, scheme).go(PATHS[name])
        if name == "map":
            page.wait_for_selector("#frame:not([hidden])")
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.screenshot(path=f"/tmp/home-shell/shots/{name.replace(' ','-')}-{width}.png", full_page=True)
