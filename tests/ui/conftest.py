"""Fixtures for a real browser: pages over real and hostile skills, and what is wrong with them."""

import os
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
import yaml
from anyio.from_thread import start_blocking_portal

import skillsearch
from skillsearch.index.skill_index import SkillIndex
from skillsearch.mcp_server.connections import serve_app
from skillsearch.mcp_server.listening import listen
from skillsearch.settings.table import Settings
from skillsearch.ui.app import make_app
from skillsearch.ui.pages import Pages

EXAMPLES = Path(skillsearch.__file__).parent / "examples"
AXE = Path(os.environ.get("AXE_CORE") or "node_modules/axe-core") / "axe.min.js"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
SECRET = "correct-horse-battery-staple"
ATTACK = '<script>document.title = "taken"</script><img src=http://127.0.0.1:9/x onerror=alert(1)>'
LINK = "[link](javascript:alert(1)) <a href='javascript:alert(2)'>b</a>"
ARABIC = "يستخرج الجداول من ملفات PDF العربية ويحفظها في جدول بيانات."
HEBREW = "ממיר חשבוניות סרוקות לטבלה, כולל סכומים ותאריכים."


def write_skill(folder: Path, name: str, description: str, body: str = "# Body\n") -> None:
    folder.mkdir(parents=True)
    head = yaml.safe_dump({"name": name, "description": description}, allow_unicode=True)
    (folder / "SKILL.md").write_text(f"---\n{head}---\n{body}", encoding="utf-8")


def write_hostile(root: Path) -> None:
    """Write skills that try to be more than text, and some from right to left."""
    body = f"# {ATTACK}\n\n{LINK}\n\x1b[31mred\u202e\n\n```\n</pre></script>{ATTACK}\n```\n"
    write_skill(root / "markup", f"markup{ATTACK}", f"Squash everything. {ATTACK} {LINK}", body)
    write_skill(
        root / "unseen", "un\u202eseen\u200b", "Squash \x1b]0;x\x07 e\u202every\u2066thing."
    )
    write_skill(root / "huge", "huge", f"Squash {'x' * 500} {'everything ' * 1_500}", "y" * 400_000)
    (root / "lost").mkdir()
    (root / "lost" / "SKILL.md").write_text("---\n", encoding="utf-8")
    write_skill(root / "arabic", "جداول", ARABIC, f"# جداول\n\n{ARABIC}\n")
    write_skill(root / "hebrew", "חשבוניות", HEBREW, f"# חשבוניות\n\n{HEBREW}\n")
    for name in ("<img src=x onerror=alert(1)>.md", "java script:alert(1).md", "\u202egpj.md"):
        (root / "markup" / name).write_text(ATTACK, encoding="utf-8")


@contextmanager
def serving(pages: Pages):
    """Serve pages from another thread, and yield their address."""
    listener = listen("127.0.0.1")
    with start_blocking_portal() as portal:
        stop = portal.call(anyio.Event)
        ended = portal.start_task_soon(serve_app, make_app(pages, SECRET), listener, stop)
        try:
            yield f"{listener.origin}/{SECRET}/"
        finally:
            portal.call(stop.set)
            ended.result(timeout=120)
            pages.searching.close()
            pages.aside.close()


@pytest.fixture(scope="session")
def collection(tmp_path_factory) -> Path:
    """Index the example skills and hostile ones, and return the folder of the index."""
    folder = tmp_path_factory.mktemp("collection")
    write_hostile(folder / "hostile")
    shutil.copytree(EXAMPLES / "git-history-rewrite", folder / "hostile" / "git-history-rewrite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder / "home"))
        roots = [EXAMPLES, folder / "hostile"]
        SkillIndex.from_roots(roots, index_dir=folder / "index")
    return folder / "index"


@pytest.fixture(scope="module")
def browser():
    """Start a Chromium; playwright must be gone before tests of other modules run an event loop."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if CHROMIUM is None:
        pytest.skip("needs chromium or google-chrome")
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-gpu"]
        running = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield running
        running.close()


@pytest.fixture(scope="module")
def site(collection, tmp_path_factory):
    reports = tmp_path_factory.mktemp("reports")
    (reports / "made.html").write_text("<h1>Report</h1>", encoding="utf-8")
    with serving(Pages(Settings(index_dir=collection, reader="off"), reports)) as url:
        yield url


@dataclass
class Visit:
    """A page of the browser, and whatever it complained of or asked others for."""

    page: Any
    url: str
    noted: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Note messages, errors, failed requests, answers that are errors, and who is asked."""
        page, origin = self.page, urlsplit(self.url).netloc
        page.on("console", lambda event: self.noted.append(f"console: {event.text}"))
        page.on("pageerror", lambda event: self.noted.append(f"error: {event}"))
        page.on(
            "dialog", lambda event: (self.noted.append(f"dialog: {event.message}"), event.dismiss())
        )
        page.on("requestfailed", self._failed)
        page.on("request", lambda event: self._asked(event.url, origin))
        page.on(
            "response", lambda event: event.status >= 400 and self.noted.append(f"bad: {event.url}")
        )

    def _failed(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # what the next key has overtaken
            self.noted.append(f"failed: {request.url} {request.failure}")

    def _asked(self, url: str, origin: str) -> None:
        if urlsplit(url).netloc != origin and not url.startswith("data:"):
            self.noted.append(f"asked: {url}")

    def go(self, path: str) -> Any:
        """Open a page, wait until it has all it waits for, and return it."""
        self.page.goto(self.url + path)
        self.page.locator("[data-wait]").wait_for(state="detached", timeout=60_000)
        return self.page


@pytest.fixture
def visit(browser, site) -> Any:
    """Visit pages in windows of any size and scheme; any complaint of a page fails the test."""
    contexts, visits = [], []

    def open_window(
        width: int = 1400, scheme: str = "light", url: str = site, **more: Any
    ) -> Visit:
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, **more))
        contexts[-1].set_default_timeout(60_000)  # the machine may be busy
        visits.append(Visit(contexts[-1].new_page(), url))
        visits[-1].watch()
        return visits[-1]

    yield open_window
    for context in contexts:
        context.close()
    assert [note for visited in visits for note in visited.noted] == []


@pytest.fixture(scope="session")
def violations() -> Callable[[Any], list[str]]:
    """Return a function that says what axe-core finds wrong with a page."""
    if not AXE.is_file():
        pytest.skip("needs axe-core: npm install axe-core, or AXE_CORE names its folder")
    script = AXE.read_text(encoding="utf-8")

    def check(page: Any) -> list[str]:
        page.evaluate(f"{script}; null")
        rules = page.evaluate("axe.run().then(found => found.violations)")
        return [f"{rule['id']}: {node['html'][:200]}" for rule in rules for node in rule["nodes"]]

    return check
