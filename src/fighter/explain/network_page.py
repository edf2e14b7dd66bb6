"""Write the network of a table as an HTML page with a picture and a table; it works offline."""

import html
import json
import re
from importlib.resources import files
from pathlib import Path

import numpy as np

from .._files import atomic_write, check_target
from .network import NOTE, Network
from .page import PAGES

MOST_ROWS = 2000  # links on a page
COLUMNS = ("lag", "strength", "share", "sign", "hops", "stability")


def write_network_page(network: Network, path: str | Path, *, title: str = "") -> None:
    """Write the page; ``Network.save_html`` describes the arguments."""
    check_target(Path(path), PAGES)
    page, style = (
        files("fighter.explain").joinpath(name).read_text("utf-8")
        for name in ("network.html", "page.html")
    )
    found = re.search(r"<style>(.*?)</style>", style, re.DOTALL)
    content = json.dumps(_content(network), ensure_ascii=False, allow_nan=False)
    title = title or f"Who follows whom among {len(network.ids):,} series"
    parts = {
        "title": html.escape(title),
        "style": found[1] if found else "",
        "content": content.replace("<", "\\u003c"),
    }
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], page)
    with atomic_write(path) as file:
        file.write_text(page, "utf-8")


def _content(network: Network) -> dict:
    links = network.links
    longest = int(links.lag.max(initial=0))
    rows = [
        [source, target, *(_short(getattr(links, name)[i]) for name in COLUMNS)]
        for i, (source, target) in enumerate(
            zip(links.source[:MOST_ROWS].tolist(), links.target[:MOST_ROWS].tolist(), strict=True)
        )
    ]
    left_out = len(links) - len(rows)
    return {
        "ids": [str(name) for name in network.ids],
        "order": network.order().tolist(),
        "own": [_short(share) for share in np.diagonal(network.share)],
        "links": rows,
        "spans": {lag: network.freq.span(lag) for lag in {int(row[2] or 0) for row in rows}},
        "longest": longest,
        "headline": network.sentences(3),
        "about": NOTE,
        "left_out": f"The {left_out:,} weakest links are left out." if left_out else "",
    }


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None
