"""Archives to unpack, and a server on this machine to download from."""

import hashlib
import io
import json
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from skillsearch.index.skill_index import SkillIndex
from skillsearch.roots import lock
from skillsearch.roots.bundles import content_digest
from skillsearch.roots.sources import WELL_KNOWN, folder_of
from skillsearch.roots.well_known import SCHEMA

SKILL = b"---\nname: steep-tea\ndescription: Steep green tea in hot water.\n---\nUse 80 C.\n"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """Ask this machine directly, and have no root named from outside."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("SKILLS_ROOT", raising=False)


@pytest.fixture(scope="session")
def contents():
    """Return the bytes of the files of a folder by their paths."""

    def read(folder):
        files = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    return read


@pytest.fixture(scope="session")
def skill_md():
    """Return the bytes of a SKILL.md."""

    def write(name, text="Do it."):
        about = f"The skill {name} does a thing."
        return f"---\nname: {name}\ndescription: {about}\n---\n{text}\n".encode()

    return write


@pytest.fixture
def pack(tmp_path):
    """Write an archive of some files; its name says of what kind."""

    def make(name="skills.zip", files=None, mode=0o644):
        path = tmp_path / name
        files = {"steep-tea/SKILL.md": SKILL} if files is None else files
        if name.endswith(".zip"):
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for member, data in files.items():
                    info = zipfile.ZipInfo(member)
                    info.external_attr = (0o100000 | mode) << 16
                    info.compress_type = zipfile.ZIP_DEFLATED
                    archive.writestr(info, data)
            return path
        end = name.rpartition(".")[2]
        with tarfile.open(path, "w:" + {"tar": "", "tgz": "gz"}.get(end, end)) as archive:
            for member, data in files.items():
                info = tarfile.TarInfo(member)
                info.size, info.mode = len(data), mode
                archive.addfile(info, io.BytesIO(data))
        return path

    return make


class Server:
    """Answers each path as a test wants, and keeps what was asked."""

    def __init__(self):
        self.pages = {}
        self.requests = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.requests.append((self.path, dict(self.headers)))
                self.close_connection = True
                try:
                    server.pages[self.path.partition("?")[0]](self)
                except (BrokenPipeError, ConnectionResetError):
                    return

            def do_POST(self):
                self.body = self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_):
                return

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.address = f"127.0.0.1:{self._http.server_port}"
        self.url = f"http://{self.address}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self):
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(120)

    def page(self, path, data=b"", status=200, **headers):
        """Serve bytes; an ``etag`` that the client has is answered by 304."""

        def answer(handler):
            matches = headers.get("etag") and handler.headers["If-None-Match"] == headers["etag"]
            since = headers.get("last_modified")
            matches = matches or (since and handler.headers["If-Modified-Since"] == since)
            handler.send_response(304 if matches else status)
            for name, value in headers.items():
                handler.send_header(name.replace("_", "-"), value)
            if not matches and "content_length" not in headers:
                handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            if not matches:
                handler.wfile.write(data)

        self.pages[path] = answer
        return f"{self.url}{path}"

    def redirect(self, path, target, status=302):
        return self.page(path, status=status, location=target)


@pytest.fixture
def server():
    running = Server()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def fails(cli):
    """Run a command that must fail and say so on stderr in these words; return its result."""

    def run(*args, says, code=2, **options):
        result = cli(*args, **options)
        assert result.exit_code == code, result.stderr
        assert says in result.stderr
        return result

    return run


@pytest.fixture
def hashing(monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")


@pytest.fixture
def host(server, skill_md):
    """Offer skills at the well-known place, given by name and text; entries may be changed."""

    def offer(skills, change=lambda entry: entry, **index):
        entries = []
        for name, text in skills.items():
            data = skill_md(name, text)
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            server.page(f"/files/{name}.md", data)
            entry = {"name": name, "type": "skill-md", "description": "x"}
            entries.append(change(entry | {"url": f"/files/{name}.md", "digest": digest}))
        record = {"$schema": SCHEMA, "skills": entries} | index
        server.page(WELL_KNOWN, json.dumps(record).encode())
        return server.url

    return offer


@pytest.fixture
def state():
    """Return all that a command may change: the lock file, and the bytes of each source's copy."""

    def read():
        path = lock.lock_file()
        copies = {entry.source: folder_of(entry.source) for entry in lock.known_sources().values()}
        digests = {
            name: content_digest(folder) for name, folder in copies.items() if folder.is_dir()
        }
        return path.read_text() if path.exists() else "", digests

    return read


@pytest.fixture
def names():
    def find():
        return sorted(document.name for document in SkillIndex.open().documents())

    return find
