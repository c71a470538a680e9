"""The tables that tests read, by all that declares them, and what a change of a row is called."""

from __future__ import annotations

import psycopg
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from thorp_web.map import Map

COLUMNS = ["items.category", "comments.item_id", "comments.author"]

# Columns of all that makes names doubtful: `price` has several texts for one value, `tag` is padded.
SCHEMA = """
CREATE TABLE items (id int PRIMARY KEY, category int, name text, price numeric, tag char(3));
CREATE TABLE comments (id bigint PRIMARY KEY, item_id int, author text, stars int);
CREATE TABLE pairs (a int, b varchar(10), about text, PRIMARY KEY (a, b));
CREATE VIEW cheap AS SELECT id, name FROM items WHERE price < 3;
INSERT INTO items VALUES (1, 1, 'a', 1, 'x'), (2, 1, 'b', 2.0, 'y'), (3, 2, NULL, 3, 'x'), (4, NULL, 'a', 4.50, NULL);
INSERT INTO comments VALUES (1, 1, 'a', 1), (2, 1, 'b', 2), (3, 2, 'a', 3), (4, NULL, NULL, 4), (5, 9, 'c', 1);
INSERT INTO pairs VALUES (1, 'a', 'x'), (1, 'b', 'y'), (2, 'a', NULL), (3, 'c', 'z');
"""

TABLES = {
    "items": ["id", "category", "name", "price", "tag"],
    "comments": ["id", "item_id", "author", "stars"],
    "pairs": ["a", "b", "about"],
}


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "items"
    id: Mapped[int] = mapped_column(primary_key=True)
    category: Mapped[int | None]
    name: Mapped[str | None] = mapped_column(sa.Text)
    price: Mapped[float | None] = mapped_column(sa.Numeric)
    tag: Mapped[str | None] = mapped_column(sa.CHAR(3))
    comments: Mapped[list[Comment]] = relationship(back_populates="item", order_by="Comment.id")


class Comment(Base):
    __tablename__ = "comments"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    item_id: Mapped[int | None] = mapped_column(sa.ForeignKey("items.id"))
    author: Mapped[str | None] = mapped_column(sa.Text)
    stars: Mapped[int | None]
    item: Mapped[Item | None] = relationship(back_populates="comments")


class Pair(Base):
    __tablename__ = "pairs"
    a: Mapped[int] = mapped_column(primary_key=True)
    b: Mapped[str] = mapped_column(sa.String(10), primary_key=True)
    about: Mapped[str | None] = mapped_column(sa.Text)


Row = tuple[str | None, ...]
Rows = dict[str, set[Row]]


def rows_of(connection: psycopg.Connection[Row]) -> Rows:
    """All rows, as texts: what the log has of them."""
    found = {}
    for table, columns in TABLES.items():
        texts = ", ".join(f"{column}::text" for column in columns)
        found[table] = set(connection.execute(f"SELECT {texts} FROM {table}").fetchall())
    return found


def names_of_change(rules: Map, before: Rows, after: Rows) -> set[str]:
    """The names by which `thorp watch` marks a change: for each row, with its old values and with its new ones."""
    names = set()
    for table, columns in TABLES.items():
        for row in before[table] ^ after[table]:
            values = dict(zip(columns, ("null" if text is None else text for text in row), strict=True))
            for template in rules.tables[f"public.{table}"].rows:
                names.add(template.fill([values[column] for column in template.columns]))
    return names


def changes() -> list[str]:
    """Changes of one row each: every row leaves, every column takes values that others have, and rows come."""
    found = []
    for table, columns in TABLES.items():
        keys = {
            "items": ["id = 1", "id = 3", "id = 4"],
            "comments": ["id = 1", "id = 4"],
            "pairs": ["b = 'b'", "a = 2"],
        }
        for key in keys[table]:
            found.append(f"DELETE FROM {table} WHERE {key}")
            for column in columns:
                text = column in ("name", "tag", "author", "b", "about")
                others = ["'a'", "'x'"] if text else ["0", "2", "4.5" if column == "price" else "5"]
                found += [f"UPDATE {table} SET {column} = {value} WHERE {key}" for value in others]
    found += [f"INSERT INTO items VALUES ({key}, {category}, 'a', 2, 'x')" for key, category in ((0, 2), (5, "NULL"))]
    found += [f"INSERT INTO comments VALUES ({key}, {item}, 'b', 2)" for key, item in ((0, 1), (9, 4), (7, "NULL"))]
    return [*found, "INSERT INTO pairs VALUES (2, 'b', 'x')", "INSERT INTO pairs VALUES (0, 'x', 'a')"]
