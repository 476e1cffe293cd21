"""Are the words kept? Recognizers, transcripts of a corpus, and the word error rate with its interval.

Conventions: audio is mono at the recognizer's ``rate``; a transcript is a string as the recognizer writes it, which
:mod:`voiceveil.models.asr.text_normalization` makes comparable. Rates are fractions; WER may exceed 1.

>>> corpus = open_corpus("data/libri_dev_trials_f_b2")                       # doctest: +SKIP
>>> transcripts = transcribe(corpus, recognizer("moonshine"))                 # doctest: +SKIP
>>> print(word_error_rate(corpus, transcripts).wer)                           # doctest: +SKIP
37.7% [30.6, 46.1]

A recognizer is an :class:`~voiceveil.run.extract.Evaluator` of strings: a small frozen dataclass that loads its
weights when it is first called in a process. A new one is one class and a registered function
that makes it::

    @recognizers.register("mine")
    def mine(model: str, *, online: bool = False) -> Recognizer: ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform, info, load
from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry
from voiceveil.corpus import Utterance
from voiceveil.metrics.wer import WordErrors, word_errors
from voiceveil.models.asr.text_normalization import Normalization, normalizer
from voiceveil.run.context import RunContext
from voiceveil.run.extract import Evaluator
from voiceveil.run.progress import Progress
from voiceveil.stats.rates import compare_ratios, ratio
from voiceveil.stats.values import Difference, Estimate

__all__ = [
    "BatchRecognizer",
    "Recognizer",
    "WordErrorRate",
    "check_audio",
    "compare_word_error_rates",
    "recognizer",
    "recognizers",
    "references",
    "transcribe",
    "word_error_rate",
]

#: What turns audio into words.
Recognizer = Evaluator[str]


@runtime_checkable
class BatchRecognizer(Evaluator[str], Protocol):
    """A recognizer that takes several utterances at once: worth it on a graphics card, not on one core."""

    @property
    def batch_seconds(self) -> float:
        """Audio to take at once, padding included; 0: one utterance after the other."""
        ...

    def many(self, waves: Sequence[Waveform]) -> list[str]:
        """Return the transcripts, the same that each utterance alone would get."""
        ...


class Factory(Protocol):
    """What the registry holds: it makes a recognizer from the model that the user names ("" if none is named)."""

    def __call__(self, model: str, *, online: bool = False) -> Recognizer:
        """Return the recognizer; ``online``: a model that is not on this machine may be fetched."""
        ...


#: Name -> factory.
recognizers: Registry[Factory] = Registry(
    "recognizer",
    group="voiceveil.recognizers",
    modules=(
        "voiceveil.models.asr.moonshine",
        "voiceveil.models.asr.pocketsphinx",
        "voiceveil.models.asr.ctc",
        "voiceveil.models.asr.whisper",
    ),
)


def recognizer(spec: str, *, online: bool = False) -> Recognizer:
    """Return a recognizer from what a user writes: ``NAME``, ``NAME:MODEL``, or a MODEL whose kind its files tell.

    MODEL is a folder or a hub id, see :mod:`voiceveil.models.pretrained`. Examples: ``moonshine`` (the default,
    embedded), ``pocketsphinx``, ``vpc2024``, ``ctc:models/mine``, ``whisper:openai/whisper-base.en``, ``models/mine``.
    """
    name, _, model = spec.partition(":")
    if name in recognizers:
        return recognizers[name](model, online=online)
    from voiceveil.models.pretrained import model_kind

    if "/" in spec or Path(spec).is_dir():
        return recognizers[model_kind(spec, online=online)](spec, online=online)
    return recognizers[name](model)  # unknown: says what was meant


def check_audio(wave: Waveform, rate: int, fewest: int) -> None:
    """Refuse what a model cannot take: another rate, fewer samples than one frame, NaN."""
    if wave.rate != rate:
        raise InputError(f"audio at {wave.rate} Hz, but the recognizer takes {rate} Hz", fix=f"load(..., rate={rate})")
    if len(wave) < fewest:
        raise InputError(f"{len(wave)} samples of audio, but a frame needs {fewest}", fix="leave the utterance out")
    if not np.isfinite(wave.samples).all():
        raise InputError("a sample is not finite", fix="repair the recording")


def references(utterances: Iterable[Utterance]) -> dict[str, str]:
    """Utterance id -> what was said; an ``InputError`` if an utterance has no text."""
    listed = list(utterances)
    if not listed:
        raise InputError("no utterance to recognize")
    missing = [u for u in listed if u.text is None]
    if missing:
        what = f"{len(missing)} of {len(listed)} utterances have no text, e.g. {missing[0].id}"
        fix = "a WER needs transcripts: a file `text` in a Kaldi directory, a column `text` in a manifest"
        raise InputError(what, where=missing[0].path, fix=fix)
    return {u.id: u.text or "" for u in listed}


def transcribe(
    utterances: Iterable[Utterance],
    recognizer: Recognizer,
    context: RunContext | None = None,
) -> dict[str, str]:
    """Return utterance id -> transcript, in the order of the utterances; known ones come from the cache."""
    run, listed = context or RunContext(), list(utterances)
    if isinstance(recognizer, BatchRecognizer) and recognizer.batch_seconds > 0:
        _in_batches(listed, recognizer, run)
    return run.extract(listed, recognizer)


def _in_batches(utterances: list[Utterance], recognizer: BatchRecognizer, context: RunContext) -> None:
    """Fill the cache, batches of utterances of similar length at a time."""
    store = context.cache
    keys = store.keys(recognizer.fingerprint(), utterances)
    waiting = [u for u in utterances if store.get(keys[u.id]) is None]
    lengths = check_lengths(waiting, recognizer.minimum)
    with Progress(
        "recognizing words", len(waiting), work=sum(lengths.values()), quiet=not context.progress
    ) as progress:
        for batch in batches(lengths, recognizer.batch_seconds):
            chosen = [u for u in waiting if u.id in batch]
            waves = [load(u.path, rate=recognizer.rate, start=u.start, duration=u.duration) for u in chosen]
            for utterance, transcript in zip(chosen, recognizer.many(waves), strict=True):
                store.put(keys[utterance.id], transcript)
                progress.advance(lengths[utterance.id], audio=lengths[utterance.id])


def batches(lengths: Mapping[str, float], total: float) -> Iterator[list[str]]:
    """Ids in groups of similar length, the longest first; padded to its longest, no group of several exceeds ``total``.

    >>> list(batches({"a": 1.0, "b": 4.0, "c": 3.0, "d": 9.0}, 8.0))
    [['d'], ['b', 'c'], ['a']]
    """
    group: list[str] = []
    for name in sorted(lengths, key=lambda name: (-lengths[name], name)):
        if group and lengths[group[0]] * (len(group) + 1) > total:
            yield group
            group = []
        group.append(name)
    if group:
        yield group


def check_lengths(utterances: Iterable[Utterance], minimum: float) -> dict[str, float]:
    """Utterance id -> seconds, from the headers; an ``InputError`` if one is shorter than ``minimum``."""
    lengths = {}
    for u in utterances:
        lengths[u.id] = info(u.path).duration - u.start if u.duration is None else u.duration
        if lengths[u.id] < minimum:
            what = f"utterance {u.id} has {lengths[u.id]:.3f} s, but at least {minimum:g} s are needed"
            raise InputError(what, where=u.path)
    return lengths


@dataclass(frozen=True, eq=False)
class WordErrorRate:
    """Word errors of a corpus: ``errors`` has the counts and alignments, ``wer`` the rate and its interval."""

    errors: WordErrors
    speakers: tuple[str, ...]  # of each utterance, in the order of ``errors.utterances``
    wer: Estimate


def word_error_rate(
    utterances: Iterable[Utterance],
    transcripts: Mapping[str, str],
    *,
    words: Normalization = "plain",
    resamples: int = 1000,
    seed: int = 0,
) -> WordErrorRate:
    """Compare transcripts with the corpus; ``words`` names the text normalization of both.

    The interval is over speakers; over utterances if the corpus does not say who speaks.
    """
    listed = list(utterances)
    normalize = normalizer(words)
    refs = {name: normalize(text) for name, text in references(listed).items()}
    errors = word_errors(refs, {name: normalize(text) for name, text in transcripts.items()})
    known = all(u.speaker is not None for u in listed)
    speakers = tuple((u.speaker or "") if known else u.id for u in listed)
    wrong, said = _edits_and_words(errors)
    wer = ratio(wrong, said, speakers, resamples=resamples, seed=seed)
    return WordErrorRate(errors, speakers, wer if known else replace(wer, of="utterances"))


def compare_word_error_rates(
    first: WordErrorRate, second: WordErrorRate, *, resamples: int = 1000, seed: int = 0
) -> Difference:
    """Return the second WER minus the first, e.g. anonymized minus original; both of the same utterances."""
    if first.errors.utterances != second.errors.utterances:
        raise InputError("the word error rates are of different utterances", fix="compare the same corpus")
    (wrong, said), (other, said_too) = _edits_and_words(first.errors), _edits_and_words(second.errors)
    if not np.array_equal(said, said_too):
        raise InputError("the references differ", fix="normalize both in the same way")
    return compare_ratios(wrong, other, said, first.speakers, resamples=resamples, seed=seed)


def _edits_and_words(errors: WordErrors) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Edits and reference words of each utterance."""
    return errors.counts[:, :3].sum(axis=1), errors.counts[:, [0, 1, 3]].sum(axis=1)
