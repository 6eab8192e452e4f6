"""Comparison with the reference, against NumPy in float64, SciPy and PyTorch."""

from __future__ import annotations

import math
import threading
from collections import Counter

import numpy as np
import pytest
import scipy.special
import torch

import trnscout
from trnscout import (
    InvalidArgumentError,
    LogitMatch,
    LogitTolerances,
    OutOfRangeError,
    diagnose,
    drift,
    find_non_finite,
    fragility,
    match_logits,
    match_tokens,
    repetition,
)

LEVELS = {5: 0.01, 50: 0.02, 1000: 0.03, None: 0.05}
F32 = np.float32


def expected_position(ours: np.ndarray, reference: np.ndarray) -> dict[str, object]:
    """Work out one position pass after pass, as the header defines it."""
    o, r = ours.astype(np.float64), reference.astype(np.float64)
    our_token, reference_token = int(np.argmax(o)), int(np.argmax(r))
    kept = np.isfinite(r)
    o, r = o[kept], r[kept]
    d = o - r
    centred = r - r.mean()
    shift = d.mean()
    if len(r) > 1 and centred.any():
        design = np.stack([r, np.ones_like(r)], axis=1)
        shift = np.linalg.lstsq(design, o, rcond=None)[0][1]
    errors = []
    for top_k in LEVELS:
        chosen = np.argsort(-r, kind="stable")[:top_k]
        excess = max(0.0, np.abs(d[chosen] - shift).max() - 1e-5)
        divisor = np.abs(r[chosen]).max()
        errors.append(excess / divisor if divisor else (math.inf if excess else 0.0))
    p = scipy.special.log_softmax(r)
    q = scipy.special.log_softmax(o)
    ordered = np.sort(r)
    return {
        "our_token": our_token,
        "reference_token": reference_token,
        "max_abs": np.abs(d).max(),
        "rms": math.sqrt((d**2).mean()),
        "kl": scipy.special.rel_entr(np.exp(p), np.exp(q)).sum(),
        "shift": shift,
        "relative_errors": errors,
        "reference_margin": ordered[-1] - ordered[-2] if len(r) > 1 else 0.0,
    }


def assert_matches_numpy(match: LogitMatch, ours: np.ndarray, reference: np.ndarray) -> None:
    assert match.levels == LEVELS
    assert len(match.positions) == len(reference)
    for at, o, r in zip(match.positions, ours, reference, strict=True):
        expected = expected_position(o, r)
        assert at.our_token == expected["our_token"]
        assert at.reference_token == expected["reference_token"]
        size = np.abs(r[np.isfinite(r)].astype(np.float64)).max() + at.max_abs
        for name in ("max_abs", "rms", "reference_margin"):
            assert getattr(at, name) == pytest.approx(expected[name], rel=1e-12, abs=0), name
        assert at.shift == pytest.approx(expected["shift"], rel=1e-9, abs=1e-9 * size + 1e-30)
        # SciPy's sum itself is exact to about 1e-16 of the differences.
        assert at.kl == pytest.approx(expected["kl"], rel=1e-9, abs=1e-14 * (1 + at.max_abs))
        assert at.relative_errors == pytest.approx(expected["relative_errors"], rel=1e-7, abs=1e-9)
        within = all(e <= b for e, b in zip(at.relative_errors, LEVELS.values(), strict=True))
        assert at.within_levels == within
    assert match.max_abs == max(at.max_abs for at in match.positions)
    assert match.kl_mean == pytest.approx(np.mean([at.kl for at in match.positions]), rel=1e-12)
    assert match.kl_max == max(at.kl for at in match.positions)
    same = [at.our_token == at.reference_token for at in match.positions]
    assert match.top1_agreement == pytest.approx(np.mean(same))
    assert sorted(match.flips + match.ties) == [i for i, one in enumerate(same) if not one]
    worst, token = match.max_abs_position, match.max_abs_token
    difference = float(ours[worst, token]) - float(reference[worst, token])
    assert abs(difference) == match.max_abs


SHAPES = [(1, 1), (1, 2), (3, 5), (2, 51), (4, 1001), (2, 5000), (1, 49152)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_match_logits_agrees_with_numpy_in_float64(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    reference = rng.normal(rng.normal(), 3, shape).astype(F32)
    noise = rng.normal(0, 10.0 ** rng.uniform(-5, 1), shape)
    ours = (reference + noise).astype(F32)
    if seed % 2:  # many equals
        reference, ours = np.round(reference), np.round(ours)
    masked = rng.random(shape) < 0.2 * (seed >= 2)
    masked[:, rng.integers(shape[1])] = False
    reference[masked] = ours[masked] = -np.inf
    assert_matches_numpy(match_logits(ours, reference), ours, reference)


def test_match_logits_takes_denormals_and_the_largest_numbers() -> None:
    tiny = np.array([[1e-45, 0, -1e-45, 3e-39]], F32)
    assert_matches_numpy(match_logits(tiny[:, ::-1].copy(), tiny), tiny[:, ::-1], tiny)
    largest = np.array([[3.4e38, 1.0, -3.4e38, 0.0]], F32)
    match = match_logits(largest, largest)
    assert (match.verdict, match.max_abs, match.kl_max) == ("match", 0.0, 0.0)


def test_match_logits_finds_identical_logits_identical() -> None:
    logits = np.random.default_rng(0).normal(0, 5, (7, 999)).astype(F32)
    match = match_logits(logits, logits.copy())
    assert match.verdict == "match"
    assert match.passes
    assert (match.max_abs, match.rms, match.kl_max, match.worst_ratio) == (0, 0, 0, 0)
    assert match.top1_agreement == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_match_logits_reads_tensors_of_every_type(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    reference = torch.randn(5, 300, generator=generator) * 4
    wide = torch.zeros(9, 400, dtype=dtype)
    ours = wide[::2, 50:350]  # rows lie apart
    ours.copy_(reference)
    match = match_logits(ours, reference)
    assert_matches_numpy(match, ours.float().numpy(), reference.numpy())
    assert fragility(ours).positions == 5


def test_match_logits_reads_arrays_in_place() -> None:
    logits = np.arange(24, dtype=F32).reshape(4, 6)
    for view in (logits[::2], logits[::-1], logits[:, 1:4], logits[0], logits.astype(np.float16)):
        view.flags.writeable = False
        assert match_logits(view, view).max_abs == 0
        reordered = np.ascontiguousarray(view)
        assert match_logits(view, reordered).max_abs == 0
    broadcast = np.broadcast_to(logits[:1], (3, 6))
    assert len(match_logits(broadcast, broadcast).positions) == 3


def test_match_logits_refuses_what_it_cannot_read() -> None:
    good = np.zeros((2, 3), F32)
    for bad, text in [
        (np.zeros((2, 3)), "ours: elements have format 'd'"),
        (np.zeros((2, 3), np.int32), "must be float32, bfloat16 or float16"),
        (np.zeros((2, 6), F32)[:, ::2], "lie 2 elements apart"),
        (np.zeros((1, 2, 3), F32), "has 3 dimensions"),
        (np.zeros((0, 3), F32), r"shape is \[0, 3\]"),
        (np.zeros((3, 2), F32), r"ours is \[3, 2\], the reference \[2, 3\]"),
        (torch.zeros(2, 3, dtype=torch.float64), "of 64 bits, must be float32"),
    ]:
        with pytest.raises(InvalidArgumentError, match=text):
            match_logits(bad, good)
    with pytest.raises(TypeError, match=r"reference: .* neither a buffer nor"):
        match_logits(good, [[1.0]])


class OnAnotherDevice:
    """What a tensor on a GPU says of itself."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self) -> object:
        raise AssertionError("was asked for memory that is not the CPU's")


def test_match_logits_refuses_logits_on_another_device() -> None:
    with pytest.raises(InvalidArgumentError, match="ours: logits are not in the CPU's memory"):
        match_logits(OnAnotherDevice(), np.zeros((2, 3), F32))


def test_logit_tolerances_can_be_changed() -> None:
    tolerances = LogitTolerances()
    assert tolerances.levels == LEVELS
    assert (tolerances.absolute, tolerances.divergence) == (1e-5, 0.001)
    tolerances.levels = {1: 0.5}
    tolerances.remove_shift = False
    reference, ours = np.array([[2, 1]], F32), np.array([[2.5, 1.5]], F32)
    match = match_logits(ours, reference, tolerances)
    assert match.relative_errors == {1: pytest.approx(0.25 - 0.5e-5)}
    assert match.verdict == "match"
    with pytest.raises(InvalidArgumentError, match="top_k is -3, must be at least 1"):
        match_logits(ours, reference, LogitTolerances(levels={-3: 0.1}))
    with pytest.raises(InvalidArgumentError, match="divergence is 0"):
        match_logits(ours, reference, LogitTolerances(divergence=0))
    assert "levels={5: 0.01, 50: 0.02, 1000: 0.03, None: 0.05}" in repr(LogitTolerances())


def test_flip_is_a_tie_only_where_the_noise_explains_it() -> None:
    """Reference logits of 10.01 and 10.02 are one number in bfloat16."""
    rng = np.random.default_rng(0)
    reference = rng.normal(0, 3, (1, 2000)).clip(-9, 9).astype(F32)
    reference[0, 3], reference[0, 7] = 10.01, 10.02
    rounded = torch.from_numpy(reference).bfloat16()
    tie = match_logits(rounded, reference)
    (at,) = tie.positions
    assert (at.our_token, at.reference_token, at.top_token) == (3, 7, "tie")
    assert tie.verdict == "tie"
    assert tie.ties == [0]
    exact = reference.copy()
    exact[0, 3] = 10.03  # as small a margin, but nothing else moved
    assert match_logits(exact, reference).positions[0].top_token == "flipped"
    far = rounded.float().numpy() + rng.normal(0, 1, (1, 2000)).astype(F32)
    far[0, 3], far[0, 7] = 10.03, 10.02  # all else moved far
    assert match_logits(far, reference).verdict == "mismatch"
    control = reference.copy()
    control[0, 3], control[0, 7] = 12.0, 10.0
    assert match_logits(control, reference).verdict == "mismatch"


def test_noise_is_the_median_deviation_of_the_other_likely_tokens() -> None:
    rng = np.random.default_rng(1)
    reference = rng.normal(0, 3, (1, 3000)).astype(F32)
    ours = (reference + rng.normal(0, 0.02, reference.shape)).astype(F32)
    first, second = np.argsort(-reference[0], kind="stable")[:2]
    ours[0, second] = ours[0, first] + F32(0.5)
    (at,) = match_logits(ours, reference).positions
    likely = np.argsort(-reference[0], kind="stable")[:1002]
    others = [i for i in likely if i not in (first, second)]
    d = ours[0, others].astype(np.float64) - reference[0, others]
    assert len(others) == 1000
    upper_median = lambda values: np.sort(values)[len(values) // 2]  # noqa: E731
    sigma = 1.4826 * upper_median(np.abs(d - upper_median(d)))
    assert at.noise == pytest.approx(3 * math.sqrt(2) * sigma, rel=1e-12)
    assert at.pair_margin == reference[0, first].astype(np.float64) - reference[0, second]
    assert at.divergence == ours[0, second].astype(np.float64) - ours[0, first]


def test_nan_never_becomes_a_token() -> None:
    reference = np.zeros((3, 4), F32)
    ours = reference.copy()
    ours[1] = np.nan
    ours[2, 3] = np.nan
    match = match_logits(ours, reference, module="lm_head")
    assert match.verdict == "not_finite"
    assert not match.passes
    assert [at.position for at in match.positions] == [0]
    found = match.non_finite
    assert (found.module, found.position, found.index) == ("ours, lm_head", 1, 0)
    assert (found.kind, found.nans, found.count) == ("nan", 5, 5)
    assert "nan at position 1, index 0; 5 not finite" in repr(match)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_find_non_finite_counts_as_numpy_does(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        values = rng.normal(0, 3, (6, 77)).astype(F32)
        kinds = rng.random(values.shape)
        values[kinds < 0.002] = np.nan
        values[kinds > 0.998] = np.inf
        values[(kinds > 0.4) & (kinds < 0.401)] = -np.inf
        found = find_non_finite(torch.from_numpy(values).to(dtype), "mlp")
        bad = np.argwhere(~np.isfinite(values))
        if not len(bad):
            assert found is None
            continue
        assert (found.position, found.index) == tuple(bad[0])
        assert found.nans == np.isnan(values).sum()
        assert found.positive_infinities == np.isposinf(values).sum()
        assert found.negative_infinities == np.isneginf(values).sum()
    masked = np.array([[1, -np.inf]], F32)
    assert find_non_finite(masked, masked=True) is None
    assert str(find_non_finite(masked)) == "values: -inf at position 0, index 1; 1 not finite"
    assert find_non_finite(np.full((1, 2), -np.inf, F32), masked=True).count == 2


def test_comparisons_run_beside_one_another() -> None:
    rng = np.random.default_rng(3)
    reference = rng.normal(0, 3, (20, 3000)).astype(F32)
    ours = (reference + rng.normal(0, 0.1, reference.shape)).astype(F32)
    expected = repr(match_logits(ours, reference))
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda: results.append(repr(match_logits(ours, reference))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_fragility_agrees_with_numpy_and_with_rounding_by_pytorch() -> None:
    rng = np.random.default_rng(4)
    logits = rng.normal(0, 4, (200, 60)).astype(F32)
    result = fragility(logits, noise_scale=1.5, most_fragile=200)
    r = logits.astype(np.float64)
    order = np.argsort(-r, axis=1, kind="stable")[:, :2]
    top = np.take_along_axis(r, order, 1)
    margin = top[:, 0] - top[:, 1]
    half = np.exp2(np.floor(np.log2(np.abs(top))) - 8)
    sigma = 1.5 * np.sqrt((half**2).sum(1) / 3)
    flip = scipy.special.ndtr(-margin / sigma)
    assert result.smallest_margin == margin.min()
    assert result.smallest_margin_position == margin.argmin()
    assert result.within_rounding == (margin <= half.sum(1)).sum()
    assert result.expected_flips == pytest.approx(flip.sum(), rel=1e-9)
    assert result.any_flip_probability == pytest.approx(1 - np.prod(1 - flip), rel=1e-9)
    assert [at.flip_probability for at in result.most_fragile] == sorted(
        (at.flip_probability for at in result.most_fragile), reverse=True
    )
    for at in result.most_fragile:
        assert (at.token, at.runner_up) == tuple(order[at.position])
        # No rounding to bfloat16 moves a logit by more than its half step.
        moved = torch.from_numpy(top[at.position]).bfloat16().double().numpy() - top[at.position]
        assert np.abs(moved).sum() <= at.rounding
    assert len(fragility(logits).most_fragile) == 5


def plain_tail(tokens: list[int], max_period: int) -> tuple[int, int]:
    """Return tokens and period of the longest tail that comes round twice."""
    best = (0, 0)
    for period in range(1, max_period + 1):
        equal = 0
        while equal + period < len(tokens) and tokens[-1 - equal] == tokens[-1 - equal - period]:
            equal += 1
        if equal >= period and equal + period > best[0]:
            best = (equal + period, period)
    return best


def test_repetition_agrees_with_a_plain_search() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        head = rng.integers(0, 4, rng.integers(0, 12)).tolist()
        tokens = head + rng.integers(0, 4, rng.integers(1, 5)).tolist() * int(rng.integers(0, 6))
        found = repetition(tokens, max_period=9)
        tail = (found.tail.tokens, found.tail.period) if found.tail else (0, 0)
        assert tail == plain_tail(tokens, 9)
        assert found.loops == (tail[1] > 0 and tail[0] // tail[1] >= 3 and tail[0] >= 8)
        for n, ratio in enumerate(found.distinct, start=1):
            grams = Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
            assert ratio == (len(grams) / grams.total() if grams else 0)
    with pytest.raises(OutOfRangeError, match="position 1 is -1"):
        repetition([1, -1])


def test_drift_agrees_with_scipy() -> None:
    from scipy.stats import theilslopes

    rng = np.random.default_rng(6)
    for slope in (0.0, 0.01, -0.01):
        errors = np.abs(3 + slope * np.arange(200) + rng.normal(0, 0.05, 200))
        found = drift(errors, window=10)
        medians = np.median(errors.reshape(20, 10), axis=1)
        assert found.medians == pytest.approx(medians)
        assert found.slope == pytest.approx(theilslopes(medians, 10 * np.arange(20)).slope)
        assert found.ratio == pytest.approx(medians[-1] / medians[0])
        assert not found.grows
    assert drift(np.arange(1, 65, dtype=float)).grows
    with pytest.raises(InvalidArgumentError, match="make 1 windows of 16"):
        drift([1.0] * 20)


def test_match_tokens_and_diagnose() -> None:
    match = match_tokens([5, 6, 7], [5, 6, 8])
    assert (match.equal, match.same_tokens, match.last_shared_token) == (False, 2, 6)
    assert repr(match.first_difference) == "TokenDifference(position=2, ours=7, theirs=8)"
    assert match_tokens([], []).equal
    with pytest.raises(OutOfRangeError, match="token at position 0 is 9, the vocabulary has 9"):
        match_tokens([9], [1], vocab=9)
    assert diagnose(match).cause == "decode_or_cache"
    assert diagnose(match, prompt_tokens=3, window=4).cause == "sliding_cache"
    sharded = diagnose(
        match,
        sharded=True,
        one_core_matches=True,
        modules=[("layers.0", 0.1, 0.2), ("layers.1", 0.3, 0.2)],
    )
    assert (sharded.cause, sharded.module) == ("sharding", "layers.1")
    assert "layers.1 is the first past its bound: 0.3, 0.2 allowed" in str(sharded)
    assert diagnose(match_tokens([9], [1]), vocab=9).cause == "padded_vocabulary"
    assert diagnose(match_tokens([1, 2, 3], [1, 2]), eos_tokens=[2]).cause == "eos_ignored"
    assert diagnose(match_tokens([3], [4])).cause == "prefill"
    nan = find_non_finite(np.array([np.nan], F32), "layers.7")
    assert diagnose(match, non_finite=nan).module == "layers.7"


def test_names_of_verification_are_exported() -> None:
    names = "match_tokens match_logits LogitTolerances LogitMatch fragility find_non_finite"
    for name in f"{names} repetition drift diagnose".split():
        assert name in trnscout.__all__
        assert getattr(trnscout, name) is getattr(trnscout._core, name)
