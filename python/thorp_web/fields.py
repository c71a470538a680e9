"""The fields of a response that a cache reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from thorp_web.map import NAME_BYTES_MAX

CACHE_GROUPS = "Cache-Groups"

# Fields that are older than RFC 9875, and what separates the names in them.
_SEPARATORS = {"surrogate-key": " ", "xkey": " ", "cache-tag": ",", "edge-cache-tag": ","}

NOT_STORED = ("Thorp-Cache-Control", "no-store")
"""Says to Thorp's proxy, and to no other cache, that a response is not to be stored."""

BODY_BYTES_MAX = 1024 * 1024
"""Of a body that is made piece by piece so much is collected, until all is known that it reads."""


class Field:
    """A field that names dependencies."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._separator = _SEPARATORS.get(name.lower())

    def is_sayable(self, name: str) -> bool:
        """Whether it can have such a name. A string of structured fields is of printable ASCII (RFC 9651)."""
        if not name.isascii() or not name.isprintable() or len(name) > NAME_BYTES_MAX:
            return False
        return self._separator is None or not set(name) & set(" ,")

    def line(self, names: Iterable[str]) -> str:
        """Its value."""
        if self._separator is not None:
            return self._separator.join(names)
        return ", ".join('"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' for name in names)


def answer(fields: list[tuple[str, str]], field: Field, names: Sequence[str] | None) -> list[tuple[str, str]]:
    """A response's fields with the names of its dependencies; None says that it must not be stored."""
    if names is None:
        return [(name, value) for name, value in fields if name.lower() != NOT_STORED[0].lower()] + [NOT_STORED]
    return [*fields, (field.name, field.line(names))] if names else fields


def is_worth_waiting(fields: Iterable[tuple[str, str]]) -> bool:
    """Whether a body that is made piece by piece is collected: if caches may have it."""
    values = {name.lower(): value.lower() for name, value in fields}
    control = values.get("cache-control", "")
    if is_read_along(fields) or "no-store" in control or "private" in control:
        return False
    others = ("thorp-cache-control", "cdn-cache-control", "surrogate-control", "expires", "content-length")
    return any(word in control for word in ("max-age", "s-maxage", "public")) or any(name in values for name in others)


def is_read_along(fields: Iterable[tuple[str, str]]) -> bool:
    """Whether a client wants each piece at once."""
    return any(name.lower() == "content-type" and value.startswith("text/event-stream") for name, value in fields)
