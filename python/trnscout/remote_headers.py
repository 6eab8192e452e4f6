"""A hub model's config and tensors without its weights: only headers are transferred.

huggingface_hub has `get_safetensors_metadata`, which takes 100 kB of every file, keeps neither the
sizes of files nor what the server says of a range, and lets damaged headers pass; so of that
package only the addresses, the session, its retries and its errors are used here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from ._core import Checkpoint, ShardHeader
from .errors import Error, InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from httpx2 import Response

SINGLE_FILE = "model.safetensors"
INDEX_FILE = f"{SINGLE_FILE}.index.json"
CONFIG_FILE = "config.json"

MAX_CONFIG_BYTES = 16 << 20
MAX_SHARDS = 10_000
MAX_TRANSFER_BYTES = 1 << 30

_LENGTH_BYTES = 8
_PREFIX_BYTES = 1024  # tells what a file is that is not safetensors
_CONNECTIONS = 8
_TIMEOUT_S = 30.0
# 18 digits fit 64 bits.
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
_CONTENT_LENGTH = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class RemoteModel:
    """What the hub says of a model, at one commit."""

    repo: str
    revision: str  # the commit that the asked-for revision stood for
    config_json: str
    checkpoint: Checkpoint


@dataclass(frozen=True)
class _Hub:
    """One commit of one repository."""

    repo: str
    revision: str
    endpoint: str | None
    token: str | bool | None
    retries: int

    def at(self, file: str) -> str:
        return f"{self.repo} at revision {self.revision}, {file}"


class _Budget:
    """What all headers together may take; threads share it."""

    def __init__(self) -> None:
        self._left = MAX_TRANSFER_BYTES
        self._lock = Lock()

    def take(self, count: int, where: str) -> None:
        with self._lock:
            self._left -= count
            if self._left < 0:
                raise InvalidArgumentError(
                    f"{where}: the headers up to this one have more than {MAX_TRANSFER_BYTES} "
                    "bytes, the limit"
                )


@dataclass(frozen=True)
class _Piece:
    """The start of what was asked for, and the size of the whole file."""

    data: bytes
    file_bytes: int


def read_remote_headers(
    repo: str,
    revision: str | None = None,
    *,
    endpoint: str | None = None,
    token: str | bool | None = None,
    retries: int = 2,
) -> RemoteModel:
    """Read config.json, the index, and the header of every safetensors file of a hub model.

    Every request names the commit that `revision` stands for now. `endpoint` and `token` are as in
    huggingface_hub, which also waits between `retries` when the server is busy.

    Raises:
        NotFoundError: no such repository, revision or file, or the hub cannot be reached.
        InvalidArgumentError: `repo` is no hub id; a file is damaged or past a limit.
        Error: the hub refuses access or is busy, or a server's answer is not what was asked for.
    """
    commit, files = _look_up(repo, revision, endpoint, token)
    hub = _Hub(repo, commit, endpoint, token, retries)
    if CONFIG_FILE not in files:
        raise NotFoundError(
            f"{hub.at(CONFIG_FILE)}: there is none, so this is not a Transformers model"
        )
    config = _text(hub, CONFIG_FILE, MAX_CONFIG_BYTES)
    index = None
    shards = [SINGLE_FILE]
    if SINGLE_FILE not in files:
        if INDEX_FILE not in files:
            raise NotFoundError(f"{hub.at(SINGLE_FILE)}: there is neither it nor {INDEX_FILE}")
        index = _text(hub, INDEX_FILE, Checkpoint.MAX_HEADER_BYTES)
        with _named(hub):
            shards = Checkpoint.shard_names(index)
        _check_shards(hub, shards, files)
    headers = _headers(hub, shards)
    with _named(hub):
        checkpoint = Checkpoint.from_headers(headers, index)
    return RemoteModel(repo, commit, config, checkpoint)


def _look_up(
    repo: str, revision: str | None, endpoint: str | None, token: str | bool | None
) -> tuple[str, frozenset[str]]:
    """Return the commit and the names of its files."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    asked = f"{repo} at revision {revision or 'main'}"
    try:
        with _errors(asked):
            info = HfApi(endpoint=endpoint, token=token).model_info(
                repo, revision=revision, timeout=_TIMEOUT_S
            )
    except HFValidationError as error:
        raise InvalidArgumentError(f"{repo!r} is not a hub id: {error}") from None
    if info.sha is None or re.fullmatch(r"[0-9a-f]{40}", info.sha) is None:
        raise Error(f"{asked}: the hub names no commit, but {info.sha!r}")
    return info.sha, frozenset(sibling.rfilename for sibling in info.siblings or ())


def _check_shards(hub: _Hub, shards: list[str], files: frozenset[str]) -> None:
    if len(shards) > MAX_SHARDS:
        raise InvalidArgumentError(
            f"{hub.at(INDEX_FILE)}: {len(shards)} shards are past the limit of {MAX_SHARDS}"
        )
    if missing := [shard for shard in shards if shard not in files]:
        shown = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
        raise NotFoundError(
            f"{hub.at(INDEX_FILE)}: {len(missing)} of its {len(shards)} shards missing: {shown}"
        )


def _headers(hub: _Hub, shards: list[str]) -> list[ShardHeader]:
    budget = _Budget()
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        try:
            return list(pool.map(lambda shard: _header(hub, shard, budget), shards))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _header(hub: _Hub, shard: str, budget: _Budget) -> ShardHeader:
    """Take the length and the header it speaks of; of other files enough to tell what they are."""
    first = _range(hub, shard, 0, _LENGTH_BYTES)
    header_bytes = int.from_bytes(first.data, "little")
    fits = header_bytes <= min(Checkpoint.MAX_HEADER_BYTES, first.file_bytes - _LENGTH_BYTES)
    wanted = header_bytes if fits else min(_PREFIX_BYTES, first.file_bytes) - _LENGTH_BYTES
    if wanted <= 0:
        return ShardHeader(shard, first.file_bytes, first.data)
    budget.take(wanted, hub.at(shard))
    rest = _range(hub, shard, _LENGTH_BYTES, wanted)
    if rest.file_bytes != first.file_bytes:
        raise Error(
            f"{hub.at(shard)}: the server says {first.file_bytes} bytes, then {rest.file_bytes}"
        )
    return ShardHeader(shard, first.file_bytes, first.data + rest.data)


def _text(hub: _Hub, file: str, most_bytes: int) -> str:
    with _request(hub, file, {}) as response:
        _expect_status(hub, file, response, 200)
        data = _body(hub, file, response, most_bytes + 1)
    if len(data) > most_bytes:
        raise InvalidArgumentError(f"{hub.at(file)}: past the limit of {most_bytes} bytes")
    length = response.headers.get("Content-Length")
    if length is not None and length != str(len(data)):
        raise Error(f"{hub.at(file)}: {len(data)} bytes came where {length} were announced")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{hub.at(file)}: not UTF-8 at byte {error.start}") from None


def _range(hub: _Hub, file: str, begin: int, count: int) -> _Piece:
    """Take `count` bytes from `begin`, fewer only where the file ends before."""
    asked = f"bytes={begin}-{begin + count - 1}"
    with _request(hub, file, {"Range": asked}) as response:
        if response.status_code == 416:
            return _empty_file(hub, file, response)
        if response.status_code == 200:  # the server knows no ranges
            total = _announced_bytes(hub, file, response)
            end = min(begin + count, total)
            data = _body(hub, file, response, end)[begin:]
        else:
            _expect_status(hub, file, response, 206)
            total = _ranged_bytes(hub, file, response, begin, count)
            end = min(begin + count, total)
            data = _body(hub, file, response, end - begin)
    if len(data) != end - begin:
        raise Error(f"{hub.at(file)}: {len(data)} bytes came where {end - begin} were asked for")
    return _Piece(data, total)


def _empty_file(hub: _Hub, file: str, response: Response) -> _Piece:
    """An empty file has no range that could be sent."""
    told = response.headers.get("Content-Range")
    if told != "bytes */0":
        raise Error(f"{hub.at(file)}: status 416 with Content-Range {told!r}")
    return _Piece(b"", 0)


def _ranged_bytes(hub: _Hub, file: str, response: Response, begin: int, count: int) -> int:
    told = response.headers.get("Content-Range", "")
    match = _CONTENT_RANGE.fullmatch(told)
    if match is not None:
        first, last, total = map(int, match.groups())
        if first == begin and last == min(begin + count, total) - 1:
            return total
    raise Error(
        f"{hub.at(file)}: Content-Range {told!r} where bytes {begin}-{begin + count - 1} were "
        "asked for"
    )


def _announced_bytes(hub: _Hub, file: str, response: Response) -> int:
    told: str = response.headers.get("Content-Length", "")
    if _CONTENT_LENGTH.fullmatch(told):
        return int(told)
    raise Error(f"{hub.at(file)}: the server knows no ranges and does not tell the file's size")


def _expect_status(hub: _Hub, file: str, response: Response, status: int) -> None:
    if response.status_code != status:
        raise Error(f"{hub.at(file)}: status {response.status_code} where {status} was expected")


def _body(hub: _Hub, file: str, response: Response, most_bytes: int) -> bytes:
    """Read no more than asked for; closing the response ends what is still under way."""
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise Error(f"{hub.at(file)}: sent as {encoding}, which was not asked for")
    from httpx2 import HTTPError

    data = bytearray()
    if most_bytes == 0:
        return b""
    try:
        for chunk in response.iter_raw():
            data += chunk[: most_bytes - len(data)]
            if len(data) == most_bytes:
                break
    except HTTPError as error:  # here, for outside it would count as a reason to try again
        raise Error(f"{hub.at(file)}: the answer ended after {len(data)} bytes: {error}") from None
    return bytes(data)


@contextmanager
def _request(hub: _Hub, file: str, headers: dict[str, str]) -> Iterator[Response]:
    """Send a request through huggingface_hub's session, which decides on redirects."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_stream_backoff

    with _errors(hub.at(file)):
        url = hf_hub_url(hub.repo, file, revision=hub.revision, endpoint=hub.endpoint)
        sent = build_hf_headers(token=hub.token) | {"Accept-Encoding": "identity"} | headers
        with http_stream_backoff(
            "GET", url, max_retries=hub.retries, headers=sent, timeout=_TIMEOUT_S
        ) as response:
            if response.status_code != 416:
                hf_raise_for_status(response)
            yield response


@contextmanager
def _errors(asked: str) -> Iterator[None]:
    """Turn the exceptions of huggingface_hub and its HTTP library into ours."""
    from httpx2 import HTTPError, InvalidURL, StreamError
    from huggingface_hub import errors

    try:
        yield
    except errors.RevisionNotFoundError:
        raise NotFoundError(f"{asked}: the repository has no such revision") from None
    except errors.GatedRepoError as error:
        raise Error(f"{asked}: the repository is gated; {_status(error)}") from None
    except errors.EntryNotFoundError:
        raise NotFoundError(f"{asked}: there is no such file") from None
    except errors.RepositoryNotFoundError:
        raise NotFoundError(
            f"{asked}: there is no such repository on the hub, or it is private and no token is set"
        ) from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else None
        kind = NotFoundError if status == 404 else Error
        raise kind(f"{asked}: {_status(error)}") from None
    except errors.OfflineModeIsEnabled:
        raise NotFoundError(f"{asked}: HF_HUB_OFFLINE is set, so it cannot be read") from None
    except (HTTPError, InvalidURL, StreamError, OSError) as error:
        if isinstance(error, Error):
            raise
        raise NotFoundError(f"{asked}: cannot be read: {type(error).__name__}: {error}") from None


_REASONS = {
    401: "401, access needs a token that the hub knows",
    403: "403, access is forbidden",
    404: "404, it is not there",
    429: "429, too many requests; try again later",
}


def _status(error: Exception) -> str:
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    return f"the server answered {_REASONS.get(status or 0, status or error)}"


@contextmanager
def _named(hub: _Hub) -> Iterator[None]:
    """Put the repository before a message of the checks."""
    try:
        yield
    except (InvalidArgumentError, NotFoundError) as error:
        raise type(error)(f"{hub.repo} at revision {hub.revision}, {error}") from None
