"""Which arguments of a call hold the same: the copies of a value that is whole on several devices.

In: callify's body. Out: of each such PARAM the first of them, so that whoever makes up inputs makes them alike.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.sharding import replicate, unshard
>>> a, b = (UOp.new_buffer(device, 4, dtypes.float32) for device in ("NUMPY", "NUMPY:1"))
>>> alike(UOp.sink(replicate((a, b)))) == {b: a}, alike(UOp.sink(unshard((a, b), 0)))
(True, {})
"""

from __future__ import annotations

from tinysched.ir.ops import Ops
from tinysched.ir.sharding import memories
from tinysched.ir.uop import UOp


def alike(body: UOp) -> dict[UOp, UOp]:
    """Of each PARAM that holds a copy of what another one holds, that one."""
    found: dict[UOp, UOp] = {}
    for reader in body.toposort():
        for u in reader.src if reader.op not in (Ops.UNSHARD, Ops.ALLREDUCE, Ops.MSELECT) else ():
            if u.op is Ops.MSTACK and all(p.base.op in (Ops.PARAM, Ops.BUFFER) for p in u.src):
                first, *others = memories(u)
                found |= dict.fromkeys(others, first)
    return found
