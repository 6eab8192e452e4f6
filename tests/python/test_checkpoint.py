"""Checkpoint against the safetensors library: same tensors, same bytes, same refusals."""

from __future__ import annotations

import gc
import json
import random
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file as save_torch

from trnscout import Checkpoint, Error, InvalidArgumentError, NotFoundError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"

NUMPY_DTYPES = ["f8", "f4", "f2", "c8", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
TORCH_DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint64,
    torch.uint32,
    torch.uint16,
    torch.uint8,
    torch.bool,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e8m0fnu,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float4_e2m1fn_x2,
]
SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 4), (1, 2, 3, 4)]

# Files that the library takes and the specification, or this project, does not.
STRICTER = re.compile(
    r"duplicate tensor name|duplicate key|unknown key|does not begin with {"
    r"|is an array, not an object|dtype is an object|not a whole number from 0 to"
)


def by_library(data: bytes) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {
        name: (part["dtype"], tuple(part["shape"]), bytes(part["data"]))
        for name, part in deserialize(data)
    }


def by_trnscout(checkpoint: Checkpoint) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    files = [Path(shard.path).read_bytes() for shard in checkpoint.shards]
    return {
        tensor.name: (
            tensor.dtype,
            tensor.shape,
            files[tensor.shard][tensor.begin_bytes : tensor.end_bytes],
        )
        for tensor in checkpoint.tensors
    }


def numpy_tensors(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        f"layer.{dtype}.{len(shape)}.{rng.integers(1 << 30)}": np.frombuffer(
            rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype=dtype
        ).reshape(shape)
        for dtype in NUMPY_DTYPES
        if dtype != "?"
        for shape in SHAPES
    } | {"mask": rng.integers(2, size=(3, 5)).astype(bool)}


def raw_file(header: object, data_bytes: int) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(range(data_bytes))


def write_sharded(
    directory: Path, shards: dict[str, dict[str, np.ndarray]]
) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    expected = {}
    weight_map = {}
    for file_name, tensors in shards.items():
        save_numpy(tensors, directory / file_name)
        expected |= by_library((directory / file_name).read_bytes())
        weight_map |= dict.fromkeys(tensors, file_name)
    total = sum(array.nbytes for tensors in shards.values() for array in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (directory / INDEX).write_text(json.dumps(index))
    return expected


@pytest.mark.parametrize("seed", range(5))
def test_checkpoint_agrees_with_safetensors_on_numpy_dtypes(tmp_path: Path, seed: int) -> None:
    save_numpy(numpy_tensors(np.random.default_rng(seed)), tmp_path / SINGLE)
    data = (tmp_path / SINGLE).read_bytes()
    checkpoint = Checkpoint.open(tmp_path)
    assert by_trnscout(checkpoint) == by_library(data)
    assert [tensor.name for tensor in checkpoint.tensors] == sorted(by_library(data))
    assert checkpoint.total_bytes == sum(len(part[2]) for part in by_library(data).values())
    assert [shard.bytes for shard in checkpoint.shards] == [len(data)]


@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_checkpoint_agrees_with_safetensors_on_torch_dtypes(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    tensors = {}
    for shape in [(0, 4), (7,), (3, 5), (1, 2, 3, 4)]:
        count = int(np.prod(shape)) * dtype.itemsize
        raw = torch.randint(2, (count,), dtype=torch.uint8)
        tensors[f"w{shape}"] = raw.view(dtype).reshape(shape)
    save_torch(tensors, tmp_path / SINGLE, metadata={"format": "pt"})
    checkpoint = Checkpoint.open(str(tmp_path))
    assert by_trnscout(checkpoint) == by_library((tmp_path / SINGLE).read_bytes())
    with safe_open(tmp_path / SINGLE, framework="pt") as library:
        assert set(library.keys()) == {tensor.name for tensor in checkpoint.tensors}


@pytest.mark.parametrize(
    ("dtype", "shape", "data_bytes"),
    [("F6_E2M3", [4], 3), ("F6_E3M2", [2, 8], 12), ("F4", [2, 8], 8), ("F4", [0, 3], 0)],
)
def test_checkpoint_agrees_with_safetensors_on_dtypes_narrower_than_a_byte(
    tmp_path: Path, dtype: str, shape: list[int], data_bytes: int
) -> None:
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, data_bytes]}
    data = raw_file({"w": entry}, data_bytes)
    (tmp_path / SINGLE).write_bytes(data)
    assert by_trnscout(Checkpoint.open(tmp_path)) == by_library(data)


def test_checkpoint_knows_the_dtypes_of_the_library(tmp_path: Path) -> None:
    """A release of safetensors with a new element type fails here."""
    entry = {"dtype": "F7", "shape": [0], "data_offsets": [0, 0]}
    with pytest.raises(SafetensorError, match="unknown variant") as refusal:
        deserialize(raw_file({"w": entry}, 0))
    dtypes = re.findall(r"`([A-Z0-9_]+)`", str(refusal.value).split("expected one of")[1])
    assert len(dtypes) > 20
    for dtype in dtypes:
        data = raw_file({"w": entry | {"dtype": dtype}}, 0)
        (tmp_path / SINGLE).write_bytes(data)
        assert by_trnscout(Checkpoint.open(tmp_path)) == by_library(data)


def test_checkpoint_reads_values_that_are_not_aligned(tmp_path: Path) -> None:
    values = np.array([1.5, -2.25], dtype=np.float32)
    for padding in range(8):
        header = {
            "odd": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
            "w": {"dtype": "F32", "shape": [2], "data_offsets": [3, 11]},
        }
        text = json.dumps(header).encode() + b" " * padding
        data = struct.pack("<Q", len(text)) + text + b"abc" + values.tobytes()
        (tmp_path / SINGLE).write_bytes(data)
        found = by_trnscout(Checkpoint.open(tmp_path))
        assert found == by_library(data)
        np.testing.assert_array_equal(np.frombuffer(found["w"][2], np.float32), values)


def test_checkpoint_agrees_with_safetensors_on_shards(tmp_path: Path) -> None:
    tensors = numpy_tensors(np.random.default_rng(11))
    names = sorted(tensors)
    random.Random(11).shuffle(names)
    shards = {
        f"model-{i + 1:05}-of-00003.safetensors": {name: tensors[name] for name in names[i::3]}
        for i in range(3)
    }
    expected = write_sharded(tmp_path, shards)
    checkpoint = Checkpoint.open(tmp_path)
    assert by_trnscout(checkpoint) == expected
    assert [shard.file_name for shard in checkpoint.shards] == sorted(shards)
    assert [shard.path for shard in checkpoint.shards] == [
        tmp_path / name for name in sorted(shards)
    ]
    assert checkpoint.warnings == []
    for file_name, held in shards.items():
        for name in held:
            assert checkpoint.shards[checkpoint.find(name).shard].file_name == file_name


def test_checkpoint_parts_outlive_the_checkpoint(tmp_path: Path) -> None:
    save_numpy({"w": np.zeros((2, 3), np.float32)}, tmp_path / SINGLE)
    checkpoint = Checkpoint.open(tmp_path)
    tensor, found, shard = checkpoint.tensors[0], checkpoint.find("w"), checkpoint.shards[0]
    assert checkpoint.find("absent") is None
    assert repr(checkpoint) == "Checkpoint(tensors=1, shards=1, total_bytes=24)"
    del checkpoint
    gc.collect()
    assert (tensor.name, tensor.shape, tensor.bytes) == ("w", (2, 3), 24)
    assert repr(found).startswith("TensorInfo('w', 'F32', (2, 3), shard=0, bytes=")
    assert repr(shard).startswith("CheckpointShard('model.safetensors', bytes=")


def test_checkpoint_properties_are_read_only(tmp_path: Path) -> None:
    save_numpy({"w": np.zeros(1, np.float32)}, tmp_path / SINGLE)
    checkpoint = Checkpoint.open(tmp_path)
    for owner, name in [
        (checkpoint, "tensors"),
        (checkpoint, "total_bytes"),
        (checkpoint.tensors[0], "shape"),
        (checkpoint.shards[0], "path"),
    ]:
        with pytest.raises(AttributeError):
            setattr(owner, name, None)


def test_checkpoint_raises_the_errors_of_trnscout(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no model\.safetensors"):
        Checkpoint.open(tmp_path)
    with pytest.raises(FileNotFoundError, match="cannot open"):
        Checkpoint.open(tmp_path / "absent")
    (tmp_path / SINGLE).write_bytes(b"GGUF" + bytes(64))
    with pytest.raises(InvalidArgumentError, match="GGUF"):
        Checkpoint.open(tmp_path)
    with pytest.raises(TypeError):
        Checkpoint.open(3)


def test_checkpoint_names_what_is_not_ascii(tmp_path: Path) -> None:
    name = "größe.\N{SNOWMAN}"
    save_numpy({name: np.zeros(2, np.float32)}, tmp_path / SINGLE)
    assert Checkpoint.open(tmp_path).find(name).bytes == 8
    folder = tmp_path / "größe"
    folder.mkdir()
    (folder / SINGLE).write_bytes(b"")
    with pytest.raises(InvalidArgumentError, match="has 0 bytes"):
        Checkpoint.open(folder)


def damage(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(out)) if out else 0
        match rng.randrange(8):
            case 0:
                out[at : at + 1] = rng.randbytes(1)
            case 1:
                out[at : at + 1] = bytes([rng.choice(b'{}[],:"0123456789-.eE \\nul\x00')])
            case 2 | 3:
                digits = [i for i, byte in enumerate(out) if 48 <= byte <= 57]
                if digits:
                    out[rng.choice(digits)] = rng.choice(b"0123456789")
            case 4:
                del out[at:]
            case 5:
                out += rng.randbytes(rng.randrange(1, 9))
            case 6:
                del out[at : at + rng.randrange(1, 4)]
            case 7:
                out[at:at] = out[at : at + rng.randrange(1, 80)]
    return bytes(out)


def with_length_of(header: bytes, rest: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + rest


def damaged_files(seed: int, count: int) -> list[bytes]:
    """Files damaged anywhere, and files damaged in the text of the header alone."""
    rng = random.Random(seed)
    header = {
        "__metadata__": {"format": "pt", "total": "2"},
        "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
        "b": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [8, 12]},
        "z": {"dtype": "I64", "shape": [0], "data_offsets": [12, 12]},
        "c": {"dtype": "F4", "shape": [2, 2], "data_offsets": [12, 14]},
        "s": {"dtype": "BF16", "shape": [], "data_offsets": [14, 16]},
    }
    valid = raw_file(header, 16)
    text, rest = valid[8:-16], valid[-16:]
    return [
        with_length_of(damage(text, rng), rest) if i % 2 else damage(valid, rng)
        for i in range(count)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_checkpoint_agrees_with_safetensors_on_damaged_files(tmp_path: Path, seed: int) -> None:
    """Takes nothing that the library refuses, and is stricter for named reasons only."""
    taken = refused = 0
    for data in damaged_files(seed, 500):
        (tmp_path / SINGLE).write_bytes(data)
        try:
            expected = by_library(data)
        except SafetensorError:
            expected = None
        try:
            found = by_trnscout(Checkpoint.open(tmp_path))
        except Error as error:
            refused += 1
            assert isinstance(error, InvalidArgumentError), data
            assert expected is None or STRICTER.search(str(error)), (data, error)
            continue
        taken += 1
        assert found == expected, data
    # Both sides of the rule were tried.
    assert taken > 4
    assert refused > 250


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("{}", True),
        ('{"__metadata__":null}', True),
        ('{"__metadata__":{}}', True),
        ('{"__metadata__":{"format":"pt"}}', True),
        ("{}      ", True),
        ('{"__metadata__":{"total":1}}', False),
        ('{"__metadata__":{"total":null}}', False),
        ('{"__metadata__":[]}', False),
        ('{"__metadata__":{},"__metadata__":{}}', False),
        ("[]", False),
        ("", False),
        ("\ufeff{}", False),
        ("{}\0", False),
        ("{},", False),
        ('{"w":null}', False),
        ('{"w":{"dtype":"U8","shape":[0],"data_offsets":[-0,0]}}', False),
        ('{"w":{"dtype":"U8","shape":[0.0],"data_offsets":[0,0]}}', False),
        ('{"w":{"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}}', False),
        ('{"w":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}}', True),
    ],
)
def test_checkpoint_takes_the_headers_that_safetensors_takes(
    tmp_path: Path, text: str, taken: bool
) -> None:
    data = with_length_of(text.encode(), b"")
    (tmp_path / SINGLE).write_bytes(data)
    if taken:
        assert by_trnscout(Checkpoint.open(tmp_path)) == by_library(data)
        return
    with pytest.raises(SafetensorError):
        deserialize(data)
    with pytest.raises(InvalidArgumentError):
        Checkpoint.open(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (' {"w":ENTRY}', "does not begin with {"),
        ('{"w":ENTRY,"w":ENTRY}', "duplicate tensor name w"),
        ('{"w":{"x":1,"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', "unknown key x"),
        ('{"w":["U8",[0],[0,0]]}', "is an array, not an object"),
        ('{"w":{"dtype":{"U8":null},"shape":[0],"data_offsets":[0,0]}}', "dtype is an object"),
        ('{"__metadata__":{"a":"1","a":"2"},"w":ENTRY}', "duplicate key a"),
        (
            '{"w":{"dtype":"U8","shape":[0,9223372036854775808],"data_offsets":[0,0]}}',
            "not a whole number from 0 to",
        ),
    ],
)
def test_checkpoint_is_stricter_than_safetensors_here(
    tmp_path: Path, text: str, message: str
) -> None:
    entry = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    data = with_length_of(text.replace("ENTRY", entry).encode(), b"")
    (tmp_path / SINGLE).write_bytes(data)
    assert list(by_library(data)) == ["w"]
    with pytest.raises(InvalidArgumentError, match=re.escape(message)) as refusal:
        Checkpoint.open(tmp_path)
    assert STRICTER.search(str(refusal.value))


@pytest.mark.parametrize("seed", range(4))
def test_checkpoint_survives_damaged_indexes(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    shards = {f"model-{i}-of-2.safetensors": {f"layer.{i}.w": np.zeros(4, np.int8)} for i in (1, 2)}
    expected = write_sharded(tmp_path, shards)
    assert by_trnscout(Checkpoint.open(tmp_path)) == expected
    valid = (tmp_path / INDEX).read_bytes()
    for _ in range(500):
        damaged = damage(valid, rng)
        (tmp_path / INDEX).write_bytes(damaged)
        try:
            found = by_trnscout(Checkpoint.open(tmp_path))
        except Error as error:
            assert isinstance(error, InvalidArgumentError | NotFoundError), damaged
            continue
        # What is taken is what the headers say, wherever the index is damaged.
        assert found == expected, damaged
        assert json.loads(damaged)["weight_map"], damaged
