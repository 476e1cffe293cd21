"""The work of resynthesis: a recording is taken apart, gets another voice, and is put together again.

    samples -> level -> content, F0, embedding -> pseudo-speaker -> synthesizer -> level of the original

Recordings longer than 45 s go in pieces of 30 s that overlap by one second, so that memory is bounded; two pieces are
joined where the overlap is quietest. The pseudo-speaker is drawn once, from the first piece that is not silent. The
result has as many samples as the recording, unless its tempo is changed; digital silence stays silent.

Most of the time goes into features of the recording that are the same for many systems: they can be kept in a file, see
:mod:`voiceveil.systems.feature_cache`.

Conventions: 16 kHz; see :mod:`voiceveil.systems.resynthesis.synthesis` for shapes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.core.activity import report_fraction, report_status
from voiceveil.core.errors import InputError
from voiceveil.dsp.effort import balance, effort
from voiceveil.models.content.features import FRAME, LEVEL, at_speed, normalized, on_frames
from voiceveil.models.feature_extractors import FeatureExtractors, feature_extractors
from voiceveil.models.pitch import contour as pitch_frames
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.models.weights import store
from voiceveil.run.ledger import sha256_file
from voiceveil.systems.feature_cache import extract_cached
from voiceveil.systems.resynthesis.pool import Embedding, Pool, load_pool
from voiceveil.systems.resynthesis.prosody import Disguise, at_places, stretched, with_loudness
from voiceveil.systems.resynthesis.pseudo import Learned, PseudoSpeaker, Strategy
from voiceveil.systems.resynthesis.speaking_style import Manner, Register, register_of
from voiceveil.systems.resynthesis.synthesis import Array, LoadedStage, load_stage, synthesize

if TYPE_CHECKING:
    from voiceveil.systems.resynthesis.base import Resynthesis

__all__ = ["Engine", "ResynthesisStream", "engine_of", "fingerprints"]

RATE = 16000
PIECE, OVERLAP = 30 * RATE, RATE
#: The last piece has at least half of that, and all that is left.
REST = 15 * RATE
#: What is shorter is heard with silence behind it.
SHORTEST = int(0.3 * RATE)
#: Half a step of 16-bit PCM: a quieter piece is silence.
SILENCE = 2.0**-16
_FADE = 320
#: Network that hears nothing but codes -> what of the disguise needs it.
_OF_WORDS = {"intonation": "predicted_f0_weight", "voicing": "voicing"}


@dataclass(frozen=True, eq=False)
class Engine:
    """The parts of a system, loaded."""

    parts: FeatureExtractors
    pool: Pool
    strategy: Strategy
    chain: tuple[LoadedStage, ...]
    disguise: Disguise
    intonation: LoadedStage | None = None
    voicing: LoadedStage | None = None

    def pseudo_speaker(
        self, samples: Samples, register: Register | None, rng: np.random.Generator, known: str | None = None
    ) -> PseudoSpeaker:
        """Whom the speaker of some samples becomes, with a ``known`` gender, or one that is heard."""
        if not (
            self.strategy.needs_source_embedding
            or math.isfinite(self.disguise.arousal_threshold)
            or any(stage.unprotected for stage in self.chain)
        ):
            return self.strategy.draw(np.zeros_like(self.pool.embeddings[0]), "", self.pool, rng)
        source = l2_normalized(extract_cached(self.parts.speaker, _audible(samples)))
        gender = known or self.gender_of(source, register)
        return self.strategy.draw(source, gender, self.pool, rng)._replace(source=source)

    def gender_of(self, source: Embedding, register: Register | None) -> str:
        """Estimated from the embedding and the register."""
        return self.pool.gender_of(source, None if register is None else register.mean)

    def f0(self, samples: Samples) -> Array:
        """F0 in Hz of every frame of the samples."""
        return pitch_frames.on_frames(
            extract_cached(self.parts.pitch, _audible(samples)), self.parts.pitch, len(samples)
        )

    def effort(self, samples: Samples, f0: Array) -> float | None:
        """Return the vocal effort of a source with this F0, if it can be heard, and if it matters."""
        found = balance(samples, f0 > 0) if math.isfinite(self.disguise.arousal_threshold) else None
        return None if found is None else effort(found)

    def content(self, samples: Samples, speed: float) -> Array:
        """Content at every frame of the samples: the mean of what is heard so much faster, and so much slower.

        A vocal tract sounds shorter in one and longer in the other, and words are understood better than in either.
        """
        frames, heard = -(-len(samples) // FRAME), []
        for one in dict.fromkeys((speed, round(1 / speed, 2))):
            part = self.parts.content if one == 1 else at_speed(self.parts.content, one)
            heard.append(on_frames(normalized(extract_cached(part, _audible(samples))), part.hop, part.offset, frames))
        return np.asarray(np.mean(heard, axis=0), dtype=np.float32)

    def synthesized(self, content: Array, f0: Array, pseudo: PseudoSpeaker, rng: np.random.Generator) -> Samples:
        """All frames with the voice of the pseudo-speaker, whose embedding has length 1 as those of the training."""
        return synthesize(self.chain, content, f0, l2_normalized(pseudo.embedding), rng, pseudo.source)


class ResynthesisStream:
    """An engine at work on one recording; see :class:`voiceveil.systems.contract.Stream`.

    ``gender``: that of who speaks, "f" or "m", if it is known.
    """

    def __init__(self, engine: Engine, rng: np.random.Generator, gender: str | None = None) -> None:
        self._engine, self._rng, self._gender = engine, rng, gender
        self._waiting = np.zeros(0, dtype=np.float32)
        self._tail: Samples | None = None
        self._pseudo: PseudoSpeaker | None = None
        self._register: Register | None = None
        self._effort: float | None = None
        self._speed: float | None = None
        self._pace = engine.disguise.pace(rng.spawn(1)[0])  # a generator of its own: other draws stay what they are

    def push(self, samples: Samples) -> Samples:
        """Take the next samples; return those that are finished."""
        self._waiting = np.concatenate([self._waiting, samples])
        finished = [np.zeros(0, dtype=np.float32)]
        while len(self._waiting) >= PIECE + REST:
            made = self._joined(self._waiting[:PIECE])
            finished.append(made[: -self._length(OVERLAP)])
            self._tail = made[-self._length(OVERLAP) :]
            self._waiting = self._waiting[PIECE - OVERLAP :]
        return np.concatenate(finished)

    def close(self) -> Samples:
        """Return the rest."""
        return self._joined(self._waiting) if len(self._waiting) else self._waiting

    def finish(self, samples: Samples, peak: float) -> Samples:
        """What is too loud for full scale is made quieter, all of it."""
        return samples * np.float32(0.999 / peak) if peak > 0.999 else samples

    def convert_all(self, samples: Samples) -> Samples:
        """Convert a whole recording at once."""
        pieces = []
        for start in range(0, len(samples), PIECE):
            pieces.append(self.push(samples[start : start + PIECE]))
            report_fraction(start / len(samples))
        made = np.concatenate([*pieces, self.close()])
        return self.finish(made, float(np.abs(made).max()))

    def _joined(self, samples: Samples) -> Samples:
        made = self._resynthesized(samples)
        if self._tail is not None:
            made[: len(self._tail)] = _crossfaded(self._tail, made[: len(self._tail)], samples[:OVERLAP])
        return made

    def _length(self, samples: int) -> int:
        """How many samples become of so many."""
        return round(samples * self._pace)

    def _resynthesized(self, samples: Samples) -> Samples:
        if np.abs(samples).max() < SILENCE:
            return np.zeros(self._length(len(samples)), dtype=np.float32)
        engine, length = self._engine, self._length(len(samples))
        f0 = engine.f0(samples)
        if self._register is None:
            self._register = register_of(f0)
        if self._effort is None:
            self._effort = engine.effort(samples, f0)
        if self._pseudo is None:
            drawn = engine.pseudo_speaker(samples, self._register, self._rng, self._gender)
            self._pseudo = drawn.blend_towards_steady(
                self._manner(drawn).emotion_weight(engine.disguise.arousal_threshold)
            )
        if self._speed is None:
            self._speed = engine.disguise.speed(self._rng)
        places = stretched(engine.disguise.places(len(f0), self._rng), -(-length // FRAME))
        content, f0 = (at_places(track, places) for track in (engine.content(samples, self._speed), f0))
        manner = self._manner(self._pseudo)
        if engine.voicing is not None:
            expected = engine.voicing.run(content, f0, self._pseudo.embedding, self._rng)
            f0 = engine.disguise.voiced(f0, expected, manner)
        f0 = self._intonation(content, f0, self._pseudo, manner)
        made = engine.synthesized(content, f0, self._pseudo, self._rng)[:length]
        made = engine.disguise.effort(made, f0 > 0, manner)
        made = with_loudness(made, samples, engine.disguise.loudness)
        return np.asarray(made * np.float32(_rms(samples) / max(1e-9, _rms(made))), dtype=np.float32)

    def _manner(self, pseudo: PseudoSpeaker) -> Manner:
        """How the source speaks: with the register where a voice was first heard."""
        if self._register is None:
            return Manner()
        heights, engine = None, self._engine
        if pseudo.source is not None:
            heights = engine.pool.heights(self._gender or engine.gender_of(pseudo.source, self._register))
        return self._register.manner(heights, self._effort)

    def _intonation(self, content: Array, f0: Array, pseudo: PseudoSpeaker, manner: Manner) -> Array:
        engine, expected = self._engine, None
        heights = engine.pool.heights(engine.pool.gender_of_nearest(pseudo.embedding))
        if engine.intonation is not None:
            expected = engine.intonation.run(content, f0, l2_normalized(pseudo.embedding), self._rng)
        return engine.disguise.f0(f0, self._register, pseudo.log_f0, heights, manner, expected)


def _audible(samples: Samples) -> Waveform:
    """Samples at the common level, of a length that every part can take."""
    loud = samples * np.float32(LEVEL / max(1e-9, _rms(samples)))
    return Waveform(np.pad(loud, (0, max(0, SHORTEST - len(loud)))), RATE)


def _rms(samples: Samples) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def _crossfaded(old: Samples, new: Samples, heard: Samples) -> Samples:
    """From one piece to the next within 20 ms, at the place where the recording, which was heard there, is quietest."""
    energy = np.convolve(np.square(heard, dtype=np.float64), np.ones(_FADE), mode="valid")
    start = round(int(energy.argmin()) * len(new) / len(heard))
    weight = np.clip((np.arange(len(new)) - start) / _FADE, 0, 1).astype(np.float32)
    return old * (1 - weight) + new * weight


def engine_of(system: Resynthesis) -> Engine:
    """The parts of a system, loaded once a process; an ``InputError`` if one is missing or does not fit the others."""
    if find_spec("torch") is None or find_spec("safetensors") is None:
        raise InputError(f"{system.name} needs torch, which is not installed", fix="pip install 'voiceveil[neural]'")
    weights, pool, of_words = _weights_files(system), _pool_file(system), _files_of_words(system)
    stamps = tuple(map(_stamp, (*weights, pool, *of_words.values())))
    system = replace(system, source_gender="stated")  # one engine for all, as the gender is the stream's
    return _engine(system, weights, pool, tuple(of_words.items()), stamps)


def fingerprints(system: Resynthesis) -> dict[str, str]:
    """Name -> hash or version of every model that the output of a system depends on."""
    engine = engine_of(system)
    weights = {
        f"weights {stage}".strip(): file for stage, file in zip(system.stages, _weights_files(system), strict=True)
    }
    weights |= {f"weights {name}": file for name, file in _files_of_words(system).items()}
    learned = engine.strategy.files() if isinstance(engine.strategy, Learned) else {}
    files = {**weights, "pool": _pool_file(system), **learned}
    return {**{name: sha256_file(file) for name, file in files.items()}, **engine.parts.fingerprints()}


@lru_cache(maxsize=2)
def _engine(
    system: Resynthesis,
    weights: tuple[Path, ...],
    pool: Path,
    of_words: tuple[tuple[str, Path], ...],
    stamps: tuple[int, ...],
) -> Engine:
    report_status("loading models")
    chain = tuple(
        replace(load_stage(file, kinds, system.synthesis()), unprotected=stage in system.unprotected)
        for file, (stage, kinds) in zip(weights, system.stages.items(), strict=True)
    )
    voices = load_pool(pool)
    pieces = feature_extractors(content=system.content, pitch=system.pitch, speaker=system.speaker)
    ours = pieces.fingerprints()
    for number, (stage, file) in enumerate(zip(chain, weights, strict=True)):
        # what a later stage takes is another's output
        _check_parts(stage, file, pieces, ("speaker",) if number else ("content", "speaker"))
    expecting = {name: load_stage(file, (f"{name} of words",)) for name, file in of_words}
    for name, file in of_words:
        fix = f"--set {_OF_WORDS[name]}=0, or `voiceveil train {name} --out {name}` in the folder of the weights"
        _check_parts(expecting[name], file, pieces, ("content",), fix)
    if voices.encoder != ours["speaker"]:
        what = f"this pool is of another speaker encoder: {voices.encoder!r}, not {ours['speaker']!r}"
        raise InputError(what, where=pool, fix=f"voiceveil train pool --speaker {system.speaker}")
    chosen = system.chosen_strategy()
    chosen.check(voices)
    stages = (*chain, *system.last_stages())
    words = expecting.get("intonation"), expecting.get("voicing")
    return Engine(pieces, voices, chosen, stages, system.disguise(), *words)


def _check_parts(
    stage: LoadedStage, file: Path, pieces: FeatureExtractors, names: tuple[str, ...], fix: str = ""
) -> None:
    """An ``InputError`` where a stage was trained with other parts."""
    ours = pieces.fingerprints()
    for name in names:
        theirs = stage.parts.get(name)
        if theirs != ours[name] and (name != "content" or theirs != getattr(pieces.content, "imitates", "")):
            what = f"these weights were trained with another {name}: {theirs!r}, not {ours[name]!r}"
            fix = fix or f"--set {name}=NAME as in the training, or other weights"
            raise InputError(what, where=file, fix=fix)


def _weights_files(system: Resynthesis) -> tuple[Path, ...]:
    """Those of every stage: the user's, each with the hash that the record beside it states; or those that ship."""
    if not system.weights:
        if not system.shipped:
            fix = "train them (see `voiceveil train --help`) and give --weights DIR"
            raise InputError(f"no weights of {system.name} ship with voiceveil", fix=fix)
        return tuple(store.path("-".join(filter(None, (system.shipped, stage)))) for stage in system.stages)
    return tuple(_trained(Path(system.weights) / stage) for stage in system.stages)


def _trained(given: Path) -> Path:
    file = given / "model.safetensors" if given.is_dir() else given
    if not file.is_file():
        raise InputError("no weights here", where=file, fix="give the folder that `voiceveil train` wrote")
    expected = store.trained_sha256(file)
    return file if expected is None else store.checked(file, expected, fix="copy the whole folder again")


def _files_of_words(system: Resynthesis) -> dict[str, Path]:
    """The networks that say what is expected of words, if it matters: those with the user's weights, or what ships."""
    found = {}
    for name, amount in _OF_WORDS.items():
        if getattr(system.disguise(), amount):
            beside = Path(system.weights) / name
            own = system.weights and beside.is_dir()
            found[name] = _trained(beside) if own else store.path(f"{system.shipped}-{name}")
    return found


def _pool_file(system: Resynthesis) -> Path:
    """Return the one that is named; else one that lies with the user's weights; else the one that ships."""
    if system.pool:
        given = Path(system.pool)
        return given / "pool.safetensors" if given.is_dir() else given
    beside = Path(system.weights) / "pool.safetensors"
    return beside if system.weights and beside.is_file() else store.path("pool")


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns if path.is_file() else 0
