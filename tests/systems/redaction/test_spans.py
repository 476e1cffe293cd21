"""Parts that are removed: silence in the recording, a tone in the result."""

from __future__ import annotations

import numpy as np
import pytest

from voiceveil.dsp.tone import LEVEL, tone
from voiceveil.systems.redaction.spans import FADE, Redacted, merge, replace_spans, silence_spans, union

RATE = 8000
SPANS = [(0.5, 1.0), (1.5, 1.75)]


def test_union_joins_what_overlaps() -> None:
    assert union([(1.0, 2.0), (0.5, 1.2), (3.0, 4.0)]) == [(0.5, 2.0), (3.0, 4.0)]
    assert union([]) == []


def test_merge_leaves_out_what_is_removed_already() -> None:
    first = [Redacted(0.0, 2.0, "names", "found")]
    new = [Redacted(0.5, 1.0, "names", "still heard"), Redacted(1.5, 3.0, "names", "still heard")]
    assert merge(first, new) == [first[0], new[1]]


@pytest.mark.parametrize("channels", [None, 2])
@pytest.mark.parametrize("replacement", ["tone", "silence"])
def test_nothing_of_the_words_is_left_in_blocks_of_any_size(channels: int | None, replacement: str) -> None:
    rng = np.random.default_rng(0)
    frames = rng.normal(0, 0.3, 2 * RATE if channels is None else (2 * RATE, channels)).astype(np.float32)
    blocks = [replace_spans(frames[a : a + 777], RATE, a / RATE, SPANS, replacement) for a in range(0, 2 * RATE, 777)]  # type: ignore[arg-type]
    result = np.concatenate(blocks)
    assert result.dtype == np.float32
    time = (np.arange(2 * RATE) + 0.5) / RATE
    inside = np.zeros(2 * RATE, dtype=bool)
    outside = np.ones(2 * RATE, dtype=bool)
    for start, end in SPANS:
        inside |= (time > start + FADE) & (time < end - FADE)
        outside &= (time < start) | (time > end)
    np.testing.assert_array_equal(result[outside], frames[outside])
    expected = tone(2 * RATE, RATE) if replacement == "tone" else np.zeros(2 * RATE, dtype=np.float32)
    columns = result.reshape(2 * RATE, -1)
    assert np.abs(columns[inside] - expected[inside, None]).max() < 1e-6


def test_silencing_keeps_everything_else() -> None:
    frames = np.ones(2 * RATE, dtype=np.float32)
    silenced = silence_spans(frames, RATE, 0.0, SPANS)
    assert silenced[: RATE // 2].all()
    assert not silenced[round((0.5 + FADE) * RATE) + 1 : RATE - round(FADE * RATE) - 1].any()
    assert silence_spans(frames, RATE, 0.0, []) is frames


def test_the_tone_goes_on_in_phase() -> None:
    whole = tone(1000, RATE)
    np.testing.assert_allclose(whole[400:], tone(600, RATE, 400 / RATE), atol=1e-6)
    assert np.abs(whole).max() == pytest.approx(LEVEL, rel=0.01)
