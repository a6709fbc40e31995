"""The table of the Tensor API: importing it fills :data:`LINES`."""

from tests.tensor_tables import elementwise, moves, networks, reductions
from tests.tensor_tables.table import LINES, Line

__all__ = ["LINES", "Line", "elementwise", "moves", "networks", "reductions"]
