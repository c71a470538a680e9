"""A PostgreSQL server of the tests' own: in a temporary folder, not as root, whom it refuses."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

# The user of that number has no rights anywhere.
NOBODY = 65534

PATIENCE_S = 60


def programs() -> Path | None:
    """The folder of the newest installed server's programs."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = map(Path, os.get_exec_path())
    return next((folder for folder in [*packaged, *on_path] if (folder / "initdb").is_file()), None)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Postgres:
    """A server that runs."""

    def __init__(self) -> None:
        folder = programs()
        if folder is None:
            assert "CI" not in os.environ, "PostgreSQL is not installed"
            pytest.skip("PostgreSQL is not installed")
        self.folder = Path(tempfile.mkdtemp(prefix="thorp-web-pg-"))
        self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        if self._as:
            os.chown(self.folder, NOBODY, NOBODY)
        data = self.folder / "data"
        options = "--no-sync -A trust -U postgres -E UTF8 --locale=C -D".split()
        initdb = [folder / "initdb", *options, data]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd="/", **self._as)
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        # Plans of small tables without statistics look so dear that each would be compiled.
        settings = ["jit=off", "wal_level=logical", "fsync=off", f"unix_socket_directories={self.folder}"]
        command = [str(folder / "postgres"), "-D", str(data), "-p", str(self.port)]
        command += [word for setting in settings for word in ("-c", setting)]
        with open(self.folder / "log", "w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self._as)
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < until, (self.folder / "log").read_text()
                time.sleep(0.02)

    def stop(self) -> None:
        """Ends it at once, and leaves nothing."""
        self._process.send_signal(3)
        self._process.wait()
        shutil.rmtree(self.folder)
