"""The line of a summary on a system's language, and the warning if recordings are not English speech."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from voiceveil.audio import info, load
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, open_corpus
from voiceveil.models.asr.speech_check import Kind, SpeechCheck, kind_of
from voiceveil.systems import Anonymizer

__all__ = ["expectation", "speech_kinds", "warnings_for"]

_SAMPLED = 4  # recordings that are listened to


def expectation(system: Anonymizer) -> str:
    """Return what to expect of a system on other languages, music and noise, in one sentence."""
    if system.language:
        return (
            f"{system.name} was made from {system.language} speech: in other languages, and under loud music or noise, "
            "many words change (docs/guide/limitations.md)"
        )
    return (
        f"{system.name} has no model of a language: it changes words of any language alike, and music and noise as it "
        "changes the voice"
    )


def warnings_for(source: str | os.PathLike[str] | Corpus, system: Anonymizer) -> list[str]:
    """Return warnings about recordings that a system was not made for; none if it knows no language.

    Up to four recordings, evenly spread over the corpus, are listened to, eight seconds each. Nothing is returned where
    the recognizer is not installed, or a recording cannot be read.
    """
    if not system.language:
        return []
    kinds = Counter(speech_kinds(source))
    heard = sum(kinds.values())
    lines = []
    if 2 * kinds["hardly speech"] >= heard > 0:
        lines.append(f"hardly any speech was found in {kinds['hardly speech']} of {heard} recordings that were checked")
    elif 2 * (kinds["not english"] + kinds["hardly speech"]) >= heard > 0:
        lines.append(
            f"{heard - kinds['english']} of {heard} recordings that were checked are not English, or covered by noise: "
            f"{system.name} was made from {system.language} speech, and many words may be lost; `--check` compares; "
            "b2 knows no language, but protects less"
        )
    return lines


def speech_kinds(source: str | os.PathLike[str] | Corpus) -> list[Kind]:
    """Return what up to four recordings are: English speech, another language (or noisy speech), or hardly speech."""
    try:
        check = SpeechCheck()
        check.check()
        spec = source if isinstance(source, str | Corpus) else Path(source)
        corpus = spec if isinstance(spec, Corpus) else open_corpus(spec)
    except InputError:
        return []
    utterances = list(corpus)
    step = max(1, len(utterances) // _SAMPLED)
    return [kind for u in utterances[::step][:_SAMPLED] if (kind := _kind(u, check)) is not None]


def _kind(utterance: Utterance, check: SpeechCheck) -> Kind | None:
    """Return what one recording is; None if it cannot be read, or is too short."""
    longest = 8 * check.seconds  # of a long recording the beginning is enough
    try:
        duration = utterance.duration
        if duration is None and info(utterance.path).duration - utterance.start > longest:
            duration = longest
        return kind_of(check(load(utterance.path, rate=check.rate, start=utterance.start, duration=duration)))
    except InputError:
        return None
