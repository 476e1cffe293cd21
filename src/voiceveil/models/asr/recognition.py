"""Speech recognition: the registry of recognizers, transcripts of a corpus, and the word error rate (WER).

Conventions: audio is mono at the recognizer's ``rate``; a transcript is a string as the recognizer writes it, before
text normalization (:mod:`voiceveil.models.asr.text_normalization`). Rates are fractions; WER may exceed 1.

>>> corpus = open_corpus("data/libri_dev_trials_f_b2")                       # doctest: +SKIP
>>> transcripts = transcribe(corpus, recognizer("moonshine"))                 # doctest: +SKIP
>>> print(word_error_rate(corpus, transcripts).wer)                           # doctest: +SKIP
37.7% [30.6, 46.1]

A recognizer is an :class:`~voiceveil.run.extract.Evaluator` of strings: a small frozen dataclass that loads its
weights when it is first called in a process. A new one is a class and a registered function that returns an instance::

    @recognizers.register("mine")
    def mine(model: str, *, online: bool = False) -> Recognizer: ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform, info
from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry
from voiceveil.corpus import Utterance
from voiceveil.metrics.wer import WordErrors, word_errors
from voiceveil.models.asr.text_normalization import Normalization, normalizer
from voiceveil.run.context import RunContext
from voiceveil.run.extract import Evaluator
from voiceveil.stats.rates import compare_ratios, ratio
from voiceveil.stats.values import Difference, Estimate

__all__ = [
    "Recognizer",
    "WordErrorRate",
    "check_audio",
    "compare_word_error_rates",
    "normalization_of",
    "recognizer",
    "recognizers",
    "references",
    "transcribe",
    "word_error_rate",
]

#: Returns the transcript of a waveform.
Recognizer = Evaluator[str]


def normalization_of(recognizer: Recognizer) -> Normalization:
    """Return how the transcripts of a recognizer are compared with references: its ``normalization``, or ``plain``."""
    chosen: Normalization = getattr(recognizer, "normalization", "plain")
    return chosen


class RecognizerFactory(Protocol):
    """A function in the registry that returns a recognizer."""

    def __call__(self, model: str, *, online: bool = False) -> Recognizer:
        """Return the recognizer.

        Parameters
        ----------
        model
            The part after the colon of ``NAME:MODEL``; empty if there is none.
        online
            Whether a model that is not on this machine may be downloaded.
        """
        ...


#: Name -> function that returns the recognizer.
recognizers: Registry[RecognizerFactory] = Registry(
    "recognizer",
    group="voiceveil.recognizers",
    modules=(
        "voiceveil.models.asr.moonshine",
        "voiceveil.models.asr.pocketsphinx",
        "voiceveil.models.asr.ctc",
        "voiceveil.models.asr.whisper",
        "voiceveil.models.speechbrain.recognizer",
    ),
)


def recognizer(spec: str, *, online: bool = False) -> Recognizer:
    """Return the recognizer that a user names.

    Parameters
    ----------
    spec
        ``NAME``, ``NAME:MODEL`` or ``MODEL``, where MODEL is a folder or a hub id (see
        :mod:`voiceveil.models.pretrained`); without a NAME, the model's files tell its kind. Examples: ``moonshine``
        (the default), ``moonshine:models/moonshine-base``, ``pocketsphinx``, ``vpc2024``, ``ctc:models/mine``,
        ``whisper:openai/whisper-base.en``, ``models/mine``, ``speechbrain:exp/asr`` (see
        :mod:`voiceveil.models.speechbrain`). After a CTC model ``+lm=FILE`` decodes with an n-gram language model (see
        :mod:`voiceveil.models.asr.beam_search`).
    online
        Whether a model that is not on this machine may be downloaded.

    Raises
    ------
    InputError
        If the name is unknown, the model is missing or of another kind, or a package is not installed.
    """
    spec, has_language_model, language_model = spec.partition("+lm=")
    if has_language_model:
        return _with_language_model(recognizer(spec, online=online), spec, language_model)
    name, _, model = spec.partition(":")
    if name in recognizers:
        return recognizers[name](model, online=online)
    from voiceveil.models.pretrained import model_kind

    if ("/" in spec and not model) or Path(spec).is_dir():
        return recognizers[model_kind(spec, online=online)](spec, online=online)
    return recognizers[name](model)  # raises: unknown name, did you mean ...


def _with_language_model(greedy: Recognizer, spec: str, language_model: str) -> Recognizer:
    """Return a CTC recognizer that decodes with a language model; an ``InputError`` if it is of another kind."""
    from voiceveil.models.asr.beam_search import parse_decoder

    if not dataclasses.is_dataclass(greedy) or "decoder" not in {field.name for field in dataclasses.fields(greedy)}:
        fix = "name a CTC model: ctc:FOLDER+lm=FILE, vpc2024+lm=FILE or speechbrain:FOLDER+lm=FILE"
        raise InputError(f"the recognizer {spec!r} cannot use a language model", fix=fix)
    decoder = parse_decoder(language_model)
    decoder.check()
    decoding: Recognizer = replace(greedy, decoder=decoder)
    return decoding


def check_audio(wave: Waveform, rate: int, min_samples: int) -> None:
    """Raise an ``InputError`` if a model cannot take the audio: another rate, too short, or not finite.

    Parameters
    ----------
    wave
        The audio.
    rate
        Expected rate in Hz.
    min_samples
        Length of the shortest audio.
    """
    if wave.rate != rate:
        problem = f"audio at {wave.rate} Hz, but the recognizer takes {rate} Hz"
        raise InputError(problem, fix=f"load(..., rate={rate})")
    if len(wave) < min_samples:
        raise InputError(
            f"{len(wave)} samples of audio, but a frame needs {min_samples}", fix="leave the utterance out"
        )
    if not np.isfinite(wave.samples).all():
        raise InputError("a sample is not finite", fix="repair the recording")


def references(utterances: Iterable[Utterance]) -> dict[str, str]:
    """Return the reference transcripts by utterance id; an ``InputError`` if an utterance has none."""
    selected = list(utterances)
    if not selected:
        raise InputError("there are no utterances to recognize", fix="give a corpus with at least one utterance")
    missing = [u for u in selected if u.text is None]
    if missing:
        problem = f"{len(missing)} of {len(selected)} utterances have no text, e.g. {missing[0].id}"
        fix = "a WER needs transcripts: a file `text` in a Kaldi directory, a column `text` in a manifest"
        raise InputError(problem, where=missing[0].path, fix=fix)
    return {u.id: u.text or "" for u in selected}


def transcribe(
    utterances: Iterable[Utterance],
    recognizer: Recognizer,
    context: RunContext | None = None,
) -> dict[str, str]:
    """Return the transcripts of utterances.

    Parameters
    ----------
    utterances
        Of any corpus.
    recognizer
        See :func:`recognizer`.
    context
        Cache, jobs, device and progress; transcripts that are in the cache are not computed again.

    Returns
    -------
    dict
        Utterance id -> transcript, in the order of the utterances.
    """
    return (context or RunContext()).extract(utterances, recognizer)


def checked_durations(utterances: Iterable[Utterance], minimum: float) -> dict[str, float]:
    """Return utterance id -> seconds, from the file headers; an ``InputError`` if one is shorter than ``minimum``."""
    durations = {}
    for u in utterances:
        durations[u.id] = info(u.path).duration - u.start if u.duration is None else u.duration
        if durations[u.id] < minimum:
            problem = f"utterance {u.id} has {durations[u.id]:.3f} s, but at least {minimum:g} s are needed"
            raise InputError(problem, where=u.path, fix="leave the utterance out")
    return durations


@dataclass(frozen=True, eq=False)
class WordErrorRate:
    """Word errors of a corpus: counts and alignments (``errors``), and the rate with its interval (``wer``)."""

    errors: WordErrors
    speakers: tuple[str, ...]  # the speaker of each utterance, in the order of ``errors.utterances``
    wer: Estimate


def word_error_rate(
    utterances: Iterable[Utterance],
    transcripts: Mapping[str, str],
    *,
    normalization: Normalization = "plain",
    resamples: int = 1000,
    seed: int = 0,
) -> WordErrorRate:
    """Return the word error rate of transcripts.

    Parameters
    ----------
    utterances
        With reference texts.
    transcripts
        Utterance id -> transcript.
    normalization
        Text normalization of references and transcripts: ``plain``, ``english``, ``none`` or ``official``.
    resamples, seed
        Of the bootstrap that gives the interval.

    Returns
    -------
    WordErrorRate
        With an interval over speakers, or over utterances if a speaker is unknown.
    """
    selected = list(utterances)
    normalize = normalizer(normalization)
    refs = {name: " ".join(normalize(text).split()) for name, text in references(selected).items()}
    hyps = {name: normalize(text) for name, text in transcripts.items()}
    errors = word_errors(refs, hyps, separator=" " if normalization == "official" else None)
    speakers_known = all(u.speaker is not None for u in selected)
    speakers = tuple((u.speaker or "") if speakers_known else u.id for u in selected)
    edits, words = _edits_and_words(errors)
    wer = ratio(edits, words, speakers, resamples=resamples, seed=seed)
    return WordErrorRate(errors, speakers, wer if speakers_known else replace(wer, of="utterances"))


def compare_word_error_rates(
    first: WordErrorRate, second: WordErrorRate, *, resamples: int = 1000, seed: int = 0
) -> Difference:
    """Return the second WER minus the first, e.g. anonymized minus original.

    Parameters
    ----------
    first, second
        Of the same utterances, with the same text normalization.
    resamples, seed
        Of the bootstrap that gives the interval.

    Raises
    ------
    InputError
        If utterances or reference texts differ.
    """
    if first.errors.utterances != second.errors.utterances:
        raise InputError("the word error rates are of different utterances", fix="compare the same corpus")
    first_edits, words = _edits_and_words(first.errors)
    second_edits, second_words = _edits_and_words(second.errors)
    if not np.array_equal(words, second_words):
        raise InputError("the references differ", fix="normalize both in the same way")
    return compare_ratios(first_edits, second_edits, words, first.speakers, resamples=resamples, seed=seed)


def _edits_and_words(errors: WordErrors) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of edits and of reference words of each utterance, (n,) each."""
    return errors.counts[:, :3].sum(axis=1), errors.counts[:, [0, 1, 3]].sum(axis=1)
