"""Downloads that survive stalls and cuts, and do not leave half a file behind."""

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from ...errors import FighterError

_CHUNK = 1 << 16
_WORTH_ANOTHER_TRY = (408, 425, 429, 500, 502, 503, 504)


def download(
    url: str,
    path: str | Path,
    *,
    sha256: str | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    timeout: float = 30,
    retries: int = 3,
) -> Path:
    """Fetch ``url`` to ``path``.

    Bytes gather in ``path.part`` and are taken up again there after a stall (``timeout`` seconds
    without a byte) or a cut; after ``retries`` tries in a row without a new byte it gives up. The
    file gets its name only when it is whole and its checksum is right. ``progress(done, total)`` is
    called as bytes arrive. Proxies are taken from the environment.
    """
    if not url.startswith(("https://", "http://")):
        raise FighterError(f"{url} is no web address; it must begin with https:// or http://.")
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
            if error.code not in _WORTH_ANOTHER_TRY:
                raise FighterError(
                    f"{url} answered {error.code} {error.reason}. Is the address right?"
                ) from None
            reason: Exception = error
        except (OSError, http.client.HTTPException) as error:
            reason = error
        failures = 1 if _size(part) > before else failures + 1
        if failures > retries:
            raise FighterError(
                f"{url} could not be fetched: {reason} ({retries + 1} tries). {_size(part)} bytes "
                f"are kept in {part}; run the same again to go on from there."
            ) from reason
        time.sleep(min(0.1 * 2**failures, 5))
    if sha256 is not None and (found := file_sha256(part)) != sha256:
        part.unlink()
        raise FighterError(
            f"What came from {url} has sha256 {found}, expected {sha256}; it was deleted. "
            "Run the same again; if this repeats, the file at that address has changed."
        )
    return part.replace(path)


def file_sha256(path: str | Path) -> str:
    """Compute the checksum of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _receive(
    url: str, part: Path, progress: Callable[[int, int | None], None] | None, timeout: float
) -> None:
    """Append what is missing to ``part``; raise if the connection ends too early."""
    done = _size(part)
    # Bytes as they are on disk: a compressed transfer could not be taken up in its middle.
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
        if total != str(done):  # the part is longer than the file: it is of another file
            part.unlink()
            raise ConnectionError("the server has fewer bytes than were kept") from None
        return
    with response:
        resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(
            f"bytes {done}-"
        )
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
