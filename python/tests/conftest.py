"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import django
import django.conf
import django.db
import psycopg
import pytest
from postgres import Postgres
from shop import COLUMNS, SCHEMA
from worlds import Worlds

import thorp_web.psycopg


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server with the shop's tables."""
    server = Postgres()
    try:
        with psycopg.connect(server.url) as connection:
            connection.execute(SCHEMA)
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def worlds(postgres: Postgres) -> Iterator[Worlds]:
    """The shop in many versions."""
    with psycopg.connect(postgres.url) as connection:
        rules = thorp_web.psycopg.map_of(connection, COLUMNS)
    found = Worlds(postgres.url, rules)
    yield found
    found.connection.close()


@pytest.fixture(scope="session")
def models(postgres: Postgres) -> Iterator[Any]:
    database = {
        "ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres",
        "HOST": "127.0.0.1", "PORT": postgres.port,
    }  # fmt: skip
    other = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    django.conf.settings.configure(DATABASES={"default": database, "other": other}, INSTALLED_APPS=["django_shop"])
    django.setup()
    from django_shop import models

    import thorp_web.django

    thorp_web.django.record()
    yield models
    django.db.connections.close_all()
