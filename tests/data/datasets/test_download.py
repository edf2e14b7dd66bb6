import hashlib
import http.client
import itertools
import threading
import time
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fighter._files import file_sha256
from fighter.data.datasets.download import download
from fighter.errors import FighterError

CONTENT = bytes(range(256)) * 2000  # 512,000 bytes
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Moody(BaseHTTPRequestHandler):
    """Serves CONTENT in the way its path says; the server records the requested offsets."""

    def do_GET(self):
        server, mood = self.server, self.path.strip("/")
        begin = 0
        if (wanted := self.headers.get("Range")) and mood != "norange":
            begin = int(wanted.removeprefix("bytes=").rstrip("-"))
        server.asked.append(begin)
        if mood.startswith("to/"):
            self.send_response(302)
            self.send_header("Location", mood.removeprefix("to/"))
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if mood == "slow-headers":
            return self.drip(b"HTTP/1.0 200 OK\r\nX-Long: " + b"x" * 1000)
        if mood in ("slow-body", "endless"):
            self.send_response(200)
            self.end_headers()
            return self.drip(CONTENT, size=1 if mood == "slow-body" else len(CONTENT))
        if mood.startswith("length/"):
            self.send_response(200)
            self.send_header("Content-Length", mood.removeprefix("length/"))
            return self.end_headers()
        if mood == "missing":
            return self.send_error(404)
        if (mood == "busy" and len(server.asked) < 3) or mood == "always-busy":
            return self.send_error(503)
        if begin >= len(CONTENT):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        body = CONTENT[begin:]
        if mood == "corrupt":
            body = body[:-1] + b"?"
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        first_time = len(server.asked) == 1
        if mood in ("cut", "norange") and (first_time or (mood == "cut" and len(server.asked) < 4)):
            return self.wfile.write(body[:100_000])
        if mood == "stall" and first_time:
            self.wfile.write(body[:100_000])
            self.wfile.flush()
            return server.over.wait(5)
        if mood == "silent":
            return server.over.wait(5)
        return self.wfile.write(body)

    def drip(self, content, size=1):
        """Send the content over and over, a piece every 20 ms, until the client hangs up."""
        with suppress(ConnectionError):
            for begin in itertools.cycle(range(0, len(content), size)):
                self.wfile.write(content[begin : begin + size])
                self.wfile.flush()
                if self.server.over.wait(0.02):
                    break

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Moody)
    server.asked, server.over = [], threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.parametrize(
    ("mood", "asked"),
    [("plain", [0]), ("cut", [0, 100_000, 200_000, 300_000]), ("norange", [0, 0]),
     ("stall", [0, 100_000]), ("busy", [0, 0, 0])],
)  # fmt: skip
def test_a_download_completes_despite_interruptions(server, tmp_path, mood, asked):
    seen = []
    path = download(
        server.url + mood, tmp_path / "new" / "file.csv", sha256=SHA256, timeout=0.5,
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert path.read_bytes() == CONTENT
    assert server.asked == asked
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [p.name for p in path.parent.iterdir()] == ["file.csv"]


def test_a_download_resumes_from_an_earlier_part(server, tmp_path):
    (tmp_path / "f.part").write_bytes(CONTENT[:300_000])
    assert download(server.url, tmp_path / "f", sha256=SHA256).read_bytes() == CONTENT
    assert server.asked == [300_000]
    (tmp_path / "f.part").write_bytes(CONTENT)  # killed between the last byte and the rename
    assert download(server.url, tmp_path / "f", sha256=SHA256).read_bytes() == CONTENT
    (tmp_path / "f.part").write_bytes(CONTENT + b"more")  # the part of another file
    assert download(server.url, tmp_path / "f", sha256=SHA256).read_bytes() == CONTENT


def test_a_corrupt_file_is_deleted_and_both_checksums_are_named(server, tmp_path):
    (tmp_path / "f").write_text("the old file")
    wrong = hashlib.sha256(CONTENT[:-1] + b"?").hexdigest()
    with pytest.raises(FighterError, match=f"{wrong}, expected {SHA256}"):
        download(server.url + "corrupt", tmp_path / "f", sha256=SHA256)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["the old file"]
    assert download(server.url + "corrupt", tmp_path / "f").stat().st_size == len(CONTENT)
    assert file_sha256(tmp_path / "f") == wrong


def test_a_failed_download_says_why(server, tmp_path):
    with pytest.raises(FighterError, match="404 Not Found"):
        download(server.url + "missing", tmp_path / "f")
    assert server.asked == [0]
    with pytest.raises(FighterError, match=r"503.*\(2 tries\)"):
        download(server.url + "always-busy", tmp_path / "f", retries=1)
    with pytest.raises(FighterError, match=r"timed out \(1 tries\); 0 bytes are kept"):
        download(server.url + "silent", tmp_path / "f", retries=0, timeout=0.3)
    with pytest.raises(FighterError, match="file:///etc/hostname is not a web address"):
        download("file:///etc/hostname", tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_a_refused_connection_is_an_error(tmp_path):
    with pytest.raises(FighterError, match="could not be downloaded"):
        download("http://127.0.0.1:9/", tmp_path / "f", retries=0, timeout=1)


@pytest.mark.parametrize(("mood", "kept"), [("slow-headers", False), ("slow-body", True)])
def test_a_trickle_of_bytes_ends_at_the_deadline(server, tmp_path, mood, kept):
    start = time.monotonic()
    with pytest.raises(FighterError, match=r"0\.4 s"):
        download(server.url + mood, tmp_path / "f", deadline=0.4, timeout=5)
    assert time.monotonic() - start < 4
    assert (tmp_path / "f.part").exists() == kept
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("mood", ["plain", "endless"])  # with and without a Content-Length
def test_a_file_beyond_the_limit_is_refused_and_not_kept(server, tmp_path, mood):
    with pytest.raises(FighterError, match="400,000 bytes"):
        download(server.url + mood, tmp_path / "f", max_bytes=400_000)
    assert list(tmp_path.iterdir()) == []
    assert download(server.url, tmp_path / "f", max_bytes=len(CONTENT)).exists()


@pytest.mark.parametrize("length", ["abc", "-5", "1e3", "9" * 5000])
def test_a_senseless_content_length_is_an_error(server, tmp_path, length):
    with pytest.raises(FighterError, match="Content-Length"):
        download(f"{server.url}length/{length}", tmp_path / "f")


def test_redirections_leave_the_web_for_no_other_protocol(server, tmp_path, monkeypatch):
    assert download(f"{server.url}to//plain", tmp_path / "f", sha256=SHA256).exists()
    for address in ("ftp://127.0.0.1/x", "file:///etc/hostname", "data:,x"):
        with pytest.raises(FighterError):
            download(f"{server.url}to/{address}", tmp_path / "g", retries=0)
    # The local server has no certificate, so its https is plain here; only the protocol counts.
    plain = http.client.HTTPConnection
    monkeypatch.setattr(
        urllib.request.HTTPSHandler, "https_open", lambda self, req: self.do_open(plain, req)
    )
    safe = server.url.replace("http:", "https:")
    assert download(f"{safe}to/{safe}plain", tmp_path / "g", sha256=SHA256).exists()
    assert download(f"{server.url}to/{safe}plain", tmp_path / "h", sha256=SHA256).exists()
    with pytest.raises(FighterError, match="redirects to http:"):
        download(f"{safe}to/{server.url}plain", tmp_path / "i", sha256=SHA256)
    assert not (tmp_path / "i").exists()
