"""The recorders' promise: a change that alters what a query finds has a name that the query depends on."""

from __future__ import annotations

from typing import Any

import psycopg
from hypothesis import HealthCheck, Phase, assume, given, settings
from queries import queries
from worlds import Worlds, names_read

import thorp_web.psycopg
from thorp_web import recording

SETTINGS = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@SETTINGS
@given(query=queries())
def test_text(worlds: Worlds, query: tuple[str, list[Any]]) -> None:
    plain = psycopg.ClientCursor(worlds.connection)
    cursor = thorp_web.psycopg.recording_cursor(psycopg.ClientCursor)(worlds.connection)
    try:
        names = names_read(worlds.rules, lambda: cursor.execute(*query))
    except psycopg.Error:
        assume(False)
    with recording.unrecorded():
        assert not worlds.missed(plain.mogrify(*query), names), names
