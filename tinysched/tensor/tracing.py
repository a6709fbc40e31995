"""Functions: Python functions whose result is one node, ``FUNCTION``, so that their bodies are scheduled as a whole.

In: a Python function of Tensors. Out: a :class:`Function` that runs it once per call on the real (lazy) Tensors and then
lifts what it reads, arguments and captured Tensors alike, out of the graph that it made. Calls with Tensors of equal
shapes have the same body, whatever Tensors they are. A write to a Tensor from outside becomes one more value of the
function, which is then written where the body wrote it.

>>> from tinysched import Tensor
>>> w = Tensor([1.0, 2.0])
>>> @function
... def scaled(x: Tensor) -> Tensor:
...     return x * w
>>> y = scaled(Tensor([3.0, 4.0]))
>>> y.uop.op, len(y.uop.src[0].src), y.tolist()
(Ops.GETTUPLE, 2, [3.0, 8.0])
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, overload

from tinysched.dtypes import dtypes
from tinysched.errors import ArgumentError, DTypeError, TinyschedError
from tinysched.ir.function import FunctionArg, abstract, get_value, over
from tinysched.ir.lines import where
from tinysched.ir.observe import watching
from tinysched.ir.ops import Ops
from tinysched.ir.sharding import about_devices
from tinysched.ir.uop import UOp
from tinysched.settings import DEBUG
from tinysched.tensor import storage as st
from tinysched.tensor.core import Tensor
from tinysched.tensor.storage import NOTED, Storage, Write, covers_all, live_storages
from tinysched.tensor.variables import bindings, strip_bindings

P = ParamSpec("P")
R = TypeVar("R")


class Function(Generic[P, R]):
    """A Python function whose calls are FUNCTION nodes. See :func:`function`."""

    def __init__(self, fn: Callable[P, R], precompile: bool, allow_implicit: bool):
        self.fn, self.precompile, self.allow_implicit = fn, precompile, allow_implicit
        update_wrapper(self, fn)

    def __get__(self, obj: Any, owner: Any = None) -> Callable[..., R]:
        return self if obj is None else partial(self.__call__, obj)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        started = time.perf_counter()
        name = getattr(self.fn, "__qualname__", type(self.fn).__qualname__)
        with noting() as trace, watching(None):
            result = self.fn(*args, **kwargs)
        given = None if self.allow_implicit else list(tensors_in((args, kwargs)))
        called: R = trace.close(result, name, self.precompile, given)
        if DEBUG.value >= 2:
            print(f"function {name} in {(time.perf_counter() - started) * 1e3:8.2f} ms")
        return called


@overload
def function(fn: Callable[P, R], *, precompile: bool = ..., allow_implicit: bool = ...) -> Function[P, R]: ...
@overload
def function(
    fn: None = None, *, precompile: bool = ..., allow_implicit: bool = ...
) -> Callable[[Callable[P, R]], Function[P, R]]: ...
def function(
    fn: Callable[P, R] | None = None, *, precompile: bool = False, allow_implicit: bool = True
) -> Function[P, R] | Callable[[Callable[P, R]], Function[P, R]]:
    """Makes a function's calls nodes of the graph; it takes anything and returns Tensors (also in tuples, lists, dicts).

    Its body is inlined when it is scheduled; with ``precompile`` it is scheduled once, on its own, and each call runs the
    same kernels. ``allow_implicit=False`` raises :class:`ArgumentError` where the body reads Tensors that are no
    arguments. Nothing can be realized in a body. Source: upstream's ``function``.
    """
    if fn is None:
        return lambda fn: Function(fn, precompile, allow_implicit)
    return Function(fn, precompile, allow_implicit)


# ** what a body does **


class Trace:
    """What is known before a body runs, and the writes that it makes."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.known = dict.fromkeys(_tensors_from_outside())
        self.number = st.next_number()

    def is_outside(self, storage: Storage) -> bool:
        """Whether a Storage was there before the body ran."""
        return storage.number < self.number

    def close(self, result: Any, name: str, precompile: bool, given: list[Tensor] | None) -> Any:
        """The result with the values of one FUNCTION in place of what the body computed; its writes are made again.

        Where that is refused, nothing has been written.
        """
        try:
            return self._closed(result, name, precompile, given)
        except TinyschedError:
            self._undo_writes(self._states(), set())
            raise

    def _closed(self, result: Any, name: str, precompile: bool, given: list[Tensor] | None) -> Any:
        _replaced(result, {})  # what is returned must be Tensors, whether they were made here or not
        made = [t for t in dict.fromkeys(tensors_in(result)) if not self.is_outside(t.storage)]
        writes = self._lasting_writes()
        if not made and not writes:
            return result
        states = self._states()
        values = self._functional([*(t.uop for t in made), *(w.value for w in writes)], states)
        body, args = abstract(values, self._argument)
        if given is not None:
            written = {w.before.base for w in self.writes if any(w.storage is t.storage for t in given)}
            _check_captured(name, [u for u in args if u.base not in written], given)
        if about_devices((*args, *values), body):
            self._pass_on()  # what is spread over devices is inlined at once
            return result
        f = _called(body, args, name, precompile)
        self._undo_writes(states, {t.storage for t in made})
        for i, w in enumerate(writes, len(made)):
            w.storage.write(w.steps, get_value(f, i))
        return _replaced(result, {t: Tensor.from_uop(get_value(f, i)) for i, t in enumerate(made)})

    def _states(self) -> dict[UOp, bool]:
        """The states of memory that the writes made, and whether that is memory of a Tensor from outside."""
        made = (w for w in self.writes if w.after.base.op is Ops.AFTER and w.after.base is not w.before.base)
        return {w.after.base: self.is_outside(w.storage) for w in made}

    def _lasting_writes(self) -> list[Write]:
        """The writes to Tensors from outside, without those that a later one covers."""
        covered: set[Storage] = set()
        found: list[Write] = []
        for w in reversed(self.writes):
            if self.is_outside(w.storage) and w.storage not in covered:
                found.append(w)
                if covers_all(w.steps):
                    covered.add(w.storage)
        return found[::-1]

    def _argument(self, u: UOp) -> UOp | None:
        """Tensors from outside and memory are passed; everything else is computed by the body."""
        return u if u in self.known or u.op is Ops.BUFFER or u.op is Ops.AFTER else None

    def _functional(self, values: list[UOp], states: Collection[UOp]) -> list[UOp]:
        """The values with the body's own writes as expressions: nothing is written before the function is called."""
        if not states:
            return values
        body = UOp(Ops.TUPLE, dtypes.void, tuple(values))
        became: dict[UOp, UOp] = {}
        for u in body.toposort(gate=lambda u: u not in self.known):
            if u in self.known:
                became[u] = u
                continue
            src = tuple([became[s] for s in u.src])
            if u in states:
                became[u] = st.overwritten(src[0], st.steps_of(u.src[1].src[0]), src[1].src[1])
            else:
                became[u] = over(u, src)
        return list(became[body].src)

    def _undo_writes(self, states: dict[UOp, bool], closed: set[Storage]) -> None:
        """Tensors from outside are as they were before; what else the body left behind keeps the values it has."""
        for w in reversed(self.writes):
            if self.is_outside(w.storage):
                w.storage.set(w.before)
        outside = {u for u, is_outside in states.items() if is_outside}
        for s in live_storages() if outside else ():
            if not self.is_outside(s) and s not in closed:
                (value,) = self._functional([s.uop], outside)
                if value is not s.uop:
                    s.set(value)

    def _pass_on(self) -> None:
        """The writes stay as the body made them; a function around this one may have to undo them."""
        if (around := NOTED.get()) is not None:
            around.extend(self.writes)


@contextmanager
def noting() -> Iterator[Trace]:
    """A Trace of the writes within the block."""
    trace = Trace()
    token = NOTED.set(trace.writes)
    try:
        yield trace
    except BaseException:
        NOTED.reset(token)
        trace._pass_on()
        raise
    NOTED.reset(token)


def _tensors_from_outside() -> Iterator[UOp]:
    """The values of all Tensors that somebody holds. Constants are part of a body, unless they may have a gradient."""
    for s in live_storages():
        for u in (s.uop, *(t.uop for t in s.viewers or ())):
            if u.device is not None or u.base.tag is not None:
                yield u


def _check_captured(name: str, args: Iterable[UOp], given: Iterable[Tensor]) -> None:
    """Refuses arguments that were not given. Memory of a given Tensor is given."""
    bases = {u.base for t in given for u in (t.uop, t.storage.uop)}
    captured = [u for u in args if u.base not in bases and u.device is not None]
    if captured:
        raise ArgumentError(
            f"{name} reads {len(captured)} Tensors that are no arguments, and allow_implicit is False",
            where="; ".join(where(u) for u in captured),
            help="pass them as arguments, or say allow_implicit=True",
        )


def _called(body: UOp, args: list[UOp], name: str, precompile: bool) -> UOp:
    """The FUNCTION node. Bound Variables become arguments, and tags (which make nodes different) go."""
    bound = bindings(body.src)
    became: dict[UOp, UOp] = {}
    for u in strip_bindings(body, bound).toposort():
        new = over(u, tuple([became[s] for s in u.src]))
        became[u] = new if u.tag is None else new.rtag()
    arg = FunctionArg(became[u], name, precompile, tuple(bound.became.values()))
    return UOp(Ops.FUNCTION, dtypes.void, (*args, *bound.became), arg)


# ** results **


def tensors_in(x: Any) -> Iterator[Tensor]:
    """The Tensors in (nested) tuples, lists, dicts and objects with attributes, each where it is first met."""
    seen: set[int] = set()
    stack = [x]
    while stack:
        part = stack.pop()
        if isinstance(part, Tensor):
            yield part
        elif id(part) not in seen:
            seen.add(id(part))
            stack.extend(reversed(list(_parts(part))))


def _parts(x: Any) -> Iterable[Any]:
    if isinstance(x, Mapping):
        return x.values()
    if isinstance(x, (list, tuple, set)):
        return x
    return vars(x).values() if hasattr(x, "__dict__") and not isinstance(x, type) else ()


def _replaced(x: Any, became: Mapping[Tensor, Tensor]) -> Any:
    """The same structure with other Tensors. Raises :class:`DTypeError` for what is neither Tensor nor structure."""
    if x is None or isinstance(x, Tensor):
        return became.get(x, x) if x is not None else None
    if isinstance(x, Mapping):
        return {k: _replaced(v, became) for k, v in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(_replaced(v, became) for v in x))
    if isinstance(x, (list, tuple)):
        return type(x)(_replaced(v, became) for v in x)
    raise DTypeError(
        f"a function returned a {type(x).__name__}", help="return Tensors, or tuples, lists, dicts of them"
    )
