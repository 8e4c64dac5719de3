"""optuna-dashboard over a study that is being worked on, without any way to disturb it.

Three things keep it from locking or changing a study: requests other than reading are refused before they reach the
dashboard, the storage refuses to write, and a SQLite file is opened in a mode that takes no lock on it.
"""

from __future__ import annotations

import socketserver
import wsgiref.simple_server
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tune.errors import MissingPackage, UsageError
from tune.storage import open_storage

WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
PORT = 8080


def application(url: str | Path, artifacts: Path | None = None) -> WSGI:
    """The dashboard as a WSGI application. `artifacts` is the folder of a study's artifacts.

    Raises UsageError when there is no such storage, StorageUnreachable, MissingPackage.
    """
    try:
        import optuna_dashboard
    except ModuleNotFoundError as error:
        raise MissingPackage(f"package '{error.name}' is missing; install edgepress[tune]") from error
    storage = open_storage(url, read_only=True)
    store = None
    if artifacts is not None and artifacts.is_dir():
        from optuna.artifacts import FileSystemArtifactStore

        store = FileSystemArtifactStore(str(artifacts))
    return reading_only(optuna_dashboard.wsgi(storage, artifact_store=store))


def reading_only(inner: WSGI) -> WSGI:
    """Refuses every request that is not GET or HEAD."""

    def outer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            body = b'{"reason": "this dashboard only shows a study; it cannot change one"}'
            start("403 Forbidden", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
            return [body]
        return inner(environ, start)

    return outer


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """One thread a request: a slow page holds up no other."""

    daemon_threads = True


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def make_server(url: str | Path, host: str, port: int, artifacts: Path | None = None) -> Any:
    """A server that is ready for `serve_forever`; port 0 takes a free one (`server_port`). Raises UsageError."""
    app = application(url, artifacts)
    try:
        return wsgiref.simple_server.make_server(host, port, app, server_class=_Server, handler_class=_Quiet)
    except OSError as error:
        raise UsageError([f"--port: {host}:{port} cannot be used: {error.strerror or error}"]) from error
