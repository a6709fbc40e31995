"""The one error of the lab: something was asked before the learner had a turn.

In: what is missing. Out: :class:`NotYet`, which a notebook shows as a sentence instead of a traceback.

>>> str(NotYet("nothing to check yet", help="write the function in the cell above"))
'nothing to check yet\\n  help: write the function in the cell above'
"""

from __future__ import annotations

from typing import Any

from tinysched.errors import TinyschedError


class NotYet(TinyschedError):
    """A blank that is still to be filled in."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: no frames, since nothing broke."""
        return str(self).splitlines()


def is_blank(value: Any) -> bool:
    """Whether a learner has not answered: blanks are written ``...`` (and a body of ``...`` returns None)."""
    return value is None or value is Ellipsis
