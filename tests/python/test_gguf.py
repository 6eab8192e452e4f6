"""GgufFile against package gguf: same metadata, tensors and ranges; damage is refused."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from trnscout import (
    Error,
    GgufArray,
    GgufFile,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
    ggml_types,
)

NUMPY_DTYPES = [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64]
QUANTIZED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "BF16", "TQ1_0", "TQ2_0", "MXFP4"]


def random_shape(rng: random.Random, row: int) -> tuple[int, ...]:
    return (*(rng.randrange(1, 4) for _ in range(rng.randrange(3))), row)


def write_random(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    writer = gguf.GGUFWriter(path, "llama")
    if seed % 2:
        writer.add_custom_alignment(rng.choice([8, 64, 256]))
    writer.add_string("text", "größe \N{SNOWMAN}" * rng.randrange(1, 5))
    writer.add_bool("yes", True)
    writer.add_bool("no", False)
    for bits in (8, 16, 32, 64):
        getattr(writer, f"add_uint{bits}")(f"u{bits}", rng.randrange(1 << bits))
        getattr(writer, f"add_int{bits}")(f"i{bits}", -rng.randrange(1 << (bits - 1)))
    writer.add_float32("f32", rng.uniform(-9, 9))
    writer.add_float64("f64", rng.uniform(-9, 9))
    writer.add_array("tokens", [str(i) * (i % 7) for i in range(rng.randrange(1, 20_000))])
    writer.add_array("scores", [rng.random() for _ in range(rng.randrange(1, 100))])
    writer.add_array("flags", [True, False, True])
    writer.add_array("numbers", list(range(rng.randrange(1, 9))))
    for i, dtype in enumerate(NUMPY_DTYPES):
        writer.add_tensor(f"numpy.{i}", np.ones(random_shape(rng, rng.randrange(1, 50)), dtype))
    for name in QUANTIZED:
        kind = gguf.GGMLQuantizationType[name]
        row = gguf.GGML_QUANT_SIZES[kind][0] * rng.randrange(1, 4)
        values = np.random.default_rng(seed).normal(size=random_shape(rng, row))
        stored = gguf.quantize(values.astype(np.float32), kind)
        writer.add_tensor(f"stored.{name}", stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors_by_library(reader: gguf.GGUFReader) -> list[tuple[object, ...]]:
    return sorted(
        (
            tensor.name,
            tensor.tensor_type.name,
            tuple(int(size) for size in reversed(tensor.shape)),
            int(tensor.data_offset),
            int(tensor.data_offset) + int(tensor.n_bytes),
        )
        for tensor in reader.tensors
    )


def tensors_by_trnscout(file: GgufFile) -> list[tuple[object, ...]]:
    return [
        (tensor.name, tensor.dtype, tensor.shape, tensor.begin_bytes, tensor.end_bytes)
        for tensor in file.tensors
    ]


def metadata_by_library(reader: gguf.GGUFReader) -> dict[str, object]:
    return {
        key: (field.types[-1].name, len(field.data))
        if field.types[0] == gguf.GGUFValueType.ARRAY
        else field.contents()
        for key, field in reader.fields.items()
        if not key.startswith("GGUF.")
    }


def metadata_by_trnscout(file: GgufFile) -> dict[str, object]:
    return {
        key: (value.element_type, value.count) if isinstance(value, GgufArray) else value
        for key, value in file.metadata.items()
    }


def assert_agrees(path: Path) -> None:
    file, reader = GgufFile.open(path), gguf.GGUFReader(path)
    assert tensors_by_trnscout(file) == tensors_by_library(reader)
    assert metadata_by_trnscout(file) == metadata_by_library(reader)
    assert file.alignment == reader.alignment
    assert file.total_bytes == sum(int(tensor.n_bytes) for tensor in reader.tensors)
    assert file.file_bytes == path.stat().st_size
    assert file.warnings == []


@pytest.mark.parametrize("seed", range(6))
def test_gguf_agrees_with_the_library_on_random_files(tmp_path: Path, seed: int) -> None:
    write_random(tmp_path / "w.gguf", seed)
    assert_agrees(tmp_path / "w.gguf")


def test_gguf_agrees_with_the_library_on_version_2(tmp_path: Path) -> None:
    write_random(tmp_path / "w.gguf", 0)
    data = bytearray((tmp_path / "w.gguf").read_bytes())
    data[4] = 2
    (tmp_path / "w.gguf").write_bytes(data)
    assert GgufFile.open(tmp_path / "w.gguf").version == 2
    assert_agrees(tmp_path / "w.gguf")


def test_ggml_types_are_those_of_the_library() -> None:
    """A release of gguf with a new type, or another size, fails here."""
    ours = {t.name: (t.id, t.block_elements, t.block_bytes) for t in ggml_types()}
    theirs = {
        kind.name: (int(kind), *sizes)
        for kind, sizes in gguf.GGML_QUANT_SIZES.items()
        if kind.name != "Q8_1"  # of activations; no file holds it
    }
    assert ours == theirs


def test_gguf_values_have_the_types_of_python(tmp_path: Path) -> None:
    write_random(tmp_path / "w.gguf", 3)
    file = GgufFile.open(str(tmp_path / "w.gguf"))
    metadata = file.metadata
    assert metadata["general.architecture"] == "llama"
    assert [type(metadata[key]) for key in ("yes", "u64", "i64", "f32", "text")] == [
        bool,
        int,
        int,
        float,
        str,
    ]
    assert repr(metadata["flags"]) == "GgufArray('BOOL', count=3)"
    assert repr(file).startswith("GgufFile(version=3, tensors=16, total_bytes=")
    assert file.find("stored.Q4_0").dtype == "Q4_0"
    assert file.find("absent") is None
    assert repr(ggml_types()[0]) == "GgmlType('F32', block_elements=1, block_bytes=4)"


def test_gguf_raises_the_errors_of_trnscout(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"absent\.gguf: cannot open"):
        GgufFile.open(tmp_path / "absent.gguf")
    path = tmp_path / "w.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 1, 0, 0))
    with pytest.raises(UnimplementedError, match="GGUF version 1"):
        GgufFile.open(path)
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(InvalidArgumentError, match="not a GGUF file"):
        GgufFile.open(path)


@pytest.mark.parametrize("seed", range(3))
def test_gguf_survives_damaged_files(tmp_path: Path, seed: int) -> None:
    """What is taken lies within the file, without overlap, and is what the library reads."""
    path = tmp_path / "w.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokens", ["a", "bc", ""])
    writer.add_uint32("count", 7)
    for name, kind in [("a", "Q4_0"), ("b", "Q8_0"), ("c", "BF16")]:
        stored = gguf.quantize(np.ones((2, 32), np.float32), gguf.GGMLQuantizationType[kind])
        writer.add_tensor(name, stored, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    valid = path.read_bytes()
    header_bytes = GgufFile.open(path).tensors[0].begin_bytes
    rng = random.Random(seed)
    taken = refused = 0
    for _ in range(700):
        data = bytearray(valid)
        for _ in range(rng.choice([1, 1, 2])):
            at = rng.randrange(4, header_bytes)
            data[at] = rng.choice([0, 1, 2, 0x20, 0x7F, 0xFF, rng.randrange(256)])
        if rng.randrange(5) == 0:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            file = GgufFile.open(path)
        except Error as error:
            refused += 1
            assert isinstance(error, InvalidArgumentError | UnimplementedError), bytes(data)
            continue
        taken += 1
        end = 0
        for tensor in sorted(file.tensors, key=lambda t: (t.begin_bytes, t.end_bytes)):
            assert end <= tensor.begin_bytes <= tensor.end_bytes <= len(data), bytes(data)
            end = tensor.end_bytes
        reader = gguf.GGUFReader(path)
        assert tensors_by_trnscout(file) == tensors_by_library(reader), bytes(data)
    assert taken > 20
    assert refused > 200
