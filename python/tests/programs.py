"""`thorp` as it was built last, beside an application and its database."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest


def thorp() -> str:
    """The program. `THORP` says where it is."""
    path = os.environ.get("THORP", "")
    if not Path(path).is_file():
        assert "CI" not in os.environ, "THORP does not say where the program is"
        pytest.skip("THORP does not say where the program is")
    return path


class Program:
    """A process of it that runs until this one ends."""

    def __init__(self, *arguments: str | Path) -> None:
        command = [thorp(), *map(str, arguments), "--json", "--until-stdin-closes"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self) -> dict[str, Any]:
        """The next line that it prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the program has ended"
        found: dict[str, Any] = json.loads(line)
        return found

    def drain(self) -> None:
        """Nobody reads on: what it says later has to have room all the same."""
        assert self._process.stdout is not None
        threading.Thread(target=self._process.stdout.read, daemon=True).start()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def run(*arguments: str | Path) -> None:
    """Runs a command that ends."""
    subprocess.run([thorp(), *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def watcher(database: str, rules: Path) -> tuple[Program, str]:
    """A watcher that watches, and where its hub listens."""
    run("watch", database, "--map", rules, "--setup")
    program = Program("watch", database, "--map", rules, "--listen", "127.0.0.1:0")
    address = program.line()["listen"]
    while program.line().get("state") != "watching":
        pass
    program.drain()
    return program, address


def proxy(origin: str, hub: str) -> tuple[Program, str]:
    """A proxy, and where it listens."""
    addresses = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    program = Program("proxy", *addresses, "--origin", origin, "--hub", hub)
    address = program.line()["listen"]
    program.drain()
    return program, address
