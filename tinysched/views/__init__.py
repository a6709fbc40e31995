"""Pictures, pages and tables of a trace: pure functions, and the methods of :class:`~tinysched.trace.Trace` that draw.

Read in this order: static, layout, picture, steps, svg, frames, reads, ranges, roofline, text, document, page.

In: a trace. Out: networkx graphs, DOT, SVG, text, and the HTML page of the explorer. Importing this package gives traces
their ``to_...`` methods.
"""

from tinysched.trace.trace import VIEWS
from tinysched.views.frames import to_gif, to_svg_frames
from tinysched.views.page import to_html
from tinysched.views.png import to_png
from tinysched.views.static import to_dot, to_networkx
from tinysched.views.svg import to_svg
from tinysched.views.text import summary

VIEWS.update(to_dot=to_dot, to_html=to_html, to_networkx=to_networkx, to_png=to_png, to_svg=to_svg, to_text=summary)
VIEWS.update(to_gif=to_gif, to_svg_frames=to_svg_frames)

__all__ = ["summary", "to_dot", "to_gif", "to_html", "to_networkx", "to_png", "to_svg", "to_svg_frames"]
