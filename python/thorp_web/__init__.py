"""Records what a web response has read from PostgreSQL, and names it for Thorp's proxy."""

from thorp_web.asgi import ASGIMiddleware
from thorp_web.map import Map, MapError
from thorp_web.recording import depends_on, unrecorded
from thorp_web.wsgi import WSGIMiddleware

__all__ = ["ASGIMiddleware", "Map", "MapError", "WSGIMiddleware", "depends_on", "unrecorded"]
