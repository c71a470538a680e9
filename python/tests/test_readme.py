"""The README's examples run, and name what they read."""

from __future__ import annotations

import asyncio
import re
import tomllib
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import django.test
import pytest
from postgres import Postgres
from shop import Base

import thorp_web.sqlalchemy

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = re.findall(r"## ([^\n]*)\n```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.fixture(autouse=True)
def _map(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "map.toml").write_text(thorp_web.sqlalchemy.map_of(Base.metadata).toml())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE", postgres.url.replace("postgresql:", "postgresql+psycopg:"))


def example(title: str) -> Any:
    """The application of an example."""
    found: dict[str, Any] = {}
    exec(dict(EXAMPLES)[title], found)
    return found.get("app") or found["application"]


def by_wsgi(app: Any, path: str) -> dict[str, str]:
    environ: dict[str, Any] = {"PATH_INFO": path}
    setup_testing_defaults(environ)
    found: dict[str, str] = {}
    list(app(environ, lambda _status, fields, _info=None: found.update(fields)))
    return found


def test_flask() -> None:
    assert by_wsgi(example("Flask and SQLAlchemy"), "/items/1")["Cache-Groups"] == '"items:1"'


def test_fastapi() -> None:
    app = example("FastAPI, Starlette and SQLAlchemy")
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    path = {"path": "/items/1", "raw_path": b"/items/1", "query_string": b"", "headers": []}
    asyncio.run(app({"type": "http", "method": "GET", **path}, receive, send))
    # The first connection of an engine asks the server who it is, and that is not understood.
    assert dict(sent[0]["headers"])[b"cache-groups"] in (b'"any"', b'"items:1"')


def test_django(models: Any) -> None:
    app = example("Django")
    with django.test.override_settings(ROOT_URLCONF="django_shop.urls", ALLOWED_HOSTS=["*"]):
        by_wsgi(app, "/items/1")
        assert by_wsgi(app, "/items/1")["Cache-Groups"] == '"items:1"'


def test_what_it_says_to_install_can_be_installed() -> None:
    folder = README.parent
    named = re.findall(r"`(?:pip install '\./python)?\[(\w+)\](?:')?`", README.read_text())
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert sorted(named) == sorted(project["optional-dependencies"])
    assert folder.name == "python" and "pip install thorp-web" not in README.read_text(), "it is in no registry"
