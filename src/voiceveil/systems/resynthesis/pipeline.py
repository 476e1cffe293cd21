"""The pipeline of resynthesis: extract features of a recording, replace the speaker, synthesize a waveform.

    samples -> level -> content, F0, embedding -> pseudo-speaker -> synthesizer -> level of the original

Recordings longer than 45 s are converted in pieces of 30 s that overlap by one second, so that memory is bounded; two
pieces are joined where the overlap is quietest. The pseudo-speaker is drawn once, from the first piece that is not
silent. The output is as long as the recording unless its tempo is changed; digital silence stays silent.

Most of the time goes into features of the recording that are the same for many systems: they can be kept in a file, see
:mod:`voiceveil.systems.feature_cache`.

Conventions: 16 kHz; see :mod:`voiceveil.systems.resynthesis.synthesis` for shapes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.core.activity import report_fraction
from voiceveil.dsp.effort import spectral_balance, vocal_effort
from voiceveil.models.content.features import FRAME, LEVEL, at_speed, content_on_frames, prepared_content
from voiceveil.models.feature_extractors import FeatureExtractors
from voiceveil.models.pitch.trackers import f0_on_frames
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.systems.feature_cache import extract_cached
from voiceveil.systems.resynthesis.pool import Embedding, Pool
from voiceveil.systems.resynthesis.prosody import ProsodyChange, at_positions, match_loudness, resample_positions
from voiceveil.systems.resynthesis.speaking_style import F0Statistics, SpeakingStyle, f0_statistics
from voiceveil.systems.resynthesis.strategies import PseudoSpeaker, Strategy
from voiceveil.systems.resynthesis.synthesis import Array, LoadedStage, synthesize

__all__ = ["Pipeline", "ResynthesisStream"]

RATE = 16000
PIECE, OVERLAP = 30 * RATE, RATE
#: Shortest remainder in samples that becomes a piece of its own: the last piece is at least that much and the overlap.
REMAINDER = 15 * RATE
#: Shorter input of an extractor is padded with silence, in samples.
SHORTEST = int(0.3 * RATE)
#: Half a step of 16-bit PCM: a piece with a lower peak is silence.
SILENCE = 2.0**-16
#: Frames at the end of a piece and at the beginning of the next one whose timing is kept, so that they can be joined.
JOINED = 110
_FADE = 320  # samples


@dataclass(frozen=True, eq=False)
class Pipeline:
    """The loaded models of a system.

    Parameters
    ----------
    extractors
        Extractors of content, F0 and speaker embedding.
    pool, strategy
        Speakers, and how a pseudo-speaker is made of them.
    stages
        Networks of the synthesis, in order.
    prosody
        Changes to prosody.
    f0_predictor, voicing_predictor, duration_predictor
        Networks that predict F0 contour, voicing and durations from the words, if ``prosody`` needs them.
    """

    extractors: FeatureExtractors
    pool: Pool
    strategy: Strategy
    stages: tuple[LoadedStage, ...]
    prosody: ProsodyChange
    f0_predictor: LoadedStage | None = None
    voicing_predictor: LoadedStage | None = None
    duration_predictor: LoadedStage | None = None

    @property
    def uses_source_embedding(self) -> bool:
        """Return whether the pseudo-speaker, the prosody or a stage depends on the speaker embedding of the source."""
        return (
            self.strategy.needs_source_embedding
            or math.isfinite(self.prosody.arousal_threshold)
            or any(stage.uses_source for stage in self.stages)
        )

    def source_embedding(self, samples: Samples) -> Embedding | None:
        """Return the speaker embedding of a recording's first piece, L2-normalized; None if it is silent."""
        piece = samples if len(samples) < PIECE + REMAINDER else samples[:PIECE]
        if not len(piece) or np.abs(piece).max() < SILENCE:
            return None
        return l2_normalized(extract_cached(self.extractors.speaker, _extractor_input(piece)))

    def pseudo_speaker(
        self,
        source: Embedding | None,
        statistics: F0Statistics | None,
        rng: np.random.Generator,
        gender: str | None = None,
    ) -> PseudoSpeaker:
        """Draw the pseudo-speaker of a recording.

        Parameters
        ----------
        source
            Speaker embedding of the source, L2-normalized; None: it is not used.
        statistics
            Statistics of its F0; None: it is never voiced, or does not count.
        rng
            The only source of randomness.
        gender
            Gender of the source, "f" or "m"; None: estimated.
        """
        if source is None:
            return self.strategy.draw(np.zeros_like(self.pool.embeddings[0]), "", self.pool, rng)
        gender = gender or self.gender_of(source, statistics)
        return self.strategy.draw(source, gender, self.pool, rng)._replace(source=source)

    def gender_of(self, source: Embedding, statistics: F0Statistics | None) -> str:
        """Estimate the gender, "f" or "m", from the embedding and the mean F0."""
        return self.pool.gender_of(source, None if statistics is None else statistics.mean)

    def f0(self, samples: Samples) -> Array:
        """Return F0 in Hz for every frame of the samples, 0 for unvoiced."""
        tracker = self.extractors.pitch
        return f0_on_frames(extract_cached(tracker, _extractor_input(samples)), tracker, len(samples))

    def effort(self, samples: Samples, f0: Array) -> float | None:
        """Return the vocal effort as a z-score; None if it is not needed, or too little is voiced."""
        needed = math.isfinite(self.prosody.arousal_threshold)
        balance = spectral_balance(samples, f0 > 0) if needed else None
        return None if balance is None else vocal_effort(balance)

    def content(self, samples: Samples, speed: float) -> Array:
        """Return content features averaged over two playback speeds, ``speed`` and ``1 / speed``, for every frame.

        This blurs vocal-tract length, which sounds shorter at one speed and longer at the other; words stay clearer in
        the average than at either speed.
        """
        frames, versions = -(-len(samples) // FRAME), []
        for factor in dict.fromkeys((speed, round(1 / speed, 2))):
            extractor = self.extractors.content if factor == 1 else at_speed(self.extractors.content, factor)
            features = prepared_content(extractor, extract_cached(extractor, _extractor_input(samples)))
            versions.append(content_on_frames(features, extractor.hop, extractor.offset, frames))
        return np.asarray(np.mean(versions, axis=0), dtype=np.float32)

    def synthesize(self, content: Array, f0: Array, pseudo: PseudoSpeaker, rng: np.random.Generator) -> Samples:
        """Return the waveform of all frames in the voice of the pseudo-speaker."""
        return synthesize(self.stages, content, f0, l2_normalized(pseudo.embedding), rng, pseudo.source)


class ResynthesisStream:
    """Converts one recording; see :class:`voiceveil.systems.contract.Stream`.

    Parameters
    ----------
    pipeline
        The models.
    rng
        Generator of the recording, or of its speaker.
    gender
        Gender of the source, "f" or "m"; None: estimated.
    embedding
        Speaker embedding of the source, L2-normalized; None: that of the first piece that is not silent.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        rng: np.random.Generator,
        gender: str | None = None,
        embedding: Embedding | None = None,
    ) -> None:
        self._pipeline, self._rng, self._gender, self._embedding = pipeline, rng, gender, embedding
        self._waiting = np.zeros(0, dtype=np.float32)
        self._tail: Samples | None = None
        self._last = False
        self._pseudo: PseudoSpeaker | None = None
        self._f0_statistics: F0Statistics | None = None
        self._effort: float | None = None
        self._speed: float | None = None
        # from a generator of its own, so that the other draws do not depend on it
        self._duration_factor = pipeline.prosody.draw_duration_factor(rng.spawn(1)[0])

    def push(self, samples: Samples) -> Samples:
        """Take the next samples; return those that are finished."""
        self._waiting = np.concatenate([self._waiting, samples])
        finished = [np.zeros(0, dtype=np.float32)]
        while len(self._waiting) >= PIECE + REMAINDER:
            piece = self._convert_and_join(self._waiting[:PIECE])
            finished.append(piece[: -self._output_length(OVERLAP)])
            self._tail = piece[-self._output_length(OVERLAP) :]
            self._waiting = self._waiting[PIECE - OVERLAP :]
        return np.concatenate(finished)

    def close(self) -> Samples:
        """Return the rest."""
        self._last = True
        return self._convert_and_join(self._waiting) if len(self._waiting) else self._waiting

    def finish(self, samples: Samples, peak: float) -> Samples:
        """Scale the recording down if its ``peak`` exceeds full scale."""
        return samples * np.float32(0.999 / peak) if peak > 0.999 else samples

    def convert_all(self, samples: Samples) -> Samples:
        """Convert a whole recording at once."""
        pieces = []
        for start in range(0, len(samples), PIECE):
            pieces.append(self.push(samples[start : start + PIECE]))
            report_fraction(start / len(samples))
        output = np.concatenate([*pieces, self.close()])
        return self.finish(output, float(np.abs(output).max()))

    def _convert_and_join(self, samples: Samples) -> Samples:
        """Convert a piece; crossfade its beginning with the end of the piece before."""
        output = self._convert(samples)
        if self._tail is not None:
            output[: len(self._tail)] = _crossfaded(self._tail, output[: len(self._tail)], samples[:OVERLAP])
        return output

    def _output_length(self, n: int) -> int:
        """Return the output length in samples for ``n`` input samples at the current tempo."""
        return round(n * self._duration_factor)

    def _convert(self, samples: Samples) -> Samples:
        """Convert a piece."""
        length = self._output_length(len(samples))
        if np.abs(samples).max() < SILENCE:
            return np.zeros(length, dtype=np.float32)
        pipeline, rng = self._pipeline, self._rng
        prosody = pipeline.prosody
        f0 = pipeline.f0(samples)
        pseudo = self._measured_and_drawn(samples, f0)
        if self._speed is None:
            self._speed = prosody.draw_speed(rng)
        style = self._style(pseudo)
        content = pipeline.content(samples, self._speed)
        positions = resample_positions(prosody.draw_positions(len(f0), rng), -(-length // FRAME))
        if pipeline.duration_predictor is not None:
            retimed = self._retimed(content, style, pipeline.duration_predictor)
            positions = np.interp(positions, np.arange(len(f0)), retimed)
        content, f0 = (at_positions(track, positions) for track in (content, f0))
        if pipeline.voicing_predictor is not None:
            predicted = pipeline.voicing_predictor.run(content, f0, pseudo.embedding, rng)
            f0 = prosody.convert_voicing(f0, predicted, style)
        f0 = self._convert_f0(content, f0, pseudo, style)
        output = pipeline.synthesize(content, f0, pseudo, rng)[:length]
        output = prosody.convert_effort(output, f0 > 0, style)
        output = match_loudness(output, samples, prosody.loudness)
        return np.asarray(output * np.float32(_rms(samples) / max(1e-9, _rms(output))), dtype=np.float32)

    def _retimed(self, content: Array, style: SpeakingStyle, predictor: LoadedStage) -> NDArray[np.float64]:
        """Return positions (T,) with the durations of an average reader, unchanged where pieces are joined."""
        begin = JOINED if self._tail is not None else 0
        end = len(content) - JOINED * (not self._last)
        positions = np.arange(len(content), dtype=np.float64)
        positions[begin:end] = begin + self._pipeline.prosody.convert_durations(
            content[begin:end], lambda phones: predictor.run(phones, phones, phones, self._rng), style
        )
        return positions

    def _measured_and_drawn(self, samples: Samples, f0: Array) -> PseudoSpeaker:
        """Measure the source's F0 and effort and draw the pseudo-speaker, each in the first piece that allows it."""
        pipeline = self._pipeline
        if self._f0_statistics is None:
            self._f0_statistics = f0_statistics(f0)
        if self._effort is None:
            self._effort = pipeline.effort(samples, f0)
        if self._pseudo is None:
            drawn = self._drawn(samples)
            weight = self._style(drawn).emotion_weight(pipeline.prosody.arousal_threshold)
            self._pseudo = drawn.blend_towards_steady(weight)
        return self._pseudo

    def _drawn(self, samples: Samples) -> PseudoSpeaker:
        """Draw the pseudo-speaker; a known speaker's depends on nothing else in the recording."""
        pipeline = self._pipeline
        if not pipeline.uses_source_embedding:
            return pipeline.pseudo_speaker(None, None, self._rng)
        if self._embedding is not None:
            return pipeline.pseudo_speaker(self._embedding, None, self._rng, self._gender)
        source = pipeline.source_embedding(samples)
        return pipeline.pseudo_speaker(source, self._f0_statistics, self._rng, self._gender)

    def _style(self, pseudo: PseudoSpeaker) -> SpeakingStyle:
        """Return the speaking style of the source."""
        if self._f0_statistics is None:
            return SpeakingStyle()
        population, pipeline = None, self._pipeline
        if pseudo.source is not None:
            gender = self._gender or pipeline.gender_of(pseudo.source, self._f0_statistics)
            population = pipeline.pool.f0_population(gender)
        return self._f0_statistics.style(population, self._effort)

    def _convert_f0(self, content: Array, f0: Array, pseudo: PseudoSpeaker, style: SpeakingStyle) -> Array:
        pipeline, predicted = self._pipeline, None
        population = pipeline.pool.f0_population(pipeline.pool.gender_of_nearest(pseudo.embedding))
        if pipeline.f0_predictor is not None:
            predicted = pipeline.f0_predictor.run(content, f0, l2_normalized(pseudo.embedding), self._rng)
        return pipeline.prosody.convert_f0(f0, self._f0_statistics, pseudo.log_f0, population, style, predicted)


def _extractor_input(samples: Samples) -> Waveform:
    """Return the samples at a common level, padded to a length that every extractor accepts."""
    scaled = samples * np.float32(LEVEL / max(1e-9, _rms(samples)))
    return Waveform(np.pad(scaled, (0, max(0, SHORTEST - len(scaled)))), RATE)


def _rms(samples: Samples) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def _crossfaded(old: Samples, new: Samples, source: Samples) -> Samples:
    """Fade from the old piece to the new one within 20 ms, where the source of the overlap is quietest."""
    energy = np.convolve(np.square(source, dtype=np.float64), np.ones(_FADE), mode="valid")
    start = round(int(energy.argmin()) * len(new) / len(source))
    weight = np.clip((np.arange(len(new)) - start) / _FADE, 0, 1).astype(np.float32)
    return old * (1 - weight) + new * weight
