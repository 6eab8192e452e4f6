"""A hub on loopback: as much of the Hugging Face hub's HTTP interface as a download needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OWNER_NAME = "tester/tiny"


def _handler(directory: Path) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            known = (f"/api/models/{OWNER_NAME}", f"/{OWNER_NAME}/resolve/")
            if not path.startswith(known):
                return self._refuse("RepoNotFound")
            if path.startswith(f"/api/models/{OWNER_NAME}"):
                return self._list(path.removeprefix(f"/api/models/{OWNER_NAME}"))
            revision, _, name = path.removeprefix(f"/{OWNER_NAME}/resolve/").partition("/")
            if revision not in ("main", COMMIT):
                return self._refuse("RevisionNotFound")
            file = directory / name
            if not file.is_file():
                return self._refuse("EntryNotFound")
            return self._send(file.read_bytes(), "application/octet-stream")

        def _list(self, rest: str) -> None:
            kind, _, revision = rest.removeprefix("/").partition("/")
            if (revision or "main") not in ("main", COMMIT):
                return self._refuse("RevisionNotFound")
            files = sorted(path.name for path in directory.iterdir())
            if kind == "tree":
                rows = [
                    {
                        "type": "file",
                        "path": name,
                        "size": (directory / name).stat().st_size,
                        "oid": hashlib.sha1(name.encode()).hexdigest(),
                    }
                    for name in files
                ]
                return self._send(json.dumps(rows).encode(), "application/json")
            answer = {
                "id": OWNER_NAME,
                "sha": COMMIT,
                "siblings": [{"rfilename": name} for name in files],
            }
            return self._send(json.dumps(answer).encode(), "application/json")

        def _refuse(self, code: str) -> None:
            self.send_response(404)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _send(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextmanager
def fake_hub(directory: Path) -> Iterator[str]:
    """Serve `directory` as repository `OWNER_NAME` with main at `COMMIT`; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(directory))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
