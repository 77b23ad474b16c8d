"""Tests of the pages as a browser gets them, without one: what they say, and to whom."""

import html
import json
import os
import re
import shutil
import threading
import time
from pathlib import Path
from urllib.parse import quote, unquote

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index import freshness
from skillsearch.index.skill_index import SkillIndex
from skillsearch.settings.config import load_settings
from skillsearch.text.safe_text import one_line, visible
from skillsearch.ui.app import make_app
from skillsearch.ui.pages import MOST_BYTES, Pages
from skillsearch.usage.log import UsageLog

SECRET = "correct-horse-battery-staple"
PAGES = ("", "families", "hosts", "health", "audit", "reports")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 77777 * 77777 }}{% raw %}",
    "javascript:alert(1)",
    "a\u202eb\u200bc\x1b[31m",
    "&lt;b&gt;",
)


class Site:
    """Asks the app as a server does."""

    def __init__(self, app):
        self.app = app

    def get(self, path, secret=SECRET, method="GET"):
        """Return status, headers and text of a page."""
        page, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": f"/{secret}/{page}",
            "query_string": query.encode(),
            "headers": [],
            "root_path": "",
            "scheme": "http",
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
            "http_version": "1.1",
        }
        sent = []

        async def receive():
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        anyio.run(self.app, scope, receive, send)
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], headers, body.decode()

    def wait(self, path):
        """Return the text of a page once it does not wait any more."""
        for _ in range(100):
            status, _, text = self.get(path)
            if "data-wait" not in text:
                assert status == 200, text
                return text
            time.sleep(0.05)
        raise AssertionError(f"{path} still waits")


@pytest.fixture
def pages_of(index_dir):
    """Make the pages of an index, with the embedder that it was made with."""
    return lambda reports=None: Pages(load_settings(index_dir=index_dir), reports)


@pytest.fixture
def site(drinks_index, pages_of):
    return Site(make_app(pages_of(), SECRET))


def test_a_page_may_load_only_what_is_ours(site):
    for path in (*PAGES, "results?q=tea", "skill?id=drinks%3Asteep-tea", "nope"):
        _, headers, text = site.get(path)
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert not re.search(r'<script(?! type="module" src="static/)|<style|\sstyle=', text)
        assert not re.search(r"\son\w+=", text)
        assert not re.search(r'(?:src|href)="(?:\w+:)?//', text)


@pytest.mark.parametrize("path", ["", "results?q=tea", "static/ui.js", "page.css"])
def test_whoever_does_not_know_the_secret_gets_nothing_and_nobody_changes_anything(site, path):
    refusal = "Open the address that skillsearch ui has printed; it is a new one each time.\n"
    for secret in ("", "x", SECRET[:-1], f"{SECRET}x", SECRET.upper(), "é"):
        status, _, text = site.get(path, secret)
        assert (status, text) == (404, refusal)
    for method in ("POST", "PUT", "DELETE"):
        assert site.get("", method=method)[0] == 405
    for query in ("!!!", "\x00", "🚀", "a" * 100_000, "\u202e"):
        assert site.get(f"?q={quote(query)}")[0] == 200


def test_the_three_states_are_told_apart(site, index_dir):
    index = SkillIndex.open(index_dir)
    seen = set()
    for query in ("steep green tea", "lemonade", "coffee and tea", "fix the car", "grind"):
        result = index.search(query, 10, face="page")
        _, _, text = site.get(f"results?q={quote(query)}")
        states = {"1 skill fits": "fits", "skills fit": "fits", "this may": "perhaps"}
        state = next((state for words, state in states.items() if words in text), "none")
        assert state == result.state
        link = r'id=([^"&]+)&amp;answers=1"><bdi>.*?</meter>\s*([0-9.]+)'
        shown = re.findall(link, text, re.DOTALL)
        hits = (*result.hits, *result.perhaps)
        assert shown == [(quote(hit.doc_id, safe="/"), f"{hit.score:.2f}") for hit in hits]
        seen.add(state)
    assert seen >= {"fits", "none"}


def test_typing_is_no_request_until_it_is_submitted_or_opens_a_skill(
    drinks_index, pages_of, monkeypatch
):
    def kinds():
        return [(event.kind, event.skill, len(event.offered)) for event in log.events()]

    monkeypatch.setenv("SKILLSEARCH_USAGE", "hashes")
    log, site = UsageLog.own(), Site(make_app(pages_of(), SECRET))
    for query in ("s", "steep", "steep+green+tea"):
        site.get(f"results?q={query}&read=0")
    site.get("skill?id=drinks:brew-coffee")
    assert kinds() == []
    opened = [("asked", "", 1), ("loaded", "drinks:steep-tea", 0)]
    site.get("skill?id=drinks:steep-tea&answers=1")
    assert kinds() == opened
    site.get("?q=steep+green+tea")
    site.get("skill?id=drinks:steep-tea&answers=1")
    assert kinds() == opened
    site.get("results?q=brew+coffee&submitted=1")
    site.get("?q=brew+coffee")
    submitted = [*opened, ("asked", "", 1)]
    assert kinds() == submitted
    site.get("results?q=squeeze+lemons&read=1")
    for query in ("squeeze+lemons", "brew+coffee", "steep+green+tea"):  # reloaded, and Back
        site.get(f"?q={query}")
    assert kinds() == submitted
    site.get("results?q=squeeze+lemons&read=1&submitted=1")
    assert kinds() == [*submitted, ("asked", "", 1)]


def test_the_page_says_why_as_explain_does(site, index_dir):
    query = "grind the beans for coffee"
    _, _, text = site.get(f"results?q={quote(query)}")
    said = [
        (html.unescape(label), html.unescape(reason))
        for label, reason in re.findall(r"<dt>(.*?)</dt>\s*<dd><bdi>(.*?)</bdi></dd>", text)
    ]
    result = SkillIndex.open(index_dir).search(query, 10, explain=True)
    assert said == [pair for hit in (*result.hits, *result.perhaps) for pair in hit.explain.summary]
    assert ("section", "Grind: Grind the beans just before you brew.") in said


def test_a_page_refreshes_the_index_but_a_key_only_once_a_second(
    site, drinks, make_skill, monkeypatch
):
    """The stat of thousands of files at each key would be felt."""
    now = 1000.0
    monkeypatch.setattr(freshness, "monotonic", lambda: now)
    site.get("results?q=tea")
    make_skill(drinks, "mull-wine", "Mull red wine with cinnamon.")
    assert "mull-wine" not in site.get("results?q=mull+red+wine")[2]
    shown = site.get("?q=mull+red+wine")[2]
    assert "mull-wine" in shown
    assert "index refreshed: 1 added" in shown
    make_skill(drinks, "bake-bread", "Bake bread with sourdough.")
    assert "bake-bread" not in site.get("results?q=bake+bread")[2]
    now += freshness.MAX_AGE
    assert "bake-bread" in site.get("results?q=bake+bread")[2]


@pytest.fixture
def hostile(tmp_path, make_skill, index_dir, pages_of):
    """Return a site over skills whose texts try to be more than text."""
    root = tmp_path / "hostile"
    for number, text in enumerate(HOSTILE):
        about = f"Tea {text} is steeped green."
        path = make_skill(root, f"skill-{number}", about, body=f"# Tea\n\n{text}\n", tags=[text])
        (path.parent / f"notes {number} <b>&.md").write_text(f"{text}\n", encoding="utf-8")
    make_skill(root, "huge", "tea " * 10_000, body="tea " * 60_000)
    SkillIndex.from_roots([root], index_dir=index_dir, model="hashing")
    return Site(make_app(pages_of(), SECRET))


def test_hostile_texts_are_text(hostile, index_dir):
    documents = list(SkillIndex.open(index_dir).documents())
    assert len(documents) == len(HOSTILE) + 1
    paths = ["results?q=steep+green+tea", "", "audit"]
    paths += [f"skill?id={quote(document.doc_id)}" for document in documents]
    texts = [hostile.wait(path) for path in paths]
    for number, text in enumerate(HOSTILE):
        file = quote(f"notes {number} <b>&.md")
        texts.append(hostile.get(f"file?id=hostile%3Askill-{number}&path={file}")[2])
        assert html.escape(one_line(text), quote=True).replace("&#x27;", "&#39;") in texts[
            3 + [document.name for document in documents].index(f"skill-{number}")
        ].replace("&#34;", "&quot;")
        assert visible(text) in html.unescape(texts[-1])
    for text in texts:
        assert not re.search("<script>|<img|<b>|6049261729|[\u202a-\u202e\u200b\x1b]", text)
        assert not re.search(r"href=\"(?!static/|\./|#|data:,|[a-z.]+[?#\"])", text)
    _, _, huge = hostile.get("skill?id=hostile%3Ahuge")
    assert len(huge) < 2 * MOST_BYTES
    assert "the whole file, page by page" in huge


def test_pages_of_a_file_add_up_to_it(site, drinks):
    long = "".join(f"{number} Zeile mit Umlaut ä\n" for number in range(10_000))
    (drinks / "steep-tea" / "long.md").write_text(long, encoding="utf-8")
    path, content = "file?id=drinks%3Asteep-tea&path=long.md", ""
    while path:
        _, _, text = site.get(path)
        content += html.unescape(re.search(r"<pre dir=\"auto\">(.*?)</pre>", text, re.DOTALL)[1])
        following = re.search(r'href="(file[^"]*offset=\d+)"', text)
        path = html.unescape(following[1]) if following else None
    assert content == long


def test_no_path_leads_out_of_a_skill_or_to_what_is_not_there(site, drinks):
    for path in ("../brew-coffee/SKILL.md", "/etc/passwd", "no.md", "", "a\0b"):
        status, _, text = site.get(f"file?id=drinks%3Asteep-tea&path={quote(path)}")
        assert status == 404
        assert "This cannot be shown" in text
        assert "root:" not in text
    (drinks / "steep-tea" / "cup.png").write_bytes(b"\x89PNG\0\xff")
    _, _, text = site.get("file?id=drinks%3Asteep-tea&path=cup.png")
    assert "6 bytes" in text
    assert "It is not text" in text
    status, _, text = site.get("skill?id=steep-te")
    assert status == 404
    assert "steep-tea" in text
    (drinks / "steep-tea" / "SKILL.md").unlink()
    assert site.get("skill?id=drinks%3Asteep-tea")[0] == 404


def test_the_page_of_a_skill_says_what_it_costs_and_what_is_like_it(site, drinks, make_skill):
    body = "# Tea\n\nUse 80 C."
    make_skill(drinks / "more", "steep-tea", "Steep green tea, gently.", body=f"{body}\n")
    site.get("")
    _, _, text = site.get("skill?id=drinks%3Asteep-tea")
    assert re.search(
        rf'row"><bdi>body</bdi></th>\s*<td[^>]*>\d+</td>\s*<td[^>]*>{len(body)}</td>', text
    )
    assert re.search(r"more/steep-tea.*?differs in description", text, re.DOTALL)
    assert "brew-coffee" in text.partition("What competes")[2]


def test_a_skill_is_named_with_its_repository(drinks, make_skill, index_dir, pages_of):
    """A root may hold many; a folder in which one keeps its skills tells nothing."""
    for folder in ("acme/skills", "brewers/teas", "skills"):
        make_skill(drinks / folder, "mull-wine", "Mull red wine with cinnamon and cloves.")
    SkillIndex.from_roots([drinks], index_dir=index_dir, model="hashing")
    site = Site(make_app(pages_of(), SECRET))
    text = site.get("families")[2]
    assert '<td data-label="repository"><bdi>drinks/acme</bdi></td>' in text
    assert "mull-wine in drinks/brewers (the same), mull-wine in drinks (the same)" in text
    assert "from <bdi>drinks/acme</bdi>" in site.get("results?q=mull+red+wine")[2]
    assert "from <bdi>drinks</bdi>" in site.get("results?q=steep+green+tea")[2]
    assert "in <bdi>drinks/brewers</bdi>" in site.get("skill?id=drinks:acme/skills/mull-wine")[2]


def test_health_begins_with_what_is_lost(site, drinks, index_dir):
    assert re.search(r"</h1>\s*<p[^>]*>lost: 0 skills</p>", site.wait("health"))
    for name in ("cut-off", "<empty>"):
        (drinks / name).mkdir()
        (drinks / name / "SKILL.md").write_text("---\n", encoding="utf-8")
    SkillIndex.open(index_dir).refresh()
    text = site.wait("health")
    assert re.search(r"</h1>\s*<p[^>]*>lost: 2 skills</p>", text)
    rows = re.findall(r'row"><bdi>(.*?)</bdi></th><td data-label="why"><bdi>(.+?)</bdi>', text)
    paths = [str(drinks / name / "SKILL.md") for name in ("<empty>", "cut-off")]
    assert [html.unescape(path) for path, _ in rows] == paths


def test_health_of_no_index_says_what_to_do(index_dir, pages_of):
    text = Site(make_app(pages_of(), SECRET)).wait("health")
    assert "lost:" not in text
    assert "skillsearch index" in text


def test_an_index_without_skills_says_once_how_to_add_some(site, drinks, index_dir):
    shutil.rmtree(drinks)
    drinks.mkdir()
    SkillIndex.open(index_dir).refresh()
    for path in ("", "?q=tea", "results?q=tea", "map", "hosts"):
        text = site.wait(path)
        assert text.count("skillsearch index FOLDER") == 1, path
        assert not re.search("<canvas|<table|No skill fits|threshold|map.js|note: |cuts", text)
        assert "For example" not in text
    assert "lost: 0 skills" in site.wait("health")


def test_the_empty_page_offers_requests_that_find_something(site, drinks, make_skill):
    links = re.findall(r'href="\./\?q=([^"]+)"><bdi>(.*?)</bdi>', site.get("")[2])
    assert links
    for query, request in links:
        assert unquote(query) == html.unescape(request)
        assert "1 skill fits" in site.get(f"?q={query}")[2]
    make_skill(drinks, "mull", "Mull <b>red wine & cloves with cinnamon. More.")
    (drinks / "steep-tea" / "SKILL.md").unlink()
    text = site.get("")[2]
    assert 'q=Mull%20%3Cb%3Ered%20wine%20%26%20cloves%20with%20cinnamon"' in text
    assert "<bdi>Mull &lt;b&gt;red wine &amp; cloves with cinnamon</bdi>" in text
    assert "Steep" not in text


def test_hosts_are_as_budget_says(site, cli, index_dir):
    text = site.wait("hosts?window=32000")
    assert '<option value="32000" selected>' in text
    said = cli("budget", "--index-dir", index_dir, "--context", 32000, "--json").stdout
    for host in json.loads(said)["hosts"]:
        cells = [
            f"{host['limit']:,}",
            f"<bdi>{host['unit']}</bdi>",
            f"{host['needed']:,}",
            str(host["counts"]["whole"]),
        ]
        row = "".join(rf"\s*<td[^>]*>{re.escape(str(cell))}</td>" for cell in cells)
        assert re.search(rf"{host['host']}</bdi></th>{row}", text)
    for window in ("", "-1", "x", "9" * 30, "٣"):
        assert '<option value="200000" selected>' in site.wait(f"hosts?window={quote(window)}")


def test_slow_work_is_done_once_for_a_generation(
    site, drinks, index_dir, make_skill, monkeypatch, pages_of
):
    done, go = [], threading.Event()

    def slow(index):
        go.wait(120)
        done.append(index.generation)
        return ()

    monkeypatch.setattr("skillsearch.ui.pages.audit", slow)
    site = Site(make_app(pages_of(), SECRET))
    assert "data-wait" in site.get("audit")[2]
    assert "data-wait" in site.get("audit")[2]
    assert "steep-tea" in site.get("results?q=green+tea")[2]
    go.set()
    assert "Nothing was found" in site.wait("audit")
    assert len(done) == 1
    make_skill(drinks, "mull-wine", "Mull red wine with cinnamon.")
    SkillIndex.open(index_dir).refresh()
    site.wait("audit")
    assert len(set(done)) == len(done) == 2


def test_slow_work_that_fails_is_tried_again(site, monkeypatch, pages_of):
    from skillsearch.errors import StorageError

    outcomes = iter([StorageError("The disk is full."), ()])

    def fail_once(_index):
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr("skillsearch.ui.pages.audit", fail_once)
    site = Site(make_app(pages_of(), SECRET))
    status, _, text = site.get("audit")
    assert status == 500
    assert "The disk is full." in text
    assert "Nothing was found" in site.wait("audit")


def test_a_bug_is_a_page(site, monkeypatch, capfd, pages_of):

    def fail(*_args, **_options):
        raise RuntimeError("<b>oops</b>")

    monkeypatch.setattr("skillsearch.ui.pages.answer_queries", fail)
    status, _, text = Site(make_app(pages_of(), SECRET)).get("?q=tea")
    assert status == 500
    assert "This is a bug in skillsearch, please report it: RuntimeError: " in html.unescape(text)
    assert "<b>" not in text
    assert capfd.readouterr() == ("", "")


def test_reports_are_shown_and_can_do_nothing(site, tmp_path, pages_of):
    folder = tmp_path / "reports"
    folder.mkdir()
    (tmp_path / "secret.html").write_text("secret", encoding="utf-8")
    (folder / "notes.txt").write_text("secret", encoding="utf-8")
    (folder / "link.html").symlink_to(tmp_path / "secret.html")
    for age, name in enumerate(["old & <b>.html", "new.html"]):
        (folder / name).write_text(f"<h1>{name}</h1>", encoding="utf-8")
        os.utime(folder / name, (age * 1e9, age * 1e9))
    site = Site(make_app(pages_of(folder), SECRET))
    listed = site.get("reports")[2]
    assert listed.index("new.html") < listed.index("old &amp; &lt;b&gt;.html")
    status, headers, text = site.get("report?name=new.html")
    assert (status, text) == (200, "<h1>new.html</h1>")
    assert headers["content-security-policy"].endswith("sandbox")
    for name in ("../secret.html", "notes.txt", "link.html", "", "/etc/passwd"):
        status, _, text = site.get(f"report?name={quote(name)}")
        assert status == 404
        assert "secret</" not in text


def test_the_command_that_makes_a_report_is_named(site, tmp_path, pages_of):
    from skillsearch.cli.authoring.eval import eval_command

    options = {name for parameter in eval_command.params for name in parameter.opts}
    for shown in (site, Site(make_app(pages_of(tmp_path), SECRET))):
        text = html.unescape(shown.get("reports")[2])
        assert set(re.findall(r"skillsearch eval COLLECTION (--\w+)", text)) == {"--html"} & options


@given(path=st.text(max_size=40), query=st.text(max_size=40))
@pytest.mark.slow
def test_no_address_makes_the_app_fail(path, query):
    site = Site(make_app(Pages(load_settings(index_dir=Path("/nowhere"))), SECRET))
    address = f"{quote(path, errors='replace')}?{quote(query, errors='replace')}"
    assert site.get(address)[0] in (200, 404, 405, 500, 307)


def test_a_misspelt_name_is_suggested_when_typing_pauses(site):
    """Comparing all names takes too long for every key."""
    assert "similar name" not in site.get("results?q=stepp-tae&read=0")[2]
    assert "Skills with a similar name: <bdi>steep-tea</bdi>" in site.get("?q=stepp-tae")[2]
