"""Downloads: what is asked of servers, and what of theirs is not believed."""

import io
import socket
import threading
import time
from hashlib import sha256
from types import SimpleNamespace

import pytest

from skillsearch import __version__
from skillsearch.errors import RootError, UnreachableError
from skillsearch.roots import downloads
from skillsearch.roots.downloads import Downloaded, check_url, fetch, follow


def get(url, **kwargs):
    into = io.BytesIO()
    return fetch(url, into, **kwargs), into.getvalue()


def test_a_file_is_downloaded_with_its_digest(server):
    data = b"archive" * 10_000
    url = server.page("/a.zip", data, etag='"v1"', last_modified="Mon, 01 Jan 2024 00:00:00 GMT")
    downloaded, body = get(url)
    expected = Downloaded(sha256(data).hexdigest(), '"v1"', "Mon, 01 Jan 2024 00:00:00 GMT")
    assert (downloaded, body) == (expected, data)


def test_the_server_learns_who_asks_and_nothing_else(server):
    get(server.page("/a.zip", b"x") + "?q=1#part")
    path, headers = server.requests[0]
    assert path == "/a.zip?q=1"
    assert headers == {
        "Host": server.address,
        "User-Agent": f"skillsearch/{__version__}",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Connection": "close",
    }


@pytest.mark.parametrize(
    ("cached", "header"),
    [
        (Downloaded("0", etag='"v1"', last_modified="then"), ("If-None-Match", '"v1"')),
        (Downloaded("0", last_modified="then"), ("If-Modified-Since", "then")),
    ],
)
def test_what_is_known_is_not_downloaded_again(server, cached, header):
    url = server.page("/a.zip", b"x", etag='"v1"', last_modified="then")
    assert get(url, cached=cached) == (None, b"")
    assert header in server.requests[0][1].items()


@pytest.mark.parametrize("value", ["a" * 513, "caf\xe9"])
def test_an_odd_tag_is_not_kept(server, value):
    downloaded, _ = get(server.page("/a.zip", b"x", etag=value))
    assert downloaded.etag == ""


@pytest.mark.parametrize("status", [301, 308])
def test_redirects_are_followed(server, status):
    server.page("/b/%C3%A4.zip", b"there")
    server.redirect("/b/step", "\xc3\xa4.zip", status)
    url = server.redirect("/a.zip", "b/step", status)
    assert get(url)[1] == b"there"
    assert [path for path, _ in server.requests] == ["/a.zip", "/b/step", "/b/%C3%A4.zip"]


def test_redirects_end(server):
    url = server.redirect("/a.zip", "/a.zip")
    with pytest.raises(RootError, match=r"/a\.zip redirects more than 5 times"):
        get(url)
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("file:///etc/passwd", "is not a usable URL"),
        ("ftp://x.org/a.zip", "has the scheme 'ftp'"),
        ("data://x/y", "has the scheme 'data'"),
        ("http://user:secret@x.org/", "contains a user name or password"),
        ("http://[::1", "is not a usable URL"),
    ],
)
def test_a_redirect_to_what_no_user_may_name_is_refused(server, target, reason):
    with pytest.raises(RootError) as caught:
        get(server.redirect("/a.zip", target))
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)


class FakeAnswer:
    """An answer of a server that cannot be run in a test, because it has no certificate."""

    def __init__(self, status, body=b"", **headers):
        self.status, self.headers, self.length = status, headers, None
        self._body = io.BytesIO(body)
        self.close = self._body.close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def read1(self, size):
        return self._body.read(size)


@pytest.mark.parametrize(
    ("target", "is_fine"),
    [("https://y.org/b.zip", True), ("/b.zip", True), ("http://y.org/b.zip", False)],
)
def test_https_stays_https(target, is_fine):
    """Anyone on the network could otherwise replace the archive."""
    urls = []

    def answer(request, timeout):
        urls.append(request.full_url)
        return FakeAnswer(200, b"x") if len(urls) > 1 else FakeAnswer(302, Location=target)

    opener = SimpleNamespace(open=answer)
    if is_fine:
        assert follow(opener, "https://x.org/a.zip", {}, 1).read1(9) == b"x"
    else:
        with pytest.raises(RootError, match=r"from https to http://y\.org/b\.zip"):
            follow(opener, "https://x.org/a.zip", {}, 1)
    assert len(urls) == 1 + is_fine


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://x.org/a", "has the scheme 'ftp'; only https and http are supported"),
        ("https://u@x.org/a", "contains a user name or password, which would be sent and stored"),
        ("https://:p@x.org/a", "contains a user name or password"),
        ("https:///a", "is not a usable URL"),
        ("https://x.org:0/a", "is not a usable URL"),
        ("https://x.org:99999/a", "is not a usable URL"),
        ("https://x.org/a b", "is not a usable URL"),
        ("https://x.org/ä", "is not a usable URL"),
        ("https://x.org/\r\nX: y", "is not a usable URL"),
        ("https://x.org/" + "a" * 4096, "is not a usable URL"),
    ],
)
def test_a_url_that_cannot_be_asked_is_refused(url, reason):
    with pytest.raises(RootError) as caught:
        check_url(url)
    assert reason in str(caught.value)


@pytest.mark.parametrize("status", [204, 206, 300, 304, 404, 500, 503, 429])
def test_an_answer_without_the_file_is_told(server, status):
    url = server.page("/a.zip", b"", status=status)
    with pytest.raises(RootError) as caught:
        get(url)
    assert str(status) in str(caught.value)
    assert isinstance(caught.value, UnreachableError) is (status >= 500 or status == 429)


def test_size_is_counted_as_bytes_come(server):

    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b"0" * 10_000)

    server.pages["/a.zip"] = endless
    with pytest.raises(RootError, match="is larger than 100,000 bytes") as caught:
        get(f"{server.url}/a.zip", max_bytes=100_000)
    assert not isinstance(caught.value, UnreachableError)


def test_a_body_that_is_cut_off_is_told(server):
    url = server.page("/a.zip", b"x" * 10, content_length="100")
    with pytest.raises(UnreachableError, match="cannot be downloaded: IncompleteRead"):
        get(url)


def test_a_body_longer_than_the_server_said_ends_there(server):
    assert get(server.page("/a.zip", b"x" * 10, content_length="4"))[1] == b"xxxx"


def test_a_chunked_body_is_read_and_its_lack_told(server):
    def answer(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"3\r\nabc\r\n" + (b"0\r\n\r\n" if is_whole else b"9\r\nab"))

    server.pages["/a.zip"] = answer
    is_whole = True
    assert get(f"{server.url}/a.zip")[1] == b"abc"
    is_whole = False
    with pytest.raises(UnreachableError):
        get(f"{server.url}/a.zip")


def drip(handler):
    """Send a byte of a body now and then, without an end."""
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.05)


def drip_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.05)


def fall_silent(handler):
    time.sleep(2)


@pytest.mark.parametrize(
    ("answer", "reason", "seconds", "read_seconds"),
    [
        (drip, "it took more than 0.6 s", 0.6, 120),
        (drip_headers, "it took more than 0.6 s", 0.6, 120),
        (fall_silent, "timed out", 120, 0.3),
    ],
)
def test_a_slow_server_is_left(server, monkeypatch, answer, reason, seconds, read_seconds):
    monkeypatch.setattr(downloads, "READ_SECONDS", read_seconds)
    server.pages["/a.zip"] = answer
    with pytest.raises(UnreachableError, match=reason):
        get(f"{server.url}/a.zip", seconds=seconds)


def test_a_handshake_without_end_is_left(monkeypatch):
    """TLS bytes that drip keep nobody either."""
    monkeypatch.setattr(downloads, "READ_SECONDS", 120)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"\x16\x03\x03\x3f\xff")
                while not stop.wait(0.05):
                    try:
                        connection.sendall(b"\x02")
                    except OSError:
                        return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/a.zip"
        try:
            with pytest.raises(UnreachableError, match=r"it took more than 0\.6 s"):
                get(url, seconds=0.6)
        finally:
            stop.set()
            thread.join(120)


def test_a_server_that_is_not_there_is_told():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnreachableError) as caught:
        get(f"http://127.0.0.1:{port}/a.zip?token=secret")
    message = str(caught.value)
    url = f"http://127.0.0.1:{port}/a.zip?..."
    assert message.startswith(f"{url} cannot be downloaded: Connection refused. ")
    assert "secret" not in message
    assert message.endswith("download it yourself and name the file.")


def test_what_is_no_http_is_told(server):
    server.pages["/a.zip"] = lambda handler: handler.wfile.write(b"SSH-2.0-x\r\n")
    with pytest.raises(UnreachableError):
        get(f"{server.url}/a.zip")


def test_a_full_disk_is_not_the_server_s_fault(server):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fetch(server.page("/a.zip", b"x"), Full())


def test_no_thread_and_no_socket_stays(server, wait_for):
    url = server.page("/a.zip", b"x")
    get(url)
    before = threading.active_count()
    for _ in range(5):
        get(url)
        with pytest.raises(RootError):
            get(server.page("/b.zip", status=404))
    assert wait_for(lambda: threading.active_count() <= before)
