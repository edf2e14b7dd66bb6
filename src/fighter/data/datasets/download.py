"""Downloads that resume after stalls and interruptions and never leave half a file."""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

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
) -> Path:
    """Download ``url`` to ``path``. Proxies are taken from the environment.

    Bytes are collected in ``path.part``, also over several calls. The file gets its name only when
    it is complete and its checksum is right. ``progress`` is called with the bytes received and
    the total, if known. After ``timeout`` seconds without a byte it connects again, and after
    ``retries`` tries in a row without a new byte it gives up.
    """
    if not url.startswith(("https://", "http://")):
        raise FighterError(f"{url} is not a web address that begins with https:// or http://")
    path = Path(path)
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    failures = 0
    while True:
        before = _size(part)
        try:
            _receive(url, part, progress, timeout)
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
        if failures > retries:
            what = f"{url} could not be downloaded: {reason} ({retries + 1} tries)"
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


def _receive(url: str, part: Path, progress: OnBytes | None, timeout: float) -> None:
    """Append the missing bytes to ``part``; raise if the connection ends too early."""
    done = _size(part)
    # Ask for uncompressed bytes: a compressed transfer could not be resumed.
    headers = {"User-Agent": "fighter", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - checked by download
    try:
        response = urllib.request.urlopen(request, timeout=timeout)  # noqa: S310
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
        total = done + int(length) if length else None
        with part.open("ab" if resumed else "wb") as file:
            while chunk := response.read1(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                if progress:
                    progress(done, total)
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")
