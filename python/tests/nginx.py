"""nginx by the example's configuration, which keeps the responses of an application and asks `thorp verify`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from postgres import free_port

NGINX = Path("/usr/sbin/nginx")
EXAMPLE = Path(__file__).parent.parent.parent / "examples/nginx/thorp.conf"


class Nginx:
    """A server that runs."""

    def __init__(self, folder: Path, origin: str, helper: Path) -> None:
        if not NGINX.is_file():
            assert "CI" not in os.environ, "nginx is not installed"
            pytest.skip("nginx is not installed")
        self.address = f"127.0.0.1:{free_port()}"
        site = EXAMPLE.read_text()
        for in_example, here in {
            "/var/cache/nginx/thorp": f"{folder}/cache",
            "/run/thorp/verify": str(helper),
            "127.0.0.1:8000": origin.removeprefix("http://"),
            "listen 8080": f"listen {self.address}",
        }.items():
            assert in_example in site
            site = site.replace(in_example, here)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        places = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        # The workers of one that root starts would have another user, who does not reach the socket.
        user = "user root;" if os.getuid() == 0 else ""
        whole = folder / "nginx.conf"
        whole.write_text(
            f"daemon off; worker_processes 2; {user} pid {folder}/pid; error_log {folder}/log; events {{}}\n"
            f"http {{ access_log off; {places}\n{site}\n}}\n"
        )
        self._process = subprocess.Popen([NGINX, "-e", f"{folder}/log", "-p", folder, "-c", whole])

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
