"""How a program reads memory: views, padded copies, rows by number.

In: the :class:`Writer` of a program and a LOAD. Out: the statements that make its value.

>>> from tinysched.dtypes import dtypes
>>> from tinysched.ir.ops import Ops
>>> from tinysched.ir.uop import ParamArg
>>> from tinysched.runtime.nest import load
>>> from tinysched.runtime.writer import Writer
>>> out, x = (UOp(Ops.PARAM, dtypes.int8, (), ParamArg(i, n, "NUMPY")) for i, n in ((0, 6), (1, 4)))
>>> r0 = UOp.range(6, 0)
>>> padded = load(x.index((r0 - 1).valid((r0 > 0) & (r0 < 5))))
>>> print(Writer(UOp.sink(out.index(r0).store(padded).end(r0))).program().text())
def kernel(p0, p1):
    out0 = p0.reshape(6,)
    z0 = np.zeros((6,), np.int8)
    z0[1:5] = view(p1, 0, (4,), (1,))
    x0 = z0.reshape(6,)  # r0 - 1 if r0 >= 1 & r0 < 5
    out0[...] = x0
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tinysched.ir.text import expr
from tinysched.ir.uop import UOp
from tinysched.runtime.axes import Axis, Linear
from tinysched.runtime.blocks import is_across
from tinysched.runtime.forms import Gather, Padded, View
from tinysched.runtime.program import Kind, Operand, constant, cut_text, np_name

if TYPE_CHECKING:
    from tinysched.runtime.writer import Writer


def load(w: Writer, u: UOp) -> None:
    """Adds the statements of a LOAD."""
    access, memory = w.a.accesses[u], u.src[0].src[0]
    name, comment = f"p{memory.arg.slot}", expr(u.src[0].src[1])
    if isinstance(access, View) and is_across(w.a, u) and w.level[u]:
        text = w.view(name, access.offset, w.spans[u], access.strides, memory.arg.size)
        w.add(("memory", u), text, prefix="x", comment=comment)
        w.compute(u, "turned({})", [Operand(("memory", u), w.cut(w.spans[u], {}, 0, w.level[u]))])
    elif isinstance(access, View):
        text = w.view(name, access.offset, w.spans[u], access.strides, memory.arg.size)
        w.add(u, text, prefix="x", comment=comment)
        w.strides[u] = access.strides
    elif isinstance(access, Padded):
        _padded(w, u, access, name, comment)
    else:
        _gather(w, u, access, name, comment)


def _padded(w: Writer, u: UOp, access: Padded, name: str, comment: str) -> None:
    """Zeros, what is there copied into them, and a view of that."""
    shape, coordinates = access.shape, access.coordinates
    w.add(("padded", u), f"np.zeros({shape}, {np_name(u.dtype)})", kind=Kind.FRESH, prefix="z")
    copy = Operand(("padded", u))
    if all(c.valid[0] < c.valid[1] for c in coordinates):
        offset = access.source.offset + sum(c.stride * c.valid[0] for c in coordinates)
        sizes, strides = tuple(c.valid[1] - c.valid[0] for c in coordinates), tuple(c.stride for c in coordinates)
        whole = [c.valid == (c.low, c.high) for c in coordinates]
        cuts = [":" if a else f"{c.valid[0] - c.low}:{c.valid[1] - c.low}" for a, c in zip(whole, coordinates)]
        there = f"view({name}, {offset}, {sizes}, {strides})"
        w.add(None, f"{{}}{cut_text(cuts) or '[...]'} = {there}", [copy], Kind.WRITE, nodes=(u,))
    start, steps = access.view()
    w.strides[u] = steps
    w.add(u, w.view("{}", start, w.spans[u], steps, prod(shape)), [copy], prefix="x", comment=comment)


def _gather(w: Writer, u: UOp, access: Gather, name: str, comment: str) -> None:
    """Rows by number, and zeros where the mask says so."""
    level = w.level[u]
    along = sorted(access.source.strides, key=lambda a: a.at)
    rows, axes = row_numbers(w, u, access.rows)
    if access.mask is None:
        w.add(("rows", u), f"within({{}}, {access.count})", [rows], Kind.FRESH, level=level, prefix="k")
        rows = Operand(("rows", u))
    # take() wants the rows along their own axes only; then the view's axes follow; then each goes to its place
    own = ", ".join(":" if any(a.at == i for a in axes) else "0" for i in range(w.ndim))
    order = [*axes, *along]
    places = sorted(range(len(order)), key=lambda i: order[i].at)
    turn = f".transpose{tuple(places)}" if places != sorted(places) else ""
    put = ", ".join(":" if any(a.at == i for a in order) else "None" for i in range(w.ndim))
    taken = f'{{}}.take({{}}[{own}], axis=0, mode="clip"){turn}[{put}]'
    args: list[Operand | str] = [_source(w, u, access, name, along), rows]
    if not turn and "None" not in put:
        mask = [w.operand(access.mask, w.spans[u], level)] if access.mask is not None else []
        holes = ", {}" * len(mask)
        w.compute(u, f"gather({{}}, {{}}[{own}]{holes})", [*args, *mask], Kind.CALL, comment=comment)
        return
    if access.mask is not None:
        args.insert(0, w.operand(access.mask, w.spans[u], level))
        taken = f"np.where({{}}, {taken}, {constant(u.const_like(u.dtype.np.type(0).item()))})"
    w.compute(u, taken, args, comment=comment)


def _source(w: Writer, u: UOp, access: Gather, name: str, along: list[Axis]) -> Operand | str:
    """The memory that a gather reads as rows."""
    strides = access.source.strides
    if not along and access.step == 1 and access.source.offset == 0:
        return name
    here = {a: w.spans[u][a] for a in along}
    offset = access.source.offset + sum(low * strides[a] for a, (low, _) in here.items())
    sizes = (access.count, *(high - low for low, high in here.values()))
    steps = (access.step, *(strides[a] for a in along))
    w.add(("source", u), f"view({name}, {offset}, {sizes}, {steps})", prefix="x")
    blocks = {b.axis: b.cut for b in w.blocks[: w.level[u]]}
    return Operand(("source", u), cut_text([":", *(blocks.get(a, ":") for a in along)]))


def row_numbers(w: Writer, u: UOp, rows: Linear) -> tuple[Operand, list[Axis]]:
    """An index form as an array of numbers for ``u``, and its axes."""
    want, level = w.spans[u], w.level[u]
    terms: list[str] = []
    args: list[Operand | str] = []
    for other, c in rows.others:
        args.append(w.operand(other, want, level))
        terms.append("{}" if c == 1 else f"{{}}*{c}")
    for axis, c in rows.coefs.items():
        args.append(Operand(_arange(w, axis), w.cut({axis: (0, axis.size)}, want, 0, level)))
        terms.append("{}" if c == 1 else f"{{}}*{c}")
    if rows.const or not terms:
        terms.append(str(rows.const))
    text = " + ".join(terms) if args else f"np.full({(1,) * w.ndim}, {rows.const})"
    w.add(("index", u), text, args, Kind.FRESH, level=level, prefix="k")
    axes = set(rows.coefs).union(*(w.a.axes_of.get(other, ()) for other, _ in rows.others))
    return Operand(("index", u)), sorted(axes, key=lambda a: a.at)


def _arange(w: Writer, axis: Axis) -> Any:
    """The positions along an axis as an array."""
    key = ("axis", axis)
    if not any(s.key == key for s in w.statements):
        w.add(key, f"np.arange({axis.size}).reshape{w.shape({axis: (0, axis.size)})}", prefix="i")
    return key
