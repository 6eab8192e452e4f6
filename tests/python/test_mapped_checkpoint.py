"""MappedCheckpoint against the safetensors library: same bytes, without a copy."""

from __future__ import annotations

import gc
import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from trnscout import Checkpoint, Error, MappedCheckpoint, NotFoundError, ShardHeader

SINGLE = "model.safetensors"
DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1"]


def write_random(directory: Path, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    tensors = {
        f"{dtype}.{i}": np.frombuffer(
            rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype=dtype
        ).reshape(shape)
        for dtype in DTYPES
        for i, shape in enumerate([(), (0,), (3,), (5, 7)])
    }
    save_file(tensors, directory / SINGLE)


def open_mapped(directory: Path) -> MappedCheckpoint:
    return MappedCheckpoint.map(Checkpoint.open(directory))


def test_mapped_checkpoint_agrees_with_safetensors(tmp_path: Path) -> None:
    write_random(tmp_path)
    mapped = open_mapped(tmp_path)
    with safe_open(tmp_path / SINGLE, framework="numpy") as library:
        assert [view.info.name for view in mapped.views()] == sorted(library.keys())
        for name in library.keys():  # noqa: SIM118 - not a dict
            expected = library.get_tensor(name)
            view = mapped.view(name)
            assert (view.bytes, len(view)) == (expected.nbytes, expected.nbytes)
            assert memoryview(view).tobytes() == expected.tobytes()
            if expected.size:
                found = np.frombuffer(view, expected.dtype).reshape(view.info.shape)
                np.testing.assert_array_equal(found, expected)


def test_mapped_checkpoint_gives_views_without_a_copy(tmp_path: Path) -> None:
    save_file({"w": np.arange(6, dtype=np.float32)}, tmp_path / SINGLE)
    mapped = open_mapped(tmp_path)
    first = np.frombuffer(mapped.view("w"), np.float32)
    again = np.frombuffer(mapped.views()[0], np.float32)
    assert first.ctypes.data == again.ctypes.data
    assert not first.flags.owndata
    assert not first.flags.writeable
    assert memoryview(mapped.view("w")).readonly
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_mapped_checkpoint_stays_as_long_as_a_buffer_of_it(tmp_path: Path) -> None:
    save_file({"w": np.arange(6, dtype=np.float32)}, tmp_path / SINGLE)

    def is_mapped() -> bool:
        return str(tmp_path / SINGLE) in Path("/proc/self/maps").read_text()

    mapped = open_mapped(tmp_path)
    array = np.frombuffer(mapped.view("w"), np.float32)
    info = mapped.view("w").info
    assert is_mapped()
    del mapped
    gc.collect()
    np.testing.assert_array_equal(array, np.arange(6))
    assert is_mapped()
    del array
    gc.collect()
    assert not is_mapped()
    assert info.name == "w"  # a copy


def test_mapped_checkpoint_reads_what_is_not_aligned(tmp_path: Path) -> None:
    values = np.array([1.5, -2.25], np.float32)
    places = set()
    for padding in range(8):
        header = {
            "odd": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
            "w": {"dtype": "F32", "shape": [2], "data_offsets": [3, 11]},
        }
        text = json.dumps(header).encode() + b" " * padding
        (tmp_path / SINGLE).write_bytes(
            struct.pack("<Q", len(text)) + text + b"abc" + values.tobytes()
        )
        view = open_mapped(tmp_path).view("w")
        places.add(np.frombuffer(view, np.uint8).ctypes.data % 8)
        np.testing.assert_array_equal(np.frombuffer(view, np.float32), values)
    assert places == set(range(8))


def test_mapped_checkpoint_refuses_files_that_were_changed(tmp_path: Path) -> None:
    path = tmp_path / SINGLE
    write_random(tmp_path)
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.shards[0].modified_ns == path.stat().st_mtime_ns
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    with pytest.raises(Error, match="was changed after its header was read"):
        MappedCheckpoint.map(checkpoint)
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(Error, match="bytes, had"):
        MappedCheckpoint.map(checkpoint)
    path.unlink()
    with pytest.raises(NotFoundError, match=SINGLE):
        MappedCheckpoint.map(checkpoint)


def test_mapped_checkpoint_raises_the_errors_of_trnscout(tmp_path: Path) -> None:
    write_random(tmp_path)
    mapped = open_mapped(tmp_path)
    assert repr(mapped) == "MappedCheckpoint(tensors=44, shards=1)"
    assert repr(mapped.view("f4.3")) == "TensorView('f4.3', 'F32', (5, 7), bytes=140)"
    assert len(mapped.checkpoint.tensors) == 44
    with pytest.raises(NotFoundError, match="no tensor absent among the 44 tensors"):
        mapped.view("absent")
    data = (tmp_path / SINGLE).read_bytes()
    remote = Checkpoint.from_headers([ShardHeader(SINGLE, len(data), data)])
    with pytest.raises(Error, match="only its header is here"):
        MappedCheckpoint.map(remote)


def test_shard_headers_make_the_checkpoint_that_files_make(tmp_path: Path) -> None:
    write_random(tmp_path)
    data = (tmp_path / SINGLE).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = ShardHeader(SINGLE, len(data), data[: 8 + length])
    assert (header.file_name, header.file_bytes) == (SINGLE, len(data))
    assert header.first_bytes == data[: 8 + length]
    assert repr(header) == (
        f"ShardHeader('{SINGLE}', file_bytes={len(data)}, first_bytes={8 + length} of them)"
    )
    remote, local = Checkpoint.from_headers([header]), Checkpoint.open(tmp_path)
    assert [repr(tensor) for tensor in remote.tensors] == [repr(t) for t in local.tensors]
    assert remote.shards[0].bytes == len(data)
    with pytest.raises(ValueError, match="2 headers given without an index"):
        Checkpoint.from_headers([header, header])
    assert Checkpoint.shard_names('{"weight_map": {"w": "b", "v": "a"}}') == ["a", "b"]
