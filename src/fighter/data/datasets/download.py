"""Downloads that resume after interruptions, never leave half a file, and are limited in size."""

import http.client
import io
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..._files import file_sha256
from ...errors import FighterError

OnBytes = Callable[[int, int | None], None]

_CHUNK = 1 << 16
_RETRY_CODES = (408, 425, 429, 500, 502, 503, 504)


def download(
    url: str,
    path: str | Path,
    *,
    sha256: str | None = None,
    progress: OnBytes | None = None,
    timeout: float = 30,
    retries: int = 3,
    deadline: float = 3600,
    max_bytes: int = 500_000_000,
) -> Path:
    """Download ``url`` to ``path``. Proxies are taken from the environment.

    Bytes are collected in ``path.part``, also over several calls. The file gets its name only when
    it is complete and its checksum is right. ``progress`` is called with the bytes received and
    the total, if known. After ``timeout`` seconds without a byte it connects again. It gives up
    after ``retries`` tries in a row without a new byte, and ``deadline`` seconds after the call at
    the latest. A file of more than ``max_bytes`` is refused, and so is a redirection from https to
    another protocol.
    """
    if not url.startswith(("https://", "http://")):
        raise FighterError(f"{url} is not a web address that begins with https:// or http://")
    path = Path(path)
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + deadline
    opener = urllib.request.build_opener(_Redirects, _Http(end), _Https(end))
    failures = 0
    while True:
        before = _size(part)
        try:
            _receive(opener, url, part, progress, timeout, max_bytes)
            break
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in _RETRY_CODES:
                answer = f"{error.code} {error.reason}"
                raise FighterError(f"{url} answered {answer}; check the address") from None
            reason: Exception = error
        except (OSError, http.client.HTTPException) as error:
            reason = error
        failures = 1 if _size(part) > before else failures + 1
        late = time.monotonic() > end
        if late or failures > retries:
            why = f"not complete after {deadline:g} s" if late else f"{reason} ({failures} tries)"
            what = f"{url} could not be downloaded: {why}"
            kept = f"{_size(part)} bytes are kept in {part}"
            raise FighterError(
                f"{what}; {kept}, and the same command resumes from there"
            ) from reason
        time.sleep(min(0.1 * 2**failures, 5))
    if sha256 is not None and (actual := file_sha256(part)) != sha256:
        part.unlink()
        what = f"the file from {url} has sha256 {actual}, expected {sha256}, and was deleted"
        remedy = "try again, and if this repeats, the file at that address has changed"
        raise FighterError(f"{what}; {remedy}")
    return part.replace(path)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirections to web addresses only, and from https only to https."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: Any, headers: Any, newurl: str):
        if urlsplit(newurl).scheme not in ("https", req.type):
            fp.close()
            raise FighterError(f"{req.full_url} redirects to {newurl}, which is refused: not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Deadline:
    """A handler of web addresses that reads nothing after the deadline.

    A timeout is not enough: it begins anew with every byte, also within the headers.
    """

    def __init__(self, end: float):
        super().__init__()
        self.end = end

    def do_open(self, http_class: Any, req: Any, **options: Any) -> Any:
        def respond(*args: Any, **known: Any) -> http.client.HTTPResponse:
            response = http.client.HTTPResponse(*args, **known)
            response.fp = io.BufferedReader(_Until(response.fp.detach(), self.end))
            return response

        def connect(host: str, **known: Any) -> http.client.HTTPConnection:
            connection = http_class(host, **known)
            connection.response_class = respond
            return connection

        return super().do_open(connect, req, **options)  # pyright: ignore[reportAttributeAccessIssue]


class _Http(_Deadline, urllib.request.HTTPHandler):
    pass


class _Https(_Deadline, urllib.request.HTTPSHandler):
    pass


class _Until(io.RawIOBase):
    """The bytes of another stream until a time of the monotonic clock."""

    def __init__(self, stream: io.RawIOBase, end: float):
        self.stream, self.end = stream, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if time.monotonic() > self.end:
            raise TimeoutError("the download takes too long")
        return self.stream.readinto(buffer)

    def close(self) -> None:
        self.stream.close()
        super().close()


def _receive(
    opener: urllib.request.OpenerDirector,
    url: str,
    part: Path,
    progress: OnBytes | None,
    timeout: float,
    max_bytes: int,
) -> None:
    """Append the missing bytes to ``part``; raise if the connection ends too early."""
    done = _size(part)
    # Ask for uncompressed bytes: a compressed transfer could not be resumed.
    headers = {"User-Agent": "fighter", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - checked by download
    try:
        response = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        error.close()
        total = error.headers.get("Content-Range", "").rpartition("/")[2]
        if total != str(done):  # the part is longer than the file, so it belongs to another
            part.unlink()
            raise ConnectionError("the server has fewer bytes than were kept") from None
        return
    with response:
        sent = response.headers.get("Content-Range", "")
        resumed = response.status == 206 and sent.startswith(f"bytes {done}-")
        done = done if resumed else 0
        length = response.headers.get("Content-Length")
        if length and not re.fullmatch(r"[0-9]{1,18}", length):
            raise FighterError(
                f"{url} answered with a Content-Length of {length[:40]!r}, no number"
            )
        total = done + int(length) if length else None
        with part.open("ab" if resumed else "wb") as file:
            while max(done, total or 0) <= max_bytes and (chunk := response.read1(_CHUNK)):
                file.write(chunk)
                done += len(chunk)
                if progress:
                    progress(done, total)
    if max(done, total or 0) > max_bytes:
        part.unlink()
        raise FighterError(f"{url} has more than {max_bytes:,} bytes, which is refused")
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")
