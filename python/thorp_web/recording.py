"""What one request has read, as names of dependencies.

A recording is found by a context variable, so tasks and threads that were given the request's context record for it. A
read that is in nobody's context, as in a thread of the application's own, may be anybody's: every response that is
being made then depends on everything. So does one that has recorded no read at all.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from thorp_web.map import EVERYTHING, NAME_BYTES_MAX, Map
from thorp_web.statements import NOTHING, Statement, statement

NAMES_MAX = 200
"""Names of one response. The proxy takes 256, with those that an application gives in fields of its own."""

NAMES_BYTES_MAX = 8 * 1024
"""Bytes of all of them: servers and proxies bound a response's head."""

log = logging.getLogger("thorp_web")


class Recording:
    """What one request has read so far. Its methods may be called from several threads."""

    def __init__(self, rules: Map) -> None:
        self._map = rules
        self._lock = threading.Lock()
        self._of_tables: dict[str, None] = {}
        self._of_rows: dict[str | None, dict[str, None]] = {}
        self._given: dict[str, None] = {}
        self._reads_everything = False
        self._has_spoken = False
        self._refused: str | None = None
        self._is_over = False

    def read(self, text: str, parameters: Sequence[object]) -> None:
        """A statement is executed, with its parameters as `$1`, `$2`."""
        self._read(statement(text), parameters)

    def read_everything(self, why: str) -> None:
        """Something is read, and nobody knows what."""
        with self._lock:
            self._everything(why)

    def refuse(self, why: str) -> None:
        """The response is not to be stored."""
        with self._lock:
            self._refused = self._refused or why

    def depend_on(self, names: Sequence[str]) -> None:
        """The application says what it has read; nothing, if there are no names."""
        with self._lock:
            self._has_spoken = True
            for name in names:
                if not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
                    raise ValueError(f"a dependency has 1 to {NAME_BYTES_MAX} bytes; got {name!r}")
                self._given[name] = None
                if len(self._given) > NAMES_MAX:
                    self._refused, self._given = "the application names too many dependencies", {}

    def end(self, is_sayable: Callable[[str], bool]) -> list[str] | None:
        """The names of all that was read, of which nothing is recorded any more; None if it must not be stored."""
        with self._lock:
            self._is_over = True
            if not self._has_spoken:
                self._everything("no read was recorded")
            names = self._names(is_sayable) if self._refused is None else None
            if names is None:
                log.debug("not stored: %s", self._refused)
            return names

    @property
    def is_over(self) -> bool:
        return self._is_over

    def _read(self, done: Statement, parameters: Sequence[object]) -> None:
        with self._lock:
            # The values that it shows may never be committed.
            if done.writes:
                self._refused = self._refused or "the request writes"
            if done.reads_everything:
                self._everything("a statement is not understood")
            for reading in done.readings:
                if self._reads_everything:
                    return
                found = self._map.names_of(reading, parameters)
                if found is None:
                    self._everything(f"reads of {reading.name} have no name")
                    return
                self._has_spoken = True
                self._of_tables.update(found.of_tables)
                for table, names in found.of_rows.items():
                    self._of_rows.setdefault(table, {}).update(names)
                    if len(self._of_rows[table]) > NAMES_MAX:
                        self._widen(table)

    def _everything(self, why: str) -> None:
        if not self._reads_everything:
            log.debug("depends on everything: %s", why)
        self._reads_everything = True
        self._has_spoken = True
        self._of_tables.clear()
        self._of_rows.clear()

    def _widen(self, table: str | None) -> None:
        """The name of a table in the place of those of its rows."""
        del self._of_rows[table]
        if table is None:
            self._everything("a table without a name of its own")
        else:
            self._of_tables[table] = None

    def _names(self, is_sayable: Callable[[str], bool]) -> list[str] | None:
        for table, rows in list(self._of_rows.items()):
            # Of a table that is named, its rows need no names.
            if table in self._of_tables:
                del self._of_rows[table]
            elif table in self._of_rows and not all(map(is_sayable, rows)):
                self._widen(table)
        while self._of_rows and not _fits(self._all_names()):
            self._widen(max(self._of_rows, key=lambda table: len(self._of_rows[table])))
        if not self._reads_everything and not self._can_be_said(is_sayable):
            self._everything("too many tables, or one whose name cannot be said")
        if self._reads_everything:
            everything = self._map.everything
            if everything is None:
                self._refused = "the map has no name for everything"
                return None
            self._of_tables = dict.fromkeys(everything)
            for rules in self._map.tables.values():
                self._of_tables.update(dict.fromkeys(rules.whole))
        if not self._can_be_said(is_sayable):
            self._refused = "too many names, or one that cannot be said"
            return None
        return self._all_names()

    def _can_be_said(self, is_sayable: Callable[[str], bool]) -> bool:
        names = self._all_names()
        return _fits(names) and all(map(is_sayable, names))

    def _all_names(self) -> list[str]:
        of_rows = (name for names in self._of_rows.values() for name in names)
        names = dict.fromkeys([*self._of_tables, *of_rows, *self._given])
        # Every response depends on it anyway; alone it says that nothing else is meant.
        if len(names) > 1:
            names.pop(EVERYTHING, None)
        return list(names)


def _fits(names: Sequence[str]) -> bool:
    return len(names) <= NAMES_MAX and sum(len(name.encode()) + 4 for name in names) <= NAMES_BYTES_MAX


class _Unrecorded:
    """In the place of a recording where none is wanted."""


_UNRECORDED: Final = _Unrecorded()
_current: contextvars.ContextVar[Recording | _Unrecorded | None] = contextvars.ContextVar("thorp_web", default=None)
_under_way: set[Recording] = set()
_lock = threading.Lock()


def begin(rules: Map) -> Recording:
    """A recording, which is under way until it ends."""
    recording = Recording(rules)
    with _lock:
        _under_way.add(recording)
    return recording


def end(recording: Recording, is_sayable: Callable[[str], bool]) -> list[str] | None:
    """Ends it, and gives the names of what was read; None if the response must not be stored."""
    names = recording.end(is_sayable)
    with _lock:
        _under_way.discard(recording)
    return names


@contextlib.contextmanager
def recording_to(recording: Recording | None) -> Iterator[None]:
    """Within, reads belong to that recording, or to no response if there is none."""
    token = _current.set(recording or _UNRECORDED)
    try:
        yield
    finally:
        _current.reset(token)


def unrecorded() -> contextlib.AbstractContextManager[None]:
    """Within, reads belong to no response: for jobs in threads of a server's process."""
    return recording_to(None)


def stop_here() -> None:
    """What is read from now on in this context belongs to no response."""
    _current.set(_UNRECORDED)


def depends_on(*names: str) -> None:
    """Says what the response depends on beside what is recorded. Without a name it says that this is nothing."""
    _tell(
        lambda recording: recording.depend_on(names),
        lambda recording: recording.refuse("dependencies that are named in no request's thread"),
    )


def read(text: str, parameters: Sequence[object]) -> None:
    """A statement is about to be executed, with its parameters as `$1`, `$2`."""
    if _current.get() is not _UNRECORDED and statement(text) != NOTHING:
        _tell(lambda recording: recording.read(text, parameters), _for_anybody)


def read_everything(why: str) -> None:
    """Something is about to be read, and nobody knows what."""
    _tell(lambda recording: recording.read_everything(why), _for_anybody)


def refuse(why: str) -> None:
    """Something is about to be read whose changes nobody hears of."""
    _tell(lambda recording: recording.refuse(why), lambda recording: recording.refuse(why))


def _tell(own: Callable[[Recording], None], anybody: Callable[[Recording], None]) -> None:
    """Tells the recording of this context; without one all that are under way."""
    current = _current.get()
    if isinstance(current, Recording) and not current.is_over:
        own(current)
    elif not isinstance(current, _Unrecorded):
        with _lock:
            under_way = list(_under_way)
        for recording in under_way:
            anybody(recording)


def _for_anybody(recording: Recording) -> None:
    recording.read_everything("a read that belongs to no request")
