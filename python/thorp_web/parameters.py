"""Statements with their parameters as `$1`, `$2`, from the ways in which drivers write them."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from thorp_web.statements import STATEMENT_CHARS_MAX, STATEMENTS_CACHED

T = TypeVar("T")

_PLACEHOLDER = re.compile(r"%(?:%|[sbt]|\((?P<name>[^)]*)\)[sbt]|)")


def from_percent(text: str, parameters: object) -> tuple[str, Sequence[object]] | None:
    """From `%s` and `%(name)s`, as psycopg has them; None if the two do not fit each other."""
    # A long one is not looked into.
    if parameters is None or len(text) > STATEMENT_CHARS_MAX:
        return text, ()
    found = _numbered(text)
    if found is None:
        return None
    numbered, names = found
    if isinstance(parameters, Mapping):
        is_fitting = all(name in parameters for name in names)
        return (numbered, [parameters[name] for name in names]) if is_fitting else None
    if isinstance(parameters, Sequence) and not isinstance(parameters, str):
        return (numbered, parameters) if names == list(range(len(parameters))) else None
    return None


@functools.lru_cache(maxsize=STATEMENTS_CACHED)
def _numbered(text: str) -> tuple[str, list[str | int]] | None:
    """The statement with numbers, and the name or the place of each parameter."""
    names: dict[str | int, int] = {}
    is_wrong = False

    def number(found: re.Match[str]) -> str:
        nonlocal is_wrong
        if found[0] == "%%":
            return "%"
        is_wrong |= found[0] == "%"
        name = len(names) if found["name"] is None else found["name"]
        return f"${names.setdefault(name, len(names) + 1)}"

    numbered = _PLACEHOLDER.sub(number, text)
    is_mixed = len({type(name) for name in names}) > 1
    return None if is_wrong or is_mixed else (numbered, list(names))


def many_from_percent(text: str, given: Iterable[T]) -> tuple[str | None, Iterable[T]]:
    """From a statement that is executed with many parameters: they stand for all values, and are given back."""
    rest = iter(given)
    first = list(itertools.islice(rest, 1))
    found = from_percent(text, first[0]) if first else (text, ())
    return found[0] if found else None, itertools.chain(first, rest)
