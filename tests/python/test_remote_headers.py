"""Headers of a hub model by range requests, against a hub on loopback."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from fake_hub import COMMIT, OWNER_NAME, Answer, Fault, Traffic, fake_hub
from trnscout import Checkpoint, Error, InvalidArgumentError, NotFoundError, remote_headers
from trnscout.remote_headers import RemoteModel, read_remote_headers

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
WEIGHT_BYTES = 4 << 20


def write_config(directory: Path) -> None:
    (directory / "config.json").write_text('{"model_type": "llama"}')


@pytest.fixture
def single(tmp_path: Path) -> Path:
    write_config(tmp_path)
    save_file({"w": np.ones(WEIGHT_BYTES, np.uint8)}, tmp_path / SINGLE)
    return tmp_path


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    write_config(tmp_path)
    for name, shard in zip("ab", SHARDS, strict=True):
        save_file({name: np.ones((7, WEIGHT_BYTES // 7), np.uint8)}, tmp_path / shard)
    weight_map = dict(zip("ab", SHARDS, strict=True))
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    return tmp_path


def header_bytes(file: Path) -> int:
    with file.open("rb") as stream:
        return 8 + int(struct.unpack("<Q", stream.read(8))[0])


def read(
    directory: Path,
    *,
    traffic: Traffic | None = None,
    fault: Fault | None = None,
    **options: object,
) -> RemoteModel:
    with fake_hub(directory, traffic=traffic, fault=fault) as address:
        return read_remote_headers(OWNER_NAME, endpoint=address, token=False, retries=0, **options)


def on(name: str, change: Callable[[Answer], None], *, at: int | None = None) -> Fault:
    """A fault of one file; `at` tells which request about it, every one without."""

    def fault(asked: str, before: int, answer: Answer) -> None:
        if asked == name and at in (None, before):
            change(answer)

    return fault


def set_headers(**headers: str) -> Callable[[Answer], None]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda answer: answer.headers.update(named)


def ignore_range(answer: Answer) -> None:
    answer.headers.pop("Content-Range", None)
    answer.status, answer.begin = 200, 0
    assert isinstance(answer.body, Path)
    answer.end = answer.body.stat().st_size


def same(remote: Checkpoint, local: Checkpoint) -> bool:
    def facts(checkpoint: Checkpoint) -> object:
        tensors = [
            (t.name, t.dtype, t.shape, t.shard, t.begin_bytes, t.end_bytes)
            for t in checkpoint.tensors
        ]
        shards = [(shard.file_name, shard.bytes) for shard in checkpoint.shards]
        return tensors, shards, checkpoint.warnings

    return facts(remote) == facts(local)


# What is transferred.


def test_remote_headers_takes_the_header_of_a_single_file_only(single: Path) -> None:
    traffic = Traffic()
    model = read(single, traffic=traffic)
    assert (model.repo, model.revision) == (OWNER_NAME, COMMIT)
    assert json.loads(model.config_json) == {"model_type": "llama"}
    assert same(model.checkpoint, Checkpoint.open(single))
    assert model.checkpoint.total_bytes == WEIGHT_BYTES
    assert traffic.sent_bytes[SINGLE] == header_bytes(single / SINGLE)
    assert traffic.sent_bytes["config.json"] == (single / "config.json").stat().st_size
    assert set(traffic.names()) == {"config.json", SINGLE}


def test_remote_headers_takes_the_index_and_the_headers_of_its_shards(sharded: Path) -> None:
    save_file({"stray": np.ones(9, np.uint8)}, sharded / "adapter.safetensors")
    traffic = Traffic()
    model = read(sharded, traffic=traffic)
    assert same(model.checkpoint, Checkpoint.open(sharded))
    for shard in SHARDS:
        assert traffic.sent_bytes[shard] == header_bytes(sharded / shard)
    assert traffic.sent_bytes[INDEX] == (sharded / INDEX).stat().st_size
    assert set(traffic.names()) == {"config.json", INDEX, *SHARDS}
    assert {method for method, _, _ in traffic.requests} == {"GET"}


def test_remote_headers_takes_the_single_file_where_both_are_there(sharded: Path) -> None:
    save_file({"w": np.ones(9, np.uint8)}, sharded / SINGLE)
    model = read(sharded)
    assert [shard.file_name for shard in model.checkpoint.shards] == [SINGLE]


def test_remote_headers_reads_little_where_the_server_knows_no_ranges(single: Path) -> None:
    weight_bytes = 64 << 20
    save_file({"w": np.ones(weight_bytes, np.uint8)}, single / SINGLE)
    traffic = Traffic()
    model = read(single, traffic=traffic, fault=on(SINGLE, ignore_range))
    assert same(model.checkpoint, Checkpoint.open(single))
    # The rest is what the buffers of two sockets held when they were closed.
    assert traffic.sent_bytes[SINGLE] < weight_bytes


def test_remote_headers_follows_redirects_without_the_token(sharded: Path) -> None:
    elsewhere = Traffic()
    with fake_hub(sharded, traffic=elsewhere) as weights:
        here = Traffic()
        other_host = weights.replace("127.0.0.1", "localhost")

        def send_away(name: str, before: int, answer: Answer) -> None:
            if name in SHARDS:
                location = f"{other_host}/{OWNER_NAME}/resolve/{COMMIT}/{name}"
                answer.status, answer.end = 302, answer.begin
                answer.headers = {"Location": location}

        with fake_hub(sharded, traffic=here, fault=send_away) as address:
            model = read_remote_headers(OWNER_NAME, endpoint=address, token="hf_secret", retries=0)
    assert same(model.checkpoint, Checkpoint.open(sharded))
    assert all(sent["authorization"] == "Bearer hf_secret" for sent in lowered(here))
    assert len(elsewhere.requests) == 4
    for sent in lowered(elsewhere):
        assert "authorization" not in sent
        assert sent["range"].startswith("bytes=")
    assert sum(elsewhere.sent_bytes.values()) == sum(header_bytes(sharded / s) for s in SHARDS)


def lowered(traffic: Traffic) -> list[dict[str, str]]:
    return [{k.lower(): v for k, v in sent.items()} for _, _, sent in traffic.requests]


# What the checks say.


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "has 0 bytes, a header's length takes 8"),
        (b"abc", "has 3 bytes, a header's length takes 8"),
        (struct.pack("<Q", 0), "does not begin with {"),
        (struct.pack("<Q", 1 << 40) + b"{}", "past the limit of 100000000"),
        (struct.pack("<Q", 1000) + b"{}", "it is cut or damaged"),
        (b"PK\x03\x04" + bytes(2000), "a ZIP archive"),
        (b"version https://git-lfs.github.com/spec/v1\noid x\nsize 77\n", "the weights 77"),
        (struct.pack("<Q", 8) + b'{"a":nul', "not JSON"),
        (struct.pack("<Q", 2) + b"{}" + bytes(5), "the last ones belong to no tensor"),
    ],
)
def test_remote_headers_refuses_what_the_checkpoint_refuses(
    single: Path, data: bytes, message: str
) -> None:
    (single / SINGLE).write_bytes(data)
    with pytest.raises(InvalidArgumentError) as local:
        Checkpoint.open(single)
    with pytest.raises(InvalidArgumentError) as remote:
        read(single)
    assert message in str(local.value)
    assert message in str(remote.value)
    assert str(remote.value).startswith(f"{OWNER_NAME} at revision {COMMIT}, {SINGLE}: ")


def test_remote_headers_checks_names_before_it_asks_for_them(sharded: Path) -> None:
    (sharded / INDEX).write_text('{"weight_map": {"w": "../../other/resolve/main/x"}}')
    traffic = Traffic()
    with pytest.raises(InvalidArgumentError, match="leads out of the directory") as refusal:
        read(sharded, traffic=traffic)
    assert f"{OWNER_NAME} at revision {COMMIT}, {INDEX}: weight_map" in str(refusal.value)
    assert set(traffic.names()) == {"config.json", INDEX}


def test_remote_headers_names_shards_that_are_missing(sharded: Path) -> None:
    (sharded / SHARDS[1]).unlink()
    with pytest.raises(NotFoundError, match=f"1 of its 2 shards missing: {SHARDS[1]}"):
        read(sharded)


def test_remote_headers_names_files_that_are_missing(single: Path) -> None:
    (single / SINGLE).unlink()
    with pytest.raises(NotFoundError, match=f"{SINGLE}: there is neither it nor {INDEX}"):
        read(single)
    (single / "config.json").unlink()
    with pytest.raises(NotFoundError, match=r"config\.json: there is none"):
        read(single)


def test_remote_headers_refuses_what_is_past_its_limits(
    sharded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, message in [
        ("MAX_CONFIG_BYTES", r"config\.json: past the limit of 10 bytes"),
        ("MAX_TRANSFER_BYTES", "have more than 10 bytes, the limit"),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(remote_headers, limit, 10)
            with pytest.raises(InvalidArgumentError, match=message):
                read(sharded)
    monkeypatch.setattr(remote_headers, "MAX_SHARDS", 1)
    with pytest.raises(InvalidArgumentError, match="2 shards are past the limit of 1"):
        read(sharded)


def test_remote_headers_refuses_text_that_is_not_utf8(single: Path) -> None:
    (single / "config.json").write_bytes(b"{\xff}")
    with pytest.raises(InvalidArgumentError, match=r"config\.json: not UTF-8 at byte 1"):
        read(single)


# What servers do.


def cut_body(answer: Answer) -> None:
    answer.headers["Content-Length"] = str(answer.end - answer.begin)
    answer.end -= 1


def shorten(answer: Answer) -> None:
    answer.end -= 1


def one_more_byte_of_file(answer: Answer) -> None:
    told = answer.headers["Content-Range"]
    head, _, total = told.partition("/")
    answer.headers["Content-Range"] = f"{head}/{int(total) + 1}"


def ignore_range_and_length(answer: Answer) -> None:
    ignore_range(answer)
    answer.headers["Content-Length"] = ""


def no_content(answer: Answer) -> None:
    answer.status, answer.end = 204, answer.begin


def not_satisfiable(answer: Answer) -> None:
    answer.status, answer.end = 416, answer.begin


@pytest.mark.parametrize(
    ("change", "request_number", "message"),
    [
        (cut_body, 0, "the answer ended after 7 bytes"),
        (cut_body, 1, "the answer ended after"),
        (shorten, 1, "bytes came where"),
        (set_headers(Content_Range="bytes 1-8/9999"), 0, "Content-Range 'bytes 1-8/9999' where"),
        (set_headers(Content_Range="bytes 0-7/*"), 0, r"Content-Range 'bytes 0-7/\*' where"),
        (set_headers(Content_Range="bytes 0-7/5"), 0, "Content-Range 'bytes 0-7/5' where"),
        (set_headers(Content_Range="bytes 0-7/" + "9" * 30), 0, "Content-Range 'bytes 0-7/999"),
        (set_headers(Content_Range="pages 0-7/99"), 0, "Content-Range 'pages 0-7/99' where"),
        (set_headers(Content_Range=""), 0, "Content-Range '' where bytes 0-7 were asked for"),
        (set_headers(Content_Range="bytes 0-7/99"), 1, "Content-Range 'bytes 0-7/99' where"),
        (set_headers(Content_Encoding="gzip"), 0, "sent as gzip, which was not asked for"),
        (one_more_byte_of_file, 1, "the server says [0-9]+ bytes, then [0-9]+"),
        (ignore_range_and_length, 0, "knows no ranges and does not tell the file's size"),
        (no_content, 0, "status 204 where 206 was expected"),
        (not_satisfiable, 0, "status 416 with Content-Range"),
    ],
)
def test_remote_headers_refuses_answers_that_were_not_asked_for(
    single: Path, change: Callable[[Answer], None], request_number: int, message: str
) -> None:
    with pytest.raises(Error, match=message) as refusal:
        read(single, fault=on(SINGLE, change, at=request_number))
    assert type(refusal.value) is Error
    assert str(refusal.value).startswith(f"{OWNER_NAME} at revision {COMMIT}, {SINGLE}: ")


def test_remote_headers_refuses_config_that_is_cut(single: Path) -> None:
    with pytest.raises(Error, match=r"config\.json: the answer ended after 22 bytes"):
        read(single, fault=on("config.json", cut_body))


@pytest.mark.parametrize(
    ("status", "code", "kind", "message"),
    [
        (401, "RepoNotFound", NotFoundError, "there is no such repository on the hub, or it is"),
        (401, "", Error, "the server answered 401, access needs a token"),
        (401, "GatedRepo", Error, "the repository is gated; the server answered 401"),
        (403, "GatedRepo", Error, "the repository is gated; the server answered 403"),
        (403, "", Error, "the server answered 403, access is forbidden"),
        (404, "EntryNotFound", NotFoundError, "there is no such file"),
        (404, "RevisionNotFound", NotFoundError, "the repository has no such revision"),
        (404, "", NotFoundError, "the server answered 404, it is not there"),
        (429, "", Error, "the server answered 429, too many requests"),
        (500, "", Error, "the server answered 500"),
    ],
)
def test_remote_headers_names_what_the_server_refuses(
    sharded: Path, status: int, code: str, kind: type[Error], message: str
) -> None:
    def refuse(answer: Answer) -> None:
        answer.status, answer.end = status, answer.begin
        answer.headers = {"X-Error-Code": code}

    with pytest.raises(kind, match=message) as refusal:
        read(sharded, fault=on(SHARDS[1], refuse))
    assert type(refusal.value) is kind
    assert str(refusal.value).startswith(f"{OWNER_NAME} at revision {COMMIT}, {SHARDS[1]}: ")


def test_remote_headers_gives_up_on_redirects_without_end(single: Path) -> None:
    with fake_hub(single, fault=on(SINGLE, lambda answer: circle(answer))) as address:

        def circle(answer: Answer) -> None:
            answer.status, answer.end = 302, answer.begin
            answer.headers = {"Location": f"{address}/{OWNER_NAME}/resolve/{COMMIT}/{SINGLE}"}

        with pytest.raises(NotFoundError, match=f"{SINGLE}: cannot be read: TooManyRedirects"):
            read_remote_headers(OWNER_NAME, endpoint=address, token=False, retries=0)


def test_remote_headers_names_what_the_hub_does_not_know(single: Path) -> None:
    with fake_hub(single) as address:
        for repo, revision, message in [
            (OWNER_NAME, "v9", "tester/tiny at revision v9: the repository has no such revision"),
            ("tester/absent", None, "tester/absent at revision main: there is no such repository"),
        ]:
            with pytest.raises(NotFoundError, match=message):
                read_remote_headers(repo, revision, endpoint=address, token=False)
        with pytest.raises(InvalidArgumentError, match="'a/b/c' is not a hub id"):
            read_remote_headers("a/b/c", endpoint=address, token=False)
    with pytest.raises(NotFoundError, match="tester/tiny at revision main: cannot be read"):
        read_remote_headers(OWNER_NAME, endpoint="http://127.0.0.1:9", token=False, retries=0)


def test_remote_headers_says_that_the_hub_is_switched_off(
    single: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(NotFoundError, match="HF_HUB_OFFLINE is set"):
        read(single)
