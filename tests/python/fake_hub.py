"""A hub on loopback: as much of the Hugging Face hub's HTTP interface as a download needs."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import ClassVar

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OWNER_NAME = "tester/tiny"

_CHUNK_BYTES = 64 << 10
_POLL_S = 0.02  # how long its end may take


@dataclass
class Traffic:
    """What went over the wire."""

    sent_bytes: Counter[str] = field(default_factory=Counter)  # of bodies, by name of the file
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def names(self) -> list[str]:
        """Names of the files asked for, in order."""
        return [name for _, name, _ in self.requests]


@dataclass
class Answer:
    """One answer of the hub, before it is sent."""

    status: int
    headers: dict[str, str]
    body: bytes | Path
    begin: int
    end: int


# Changes an answer about a file; gets the file's name and how often it was asked for before.
Fault = Callable[[str, int, Answer], None]


def _file_answer(file: Path, asked: str | None) -> Answer:
    """The whole file, or the range of it that is asked for."""
    size = file.stat().st_size
    answer = Answer(200, {"Content-Type": "application/octet-stream"}, file, 0, size)
    if asked is None:
        return answer
    first, _, last = asked.removeprefix("bytes=").partition("-")
    answer.begin, answer.end = int(first), min(int(last) + 1, size)
    if answer.begin >= size:
        return Answer(416, {"Content-Range": f"bytes */{size}"}, b"", 0, 0)
    answer.status = 206
    answer.headers["Content-Range"] = f"bytes {answer.begin}-{answer.end - 1}/{size}"
    return answer


def _etag(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _Handler(BaseHTTPRequestHandler):
    directory: ClassVar[Path]
    traffic: ClassVar[Traffic]
    fault: ClassVar[Fault | None]

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
        file = self.directory / name
        if not file.is_file():
            return self._refuse("EntryNotFound")
        answer = _file_answer(file, self.headers.get("Range"))
        answer.headers["ETag"] = f'"{_etag(file)}"'
        with self.traffic.lock:
            before = self.traffic.names().count(name)
            self.traffic.requests.append((self.command, name, dict(self.headers.items())))
        if self.fault is not None:
            type(self).fault(name, before, answer)
        return self._send(answer, name)

    def _list(self, rest: str) -> None:
        kind, _, revision = rest.removeprefix("/").partition("/")
        if (revision or "main") not in ("main", COMMIT):
            return self._refuse("RevisionNotFound")
        files = sorted(path.name for path in self.directory.iterdir())
        if kind == "tree":
            rows = [
                {
                    "type": "file",
                    "path": name,
                    "size": (self.directory / name).stat().st_size,
                    "oid": hashlib.sha1(name.encode()).hexdigest(),
                }
                for name in files
            ]
            return self._send_json(rows)
        siblings = [{"rfilename": name} for name in files]
        return self._send_json({"id": OWNER_NAME, "sha": COMMIT, "siblings": siblings})

    def _refuse(self, code: str) -> None:
        self._send(Answer(404, {"X-Error-Code": code}, b"", 0, 0), "")

    def _send_json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self._send(Answer(200, {"Content-Type": "application/json"}, body, 0, len(body)), "")

    def _send(self, answer: Answer, name: str) -> None:
        self.send_response(answer.status)
        answer.headers.setdefault("Content-Length", str(answer.end - answer.begin))
        answer.headers.setdefault("X-Repo-Commit", COMMIT)
        for header, value in answer.headers.items():
            if value:  # a fault takes a header away by emptying it
                self.send_header(header, value)
        self.end_headers()
        if self.command == "GET":
            with suppress(ConnectionError):  # the client has read what it wants
                for chunk in _chunks(answer):
                    self.wfile.write(chunk)
                    with self.traffic.lock:
                        self.traffic.sent_bytes[name] += len(chunk)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _chunks(answer: Answer) -> Iterator[bytes]:
    if isinstance(answer.body, bytes):
        yield answer.body[answer.begin : answer.end]
        return
    with answer.body.open("rb") as stream:
        stream.seek(answer.begin)
        left = answer.end - answer.begin
        while left > 0 and (chunk := stream.read(min(left, _CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk


@contextmanager
def fake_hub(
    directory: Path, *, traffic: Traffic | None = None, fault: Fault | None = None
) -> Iterator[str]:
    """Serve `directory` as repository `OWNER_NAME` with main at `COMMIT`; yield the address."""
    members = {"directory": directory, "traffic": traffic or Traffic(), "fault": fault}
    if fault is not None:
        members["fault"] = staticmethod(fault)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), members))
    thread = Thread(target=server.serve_forever, args=[_POLL_S], daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
