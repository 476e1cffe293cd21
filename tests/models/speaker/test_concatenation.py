"""Several encoders as one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.pitch_bumps import PitchBumps
from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.concatenation import Concatenation
from voiceveil.models.speaker.encoders import encoder


def test_embedding_is_that_of_the_parts_one_after_the_other() -> None:
    first, second = PitchBumps(), PitchBumps(name="pitch-bumps:other")
    both = Concatenation((first, second))
    wave = Waveform(np.sin(np.arange(16000) / 9.0).astype(np.float32), 16000)
    np.testing.assert_array_equal(both(wave), np.concatenate([first(wave), second(wave)]))
    assert both.dimension == first.dimension + second.dimension
    assert both.name == "concat:pitch-bumps+pitch-bumps:other"


@pytest.mark.parametrize("names", ["", ":", ":pitch-bumps", ":pitch-bumps+pitch-bumps"])
def test_fewer_than_two_encoders_are_refused(names: str) -> None:
    with pytest.raises(InputError, match="two encoders"):
        encoder(f"concat{names}")
