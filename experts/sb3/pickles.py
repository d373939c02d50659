"""Reads pickles as data: a stack machine over `pickletools.genops` that can't call anything.

An ordinary unpickler imports names and calls them, so a model file can run code when it is loaded. Here a global stays
a name (`Global`), and every call, object or `__setstate__` becomes a `Record` of what would have been called.
`pickled_values` makes arrays, numbers and spaces of such records.

The cost of a pickle is bounded: the number of opcodes, the nesting, and the types and sizes of dictionary keys (hashing
deeply nested tuples can crash the interpreter or take forever, and long tuples and numbers are hashed anew each time).
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from imitate.errors import InputError, one_line

__all__ = ["Global", "Persistent", "Record", "read_pickle"]

_MOST_OPCODES = 50_000  # pickles of agents have a few hundred
_DEEPEST = 64
_LONGEST_KEY = 16  # parts of a tuple


@dataclass(frozen=True)
class Global:
    """A name that an unpickler would have imported."""

    module: str
    name: str


_RECONSTRUCTORS = (Global("copyreg", "_reconstructor"), Global("copy_reg", "_reconstructor"))
"""Functions that protocols 0 and 1 call to make an object of the class that is their first argument."""


@dataclass(eq=False)
class Record:
    """An object that was not built: the function, its arguments, and the state that it would get."""

    function: Any
    args: tuple[Any, ...]
    state: Any = None
    items: dict[Any, Any] = field(default_factory=dict)  # of dict subclasses such as OrderedDict

    @property
    def class_name(self) -> str:
        """The class's bare name, such as `Box` for `gym.spaces.box.Box`; empty if it is not a plain class."""
        function = self.function
        if function in _RECONSTRUCTORS:
            function = self.args[0] if self.args else None
        return function.name if isinstance(function, Global) else ""


@dataclass(eq=False)
class Persistent:
    """A reference to something stored outside the pickle; torch's tensors refer to their bytes in this way."""

    id: Any


_MARK = object()
_PUSH_ARGUMENT = {
    "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
    "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
_PUSH_FRESH: dict[str, Any] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set, "EMPTY_TUPLE": tuple}
_PUSH_CONSTANT = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLE_SIZE = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read_pickle(data: bytes | BinaryIO) -> Any:
    """The pickle's content as numbers, strings, bytes, containers, `Global`, `Record` and `Persistent`.

    Nothing is executed. A stream is left positioned after the pickle.

    Raises InputError if the data is not a pickle, uses opcodes that model files don't need, or is too large or too
    deeply nested.
    """
    try:
        content = _interpret(io.BytesIO(data) if isinstance(data, bytes) else data)
    except InputError:
        raise
    except Exception as error:  # a malformed stream can fail in any stack operation
        raise InputError(f"not a readable pickle: {type(error).__name__}: {one_line(error)[:160]}") from error
    _check_nesting(content)
    return content


def _interpret(stream: BinaryIO) -> Any:
    machine = _Machine()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        if count == _MOST_OPCODES:
            raise InputError(f"the pickle has more than {_MOST_OPCODES} opcodes: no agent's has so many")
        name = opcode.name
        if name == "STOP":
            return machine.stack.pop()
        known = machine.push(name, argument) or machine.replace(name) or machine.fill(name)
        if not known and name not in ("PROTO", "FRAME"):  # INST, OBJ, EXT*, PERSID, out-of-band buffers
            raise InputError(f"pickle opcode {name} is not read as data")
    raise InputError("the pickle ends too soon: the file is truncated")


class _Machine:
    """The stack and memo of a pickle. Each method carries out an opcode, or returns False if it does not know it."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def push(self, name: str, argument: Any) -> bool:
        """Opcodes that push a value, pop one or use the memo."""
        stack, memo = self.stack, self._memo
        if name in _PUSH_ARGUMENT:
            stack.append(argument)
        elif name in _PUSH_CONSTANT:
            stack.append(_PUSH_CONSTANT[name])
        elif name in _PUSH_FRESH:
            stack.append(_PUSH_FRESH[name]())
        elif name == "GLOBAL":
            stack.append(Global(*argument.split(" ", 1)))
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "DUP":
            stack.append(stack[-1])
        elif name == "POP":
            stack.pop()
        elif name == "POP_MARK":
            self._since_mark()
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        else:
            return False
        return True

    def replace(self, name: str) -> bool:
        """Opcodes that replace values on the stack by one value made of them."""
        stack = self.stack
        if name in _TUPLE_SIZE:
            stack[-_TUPLE_SIZE[name] :] = [tuple(stack[-_TUPLE_SIZE[name] :])]
        elif name in _GATHER:
            stack.append(_GATHER[name](self._since_mark()))
        elif name == "STACK_GLOBAL":
            module, attribute = stack[-2:]
            if not (isinstance(module, str) and isinstance(attribute, str)):
                raise InputError("the pickle names a global by something else than text")
            stack[-2:] = [Global(module, attribute)]
        elif name in ("REDUCE", "NEWOBJ"):
            stack[-2:] = [_record(*stack[-2:])]
        elif name == "NEWOBJ_EX":
            cls, args, kwargs = stack[-3:]
            stack[-3:] = [_record(cls, args, kwargs)]
        elif name == "BINPERSID":
            stack[-1] = Persistent(stack[-1])
        else:
            return False
        return True

    def fill(self, name: str) -> bool:
        """Opcodes that put values into the container or object below them."""
        stack = self.stack
        if name == "BUILD":
            state = stack.pop()
            if isinstance(stack[-1], Record):
                stack[-1].state = state
        elif name in ("APPEND", "APPENDS", "ADDITEMS"):
            values = [stack.pop()] if name == "APPEND" else self._since_mark()
            if isinstance(stack[-1], list):
                stack[-1].extend(values)
            elif isinstance(stack[-1], set):
                stack[-1].update(map(_hashable, values))
        elif name in ("SETITEM", "SETITEMS"):
            values = [stack.pop(-2), stack.pop()] if name == "SETITEM" else self._since_mark()
            target = stack[-1].items if isinstance(stack[-1], Record) else stack[-1]
            target.update(_pairs(values))
        else:
            return False
        return True

    def _since_mark(self) -> list[Any]:
        stack = self.stack
        start = len(stack) - 1 - next(n for n, value in enumerate(reversed(stack)) if value is _MARK)
        values = stack[start + 1 :]
        del stack[start:]
        return values


def _record(function: Any, args: Any, state: Any = None) -> Record:
    if not isinstance(args, tuple):
        raise InputError(f"the pickle calls something with a {type(args).__name__} for its arguments")
    return Record(function, args, state)


def _pairs(values: list[Any]) -> dict[Any, Any]:
    return dict(zip(map(_hashable, values[::2]), values[1::2], strict=True))


def _hashable(key: Any) -> Any:
    """Return a key or set member unchanged if hashing it is cheap; otherwise raise InputError."""
    parts = key if isinstance(key, tuple) and len(key) <= _LONGEST_KEY else (key,)
    if all(map(_is_plain, parts)):
        return key
    raise InputError(
        f"the pickle uses a {type(key).__name__} as a key: wanted a text, a number of at most 64 bits, or a few of them"
    )


def _is_plain(key: Any) -> bool:
    if isinstance(key, int):
        return key.bit_length() <= 64
    return isinstance(key, str | bytes | float | Global) or key is None


_GATHER: dict[str, Callable[[list[Any]], Any]] = {
    "TUPLE": tuple,
    "LIST": list,
    "FROZENSET": lambda values: frozenset(map(_hashable, values)),
    "DICT": _pairs,
}


def _check_nesting(content: Any) -> None:
    level, seen = [content], set[int]()
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for value in level:
            if id(value) not in seen:
                seen.add(id(value))
                below += _children(value)
        level = below
    if level:
        raise InputError(f"the pickle is nested more than {_DEEPEST} deep: no agent's is")


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, Record):
        return value.function, value.args, value.state, value.items
    if isinstance(value, Persistent):
        return (value.id,)
    return value if isinstance(value, list | tuple | set | frozenset) else ()
