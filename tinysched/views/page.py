"""A trace as one HTML file: the viewer, its style and the compressed document. It asks for nothing else.

In: a trace. Out: HTML text. Whatever comes from the user is escaped, or inside the compressed document as base64.

>>> from tinysched.trace.trace import Trace
>>> "<b>" in html(Trace("<b>")).split("<script")[0]
False
"""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

from tinysched import viewer
from tinysched.trace.trace import Trace
from tinysched.views.document import packed
from tinysched.views.text import summary

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body class="ts-page">
<div data-tinysched="ts-document"><pre>{summary}</pre></div>
<script id="ts-document" type="text/plain">{data}</script>
<script type="module">
{script}
</script>
</body>
</html>
"""
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""The page may load nothing: what it needs is inside."""


def html(trace: Trace) -> str:
    """The page as text. Without JavaScript it shows the summary."""
    return _PAGE.format(
        policy=_POLICY,
        title=escape(trace.title),
        style=viewer.style(),
        summary=escape(summary(trace)),
        data=base64.b64encode(packed(trace)).decode(),
        script=viewer.script(),
    )


def to_html(trace: Trace, path: str | Path) -> Path:
    """Writes the page and returns its path."""
    target = Path(path)
    target.write_text(html(trace), encoding="utf-8")
    return target
