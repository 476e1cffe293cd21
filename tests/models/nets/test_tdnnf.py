"""TDNN-F: published size, context, subsampling, semi-orthogonal constraint, alignments, training."""

from __future__ import annotations

from itertools import groupby, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil.core.errors import InputError
from voiceveil.models.asr.ctc_alignment import align, fewest_frames

torch = pytest.importorskip("torch", reason="torch is not installed")

from voiceveil.models.nets.tdnnf import Tdnnf, TdnnfSize, orthogonality, semi_orthogonal_step  # noqa: E402


def tiny(outputs: int = 4) -> Tdnnf:
    torch.manual_seed(0)
    return Tdnnf(TdnnfSize(outputs, features=6, utterance=3, dim=24, factor=8, bottleneck=10, strides=(1, 0, 3, 3)))


def test_number_of_parameters() -> None:
    first = 220 * 1536 + 1536
    strided, single = 2 * (2 * 1536 * 160) + 1536, 2 * (1536 * 160) + 1536
    head = 256 * 1536 + 1536 + 1536 * 256 + 256 * 29 + 29
    expected = first + 15 * strided + single + 1536 * 256 + 2 * head
    network = Tdnnf(TdnnfSize(29))
    assert sum(p.numel() for p in network.parameters()) == expected == 17_585_210
    assert network.context == 1 + 3 + 36
    assert len(network.layers) + 1 == 17
    assert sum(p.numel() for p in Tdnnf(TdnnfSize.small(29)).parameters()) < 1_500_000


@pytest.mark.parametrize("frames", [1, 2, 3, 10, 31])
def test_subsampling_selects_frames(frames: int) -> None:
    network = tiny().eval()
    features, utterance = torch.randn(2, frames, 6), torch.randn(2, 3)
    every = network.bottleneck(features, utterance)
    assert every.shape == (2, frames, 10)
    third = network.bottleneck(features, utterance, subsampling=3)
    torch.testing.assert_close(third, every[:, ::3], rtol=0, atol=1e-5)
    ctc, ce = network(features, utterance)
    assert ctc.shape == ce.shape == (2, -(-frames // 3), 4)
    torch.testing.assert_close(ctc.exp().sum(dim=2), torch.ones(ctc.shape[:2]))


def test_receptive_field_is_as_stated() -> None:
    network = tiny().eval()
    features = torch.randn(1, 60, 6, requires_grad=True)
    network.bottleneck(features, torch.randn(1, 3))[0, 30].sum().backward()  # type: ignore[no-untyped-call]
    assert features.grad is not None
    seen = np.flatnonzero(features.grad[0].abs().sum(dim=1).numpy())
    assert network.context == 8
    assert (seen.min(), seen.max()) == (30 - 8, 30 + 8)


def test_parts_with_context_equal_the_whole() -> None:
    network = tiny().eval()
    features, utterance = torch.randn(1, 70, 6), torch.randn(1, 3)
    whole = network.bottleneck(features, utterance)
    part = network.bottleneck(features[:, 30 - 8 : 50 + 8], utterance)
    torch.testing.assert_close(part[:, 8:-8], whole[:, 30:50], rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", [(8, 40), (40, 8), (5, 5)])
def test_semi_orthogonal_constraint_converges(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    weight = torch.randn(*shape, dtype=torch.float64)
    for _ in range(300):
        weight = semi_orthogonal_step(weight)
    wide = weight if shape[0] <= shape[1] else weight.T
    assert orthogonality(wide) == pytest.approx(1.0, abs=1e-6)
    gram = wide @ wide.T
    torch.testing.assert_close(gram, gram[0, 0] * torch.eye(len(gram), dtype=gram.dtype), rtol=0, atol=1e-2)


def test_semi_orthogonal_matrix_is_a_fixed_point() -> None:
    rows = torch.linalg.qr(torch.randn(40, 8, dtype=torch.float64))[0].T * 3.7
    torch.testing.assert_close(semi_orthogonal_step(rows), rows)


def test_constrain_updates_all_matrices() -> None:
    network = tiny()
    before = [orthogonality(layer.linear.weight.flatten(1)) for layer in network.layers]  # type: ignore[union-attr, operator]
    for _ in range(60):
        network.constrain()
    after = [orthogonality(layer.linear.weight.flatten(1)) for layer in network.layers]  # type: ignore[union-attr, operator]
    assert all(b > 1.02 > a for a, b in zip(after, before, strict=True))
    assert orthogonality(network.prefinal.weight) < 1.02


def collapsed(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(token for token, _ in groupby(path) if token)


@settings(max_examples=60)
@given(st.integers(0, 2**31), st.integers(1, 6), st.lists(st.integers(1, 2), max_size=3))
def test_alignment_equals_the_best_of_all_paths(seed: int, frames: int, tokens: list[int]) -> None:
    scores = np.random.default_rng(seed).standard_normal((frames, 3))
    paths = [p for p in product(range(3), repeat=frames) if collapsed(p) == tuple(tokens)]
    if not paths:
        assert frames < fewest_frames(np.array(tokens, dtype=int))
        with pytest.raises(InputError, match="too few"):
            align(scores, tokens)
        return
    best = max(paths, key=lambda p: sum(scores[t, s] for t, s in enumerate(p)))
    assert tuple(align(scores, tokens)) == best


def test_invalid_tokens_are_rejected() -> None:
    with pytest.raises(InputError, match=r"a token is the blank, or not an output \(use 0 to 2 except 0\)"):
        align(np.zeros((4, 3)), [0, 1])
    with pytest.raises(InputError, match="2 frames are too few for 2 tokens"):
        align(np.zeros((2, 3)), [1, 1])


def test_learns_a_few_utterances() -> None:
    """CTC learns the tokens, the other head the alignment by CTC, and the constraint holds."""
    network = tiny()
    rng = np.random.default_rng(0)
    tokens = [[1, 2, 3, 1], [3, 1, 2, 3]]
    means = rng.standard_normal((4, 6)) * 2
    features = torch.tensor(np.stack([np.repeat(means[t], 12, axis=0) for t in tokens])).float()
    features = features + 0.1 * torch.randn(features.shape)
    utterance = torch.zeros(2, 3)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for step in range(80):
        ctc, ce = network(features, utterance)
        rows = torch.full((2,), ctc.shape[1])
        loss = torch.nn.functional.ctc_loss(ctc.transpose(0, 1), torch.tensor(tokens), rows, torch.full((2,), 4))
        alignments = [align(row.detach().numpy(), t) for row, t in zip(ctc, tokens, strict=True)]
        loss = loss + torch.nn.functional.nll_loss(ce.flatten(0, 1), torch.tensor(np.concatenate(alignments)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 3:
            network.constrain()
    network.eval()
    for head in network(features, utterance):
        assert [list(collapsed(tuple(row.argmax(dim=1).tolist()))) for row in head] == tokens
    assert all(orthogonality(layer.linear.weight.flatten(1)) < 1.1 for layer in network.layers)  # type: ignore[union-attr, operator]
