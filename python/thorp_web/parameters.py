"""Statements with their parameters as `$1`, `$2`, from the ways in which drivers write them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

_PLACEHOLDER = re.compile(r"%(?:%|[sbt]|\((?P<name>[^)]*)\)[sbt]|)")


def from_percent(text: str, parameters: object) -> tuple[str, Sequence[object]] | None:
    """From `%s` and `%(name)s`, as psycopg has them; None if the two do not fit each other."""
    if parameters is None:
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


@functools.lru_cache(maxsize=1024)
def _numbered(text: str) -> tuple[str, list[str | int]] | None:
    """The statement with numbers, and the name or the place of each parameter."""
    names: list[str | int] = []
    is_wrong = False

    def number(found: re.Match[str]) -> str:
        nonlocal is_wrong
        if found[0] == "%%":
            return "%"
        is_wrong |= found[0] == "%"
        name = found["name"]
        if name is None:
            names.append(len(names))
        elif name in names:
            return f"${names.index(name) + 1}"
        else:
            names.append(name)
        return f"${len(names)}"

    numbered = _PLACEHOLDER.sub(number, text)
    is_mixed = len({type(name) for name in names}) > 1
    return None if is_wrong or is_mixed else (numbered, names)
