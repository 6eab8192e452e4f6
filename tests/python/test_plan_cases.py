"""Divisions of inputs from public bug reports, each with its right answer.

Ids carry the case (C050) and, where the two differ, whose layout it is: `transformers`, which is
what an unmodified model meets, or `what-if`. Where values matter, numpy weights in float64 are cut
by the planner's own slices, and what the ranks compute together equals the uncut model.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import transformers
from transformers.distributed.sharding_utils import DtensorShardOperation

from rank_slices import KNOWN, TRN2, Parameters, Ranks, cut, llama, write_config
from test_parallel_plan import apply_plans, ranks_of
from trnscout import InvalidArgumentError, ParallelMode, find_topology, plan

GIB = 2**30


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(x: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, size: int) -> np.ndarray:
    """Return causal attention with heads of `size`, each KV head serving neighbouring queries."""
    tokens = len(x)
    queries, keys, values = (
        (x @ w.T).reshape(tokens, -1, size).transpose(1, 0, 2) for w in (q, k, v)
    )
    groups = len(queries) // len(keys)
    keys, values = np.repeat(keys, groups, axis=0), np.repeat(values, groups, axis=0)
    scores = queries @ keys.transpose(0, 2, 1) / math.sqrt(size)
    scores += np.triu(np.full((tokens, tokens), -np.inf), k=1)
    return (softmax(scores) @ values).transpose(1, 0, 2).reshape(tokens, -1)


# ---- C048 to C051: heads and degrees -----------------------------------------------------------


@pytest.mark.parametrize(
    ("what_if", "heads", "kv_heads", "degrees"),
    [
        pytest.param(what_if, heads, kv, degrees, id=f"C048-{tag}-{heads}-{kv}")
        for heads, kv, of_transformers, of_what_if in (
            (28, 4, {1, 2, 4}, {1, 2, 4}),
            (14, 2, {1, 2}, {1, 2}),
            (12, 2, {1, 2}, {1, 2, 4}),
            (40, 8, {1, 2, 4, 8}, {1, 2, 4, 8}),
            (52, 52, {1, 2, 4}, {1, 2, 4}),
            (64, 8, {1, 2, 4, 8}, {1, 2, 4, 8, 16}),
        )
        for tag, what_if, degrees in (
            ("transformers", (), of_transformers),
            ("what-if", ("replicate-kv",), of_what_if),
        )
    ],
)
def test_heads_decide_the_usable_degrees(
    what_if: tuple[str, ...], heads: int, kv_heads: int, degrees: set[int], tmp_path: Path
) -> None:
    config = llama(heads, kv_heads)
    tight = TRN2.replace(core_memory_bytes=1)
    path = write_config(tmp_path, config)
    found = plan(str(path), topology=tight, max_length=128, what_if=what_if)
    assert found.verdict == "LEFT_OUT"
    by_heads = {r.cores for r in found.rejected if "divide" in r.reason}
    assert {r.cores for r in found.rejected} == {1, 2, 4, 8, 16}
    assert {1, 2, 4, 8, 16} - by_heads == degrees


@pytest.mark.parametrize("tp_degree", [1, 2])
def test_fewer_cores_than_kv_heads_copy_none(tp_degree: int) -> None:
    """C049: 16 query and 4 KV heads a core on 2, the cache halved; both layouts agree."""
    for what_if in ([], ["replicate-kv"]):
        ranks = Ranks(llama(32, 8), tp_degree, what_if)
        for rank, queries in enumerate(ranks.rows("model.layers.0.self_attn.q_proj.weight")):
            assert len(queries) == 2 * 32 // tp_degree
            keys = ranks.rows("model.layers.0.self_attn.k_proj.weight")[rank]
            first = rank * 8 // tp_degree * 2
            assert keys == list(range(first, first + 2 * 8 // tp_degree))
        cache = ranks.plan().bytes_per_core.categories["kv_cache"].bytes
        assert cache == 128 * 8 * 2 * 2 * 2 // tp_degree


def test_more_cores_than_kv_heads_are_rejected() -> None:
    """C050 transformers."""
    ranks = Ranks(llama(32, 4), 8, [])
    reason = "tp_degree 8 does not divide the 4 KV heads, and Transformers does not replicate them"
    found = ranks.plan()
    assert not found.fits
    assert [r.reason for r in found.rejected] == [reason]
    with pytest.raises(InvalidArgumentError, match=reason):
        ranks.of(0)


def test_more_cores_than_kv_heads_share_them() -> None:
    """C050 what-if: rank r has query heads 4r to 4r + 3 and KV head r // 2."""
    ranks = Ranks(llama(32, 4), 8, ["replicate-kv"])
    queries = ranks.rows("model.layers.0.self_attn.q_proj.weight")
    keys = ranks.rows("model.layers.0.self_attn.k_proj.weight")
    values = ranks.rows("model.layers.0.self_attn.v_proj.weight")
    for rank in range(8):
        assert {row // 2 for row in queries[rank]} == set(range(4 * rank, 4 * rank + 4))
        assert {row // 2 for row in keys[rank]} == {rank // 2}
        assert keys[rank] == values[rank]
    # A quarter of the whole cache, not an eighth: 128 tokens, 4 heads of 2, keys and values.
    cache = ranks.plan().bytes_per_core.categories["kv_cache"].bytes
    assert cache * 4 == 128 * 4 * 2 * 2 * 2


@pytest.mark.parametrize(
    ("what_if", "words"),
    [
        pytest.param([], "does not divide the 3 KV heads", id="C050-transformers"),
        pytest.param(
            ["replicate-kv"],
            "neither of tp_degree 4 and the 3 KV heads divides the other",
            id="C050-what-if",
        ),
    ],
)
def test_queries_of_a_core_that_straddle_two_groups_are_refused(
    what_if: list[str], words: str
) -> None:
    ranks = Ranks(llama(12, 3), 4, what_if)
    assert words in ranks.plan().reason
    with pytest.raises(InvalidArgumentError, match=words):
        ranks.of(1)


@pytest.mark.parametrize(
    ("what_if", "tp_degree"),
    [
        pytest.param([], 2, id="C050-transformers-2"),
        pytest.param([], 4, id="C050-transformers-4"),
        pytest.param(["replicate-kv"], 8, id="C050-what-if-8"),
        pytest.param(["replicate-kv"], 16, id="C050-what-if-16"),
    ],
)
def test_sharded_attention_equals_the_whole_one(what_if: list[str], tp_degree: int) -> None:
    ranks = Ranks(llama(32, 4), tp_degree, what_if)
    random = np.random.default_rng(50)
    names = {w: f"model.layers.0.self_attn.{w}_proj.weight" for w in "qkvo"}
    shapes = {name: shape for name, _, shape in ranks.parameters}
    whole = {w: random.standard_normal(shapes[name]) for w, name in names.items()}
    x = random.standard_normal((5, 64))
    expected = attention(x, whole["q"], whole["k"], whole["v"], 2) @ whole["o"].T
    total = np.zeros_like(expected)
    for rank in range(tp_degree):
        held = ranks.of(rank)
        q, k, v, o = (cut(whole[w], held[name].shard) for w, name in names.items())
        total += attention(x, q, k, v, 2) @ o.T
    np.testing.assert_allclose(total, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("chip", "degrees", "cores"),
    [
        pytest.param("trn1", [1, 2, 8, 16, 32], 8, id="C051-trn1"),
        pytest.param("trn2", [1, 2, 4, 8, 16], 4, id="C051-trn2"),
    ],
)
def test_only_degrees_of_the_machine_are_proposed(
    chip: str, degrees: list[int], cores: int, tmp_path: Path
) -> None:
    """Weights of 14.96 GiB need three cores of 6 GiB; no machine has a group of three."""
    assert [d for d in find_topology(chip).tp_degrees if d <= 32][: len(degrees)] == degrees
    path = str(write_config(tmp_path, KNOWN["Llama-3.1-8B"]["config"]))
    small = find_topology(chip).replace(core_memory_bytes=6 * GIB)
    assert plan(path, topology=small).cores == cores
    # The list is data: a machine that has groups of three is given three.
    heads_of_three = {
        **KNOWN["Llama-3.1-8B"]["config"],
        "hidden_size": 4128,
        "num_attention_heads": 24,
        "num_key_value_heads": 6,
    }
    path = str(write_config(tmp_path, heads_of_three))
    assert plan(path, topology=small.replace(tp_degrees=[3, 1, 2])).cores == 3


# ---- C052: the vocabulary ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what_if", "padding"),
    [
        pytest.param([], [0] * 8, id="C052-transformers"),
        pytest.param(["pad-vocab"], [0] * 7 + [7], id="C052-what-if"),
    ],
)
def test_vocabulary_that_eight_does_not_divide(what_if: list[str], padding: list[int]) -> None:
    ranks = Ranks(llama(8, 8, vocab_size=50257), 8, what_if)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        rows = ranks.rows(name)
        shards = ranks.shards(name)
        assert list(itertools.chain(*rows)) == list(range(50257))
        assert [shard.padding_rows for shard in shards] == padding
        held = [shard.shape[0] for shard in shards]
        assert held == ([6283] * 8 if what_if else [6283] * 7 + [6276])
        assert sum(held) == (50264 if what_if else 50257)
    notes = " ".join(ranks.plan().notes)
    # Two weights of 16 columns: 7 rows of each, in bfloat16.
    stated = "7 rows of zeros make 50264 out of the 50257 rows of each of 2 weights, 448 bytes"
    assert (stated in notes) == bool(what_if)


def test_padded_rows_never_win() -> None:
    """C052 what-if: logits -3, -1, -2 and a row of zeros; the answer is 1, never 3."""
    config = llama(2, 2, vocab_size=3)
    shards = Ranks(config, 2, ["pad-vocab"]).shards("lm_head.weight")
    head = np.array([[-3.0], [-1.0], [-2.0]]) * np.array([[1.0, 0.0, 0.0, 0.0]])
    hidden = np.array([1.0, 0.0, 0.0, 0.0])
    gathered = [cut(head, shard) @ hidden for shard in shards]
    assert np.argmax(np.concatenate(gathered)) == 3  # what goes wrong where nothing is cut
    kept = [
        logits[: len(logits) - shard.padding_rows]
        for logits, shard in zip(gathered, shards, strict=True)
    ]
    logits = np.concatenate(kept)
    assert logits.shape == (3,)
    assert np.argmax(logits) == 1


# ---- C053: fused weights -----------------------------------------------------------------------

PHI3 = {
    "model_type": "phi3",
    "architectures": ["Phi3ForCausalLM"],
    "hidden_size": 4,
    "intermediate_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
QKV = "model.layers.0.self_attn.qkv_proj.weight"
GATE_UP = "model.layers.0.mlp.gate_up_proj.weight"


@pytest.mark.parametrize(
    ("what_if", "qkv", "gate_up"),
    [
        # One range each, gathered again before the heads are told apart.
        pytest.param(
            [],
            ["q0 q1 q2 q3", "k0 k1 v0 v1"],
            ["g0 g1 g2 g3", "u0 u1 u2 u3"],
            id="C053-transformers",
        ),
        pytest.param(
            ["split-fused-qkv"],
            ["q0 q1 k0 v0", "q2 q3 k1 v1"],
            ["g0 g1 u0 u1", "g2 g3 u2 u3"],
            id="C053-what-if",
        ),
    ],
)
def test_fused_rows_at_two_ranks(what_if: list[str], qkv: list[str], gate_up: list[str]) -> None:
    ranks = Ranks(PHI3, 2, what_if)
    named = ["q0", "q1", "q2", "q3", "k0", "k1", "v0", "v1"]
    assert [" ".join(named[row] for row in rows) for rows in ranks.rows(QKV)] == qkv
    named = ["g0", "g1", "g2", "g3", "u0", "u1", "u2", "u3"]
    assert [" ".join(named[row] for row in rows) for rows in ranks.rows(GATE_UP)] == gate_up
    # Gathered heads leave the whole cache on every rank: 128 tokens, 2 heads of 1.
    cache = ranks.plan().bytes_per_core.categories["kv_cache"].bytes
    assert cache == 128 * 2 * 2 * 2 // (2 if what_if else 1)


def test_split_fused_layers_equal_the_whole_ones() -> None:
    """C053 what-if, with KV heads copied too: 4 ranks for 2 KV heads."""
    ranks = Ranks(PHI3, 4, ["split-fused-qkv", "replicate-kv"])
    random = np.random.default_rng(53)
    whole = {name: random.standard_normal(shape) for name, _, shape in ranks.parameters}
    o_proj, down = "model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.down_proj.weight"
    x = random.standard_normal((5, 4))

    def attend(qkv: np.ndarray, o: np.ndarray, queries: int, keys: int) -> np.ndarray:
        q, k, v = np.split(qkv, [queries, queries + keys])
        return attention(x, q, k, v, 1) @ o.T

    def mlp(gate_up: np.ndarray, down: np.ndarray) -> np.ndarray:
        gate, up = np.split(x @ gate_up.T, 2, axis=1)
        return (gate / (1 + np.exp(-gate)) * up) @ down.T

    attended = attend(whole[QKV], whole[o_proj], 4, 2)
    through_mlp = mlp(whole[GATE_UP], whole[down])
    for rank in range(4):
        held = {name: cut(whole[name], p.shard) for name, p in ranks.of(rank).items()}
        attended -= attend(held[QKV], held[o_proj], 1, 1)
        through_mlp -= mlp(held[GATE_UP], held[down])
    np.testing.assert_allclose(attended, 0, atol=1e-12)
    np.testing.assert_allclose(through_mlp, 0, atol=1e-12)


@pytest.mark.parametrize(("half", "loads"), [(6, False), (3, False), (7, True), (4, True)])
def test_packed_experts_that_the_loader_fails_on_are_rejected(
    half: int, loads: bool, tmp_path: Path
) -> None:
    """The loader itself reads for the last of four ranks what a stacked checkpoint holds."""
    config = transformers.MixtralConfig(
        hidden_size=16,
        intermediate_size=half,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        num_local_experts=3,
        vocab_size=64,
    )
    model = transformers.MixtralForCausalLM(config)
    name = "model.layers.0.mlp.experts.gate_up_proj"
    experts = model.get_parameter(name).detach().clone()
    (stacked := tmp_path / "stacked").mkdir()
    model.save_pretrained(stacked, save_original_format=False)
    model.save_pretrained(tmp_path / "single", save_original_format=True)
    with ranks_of(3, 4) as mesh:
        apply_plans(model, ParallelMode.TENSOR, 4, mesh)
        read = DtensorShardOperation(model.get_parameter(name))
        if loads:
            assert read.shard_tensor(experts).shape == (3, 2, 16)
        else:
            with pytest.raises(IndexError):
                read.shard_tensor(experts)
    machine = TRN2.replace(tp_degrees=[4])
    found = plan(str(stacked), topology=machine, max_length=128)
    assert (found.verdict == "FITS") == loads, found.reason
    if not loads:
        assert f"rank 3 of 4 would hold nothing of {name}, two halves of {half}" in found.reason
    # Experts that are stored one by one are read another way, which takes empty parts.
    assert plan(str(tmp_path / "single"), topology=machine, max_length=128).verdict == "FITS"


# ---- C055: a tied head -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what_if", "vocab"),
    [
        pytest.param([], 8, id="C055-transformers"),
        pytest.param(["pad-vocab"], 8, id="C055-what-if"),
        pytest.param(["pad-vocab"], 7, id="C055-what-if-padded"),
    ],
)
def test_tied_head_is_one_shard_whatever_the_embedding_is_called(
    what_if: list[str], vocab: int
) -> None:
    config = {
        "model_type": "gptj",
        "architectures": ["GPTJForCausalLM"],
        "n_embd": 4,
        "n_head": 2,
        "n_layer": 1,
        "rotary_dim": 2,
        "vocab_size": vocab,
        "tie_word_embeddings": True,
    }
    wte = "transformer.wte.weight"
    both: Parameters = [(wte, "F32", [vocab, 4]), ("lm_head.weight", "F32", [vocab, 4])]
    ranks = Ranks(config, 2, what_if, both)
    assert [list(ranks.of(rank)) for rank in range(2)] == [[wte], [wte]]
    shards = ranks.shards(wte)
    random = np.random.default_rng(55)
    weight = random.standard_normal((vocab, 4))
    tokens = np.arange(vocab)
    embedded = np.zeros((vocab, 4))
    parts = []
    for shard, rows in zip(shards, ranks.rows(wte), strict=True):
        own = cut(weight, shard)
        here = np.isin(tokens, rows)
        # Tokens of the other shard contribute 0 before the sum.
        embedded += np.where(here[:, None], own[np.where(here, tokens - rows[0], 0)], 0)
        parts.append(embedded[:0])
    np.testing.assert_array_equal(embedded, weight)
    parts = []
    for shard in shards:
        local = embedded @ cut(weight, shard).T
        parts.append(local[:, : local.shape[1] - shard.padding_rows])
    logits = np.concatenate(parts, axis=1)
    assert logits.shape[1] == vocab  # a second gather would give twice as many
    np.testing.assert_allclose(logits, weight @ weight.T, rtol=0, atol=1e-12)
