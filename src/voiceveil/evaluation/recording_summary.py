"""The comparison of recordings in three plain sentences: whose voice, which words, how natural.

Conventions: shares are fractions, and intervals 95% over speakers, or over recordings where speakers are not known; one
recording has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from voiceveil.core.errors import InputError
from voiceveil.core.tables import Table, Tabular
from voiceveil.core.terminal import escaped
from voiceveil.evaluation.recording_comparison import PairComparison, reference, sounds_like
from voiceveil.stats import Estimate, mean, ratio

__all__ = ["ComparisonSummary"]

_ADVICE = "A trained attacker may still recognize the voice: `voiceveil risk ORIGINAL ANONYMIZED` measures that."
_LESS_NATURAL = 0.3  # points of DNSMOS: a difference that listeners notice
_LISTED = 3
_FEW_WORDS = 0.5  # share of the recordings that must be English for the words to say anything


@dataclass(frozen=True)
class ComparisonSummary(Tabular):
    """The comparison of one or more pairs; prints three sentences.

    ``notes`` say what could not be measured.
    """

    pairs: tuple[PairComparison, ...]
    notes: tuple[str, ...] = ()

    @property
    def similarity(self) -> float | None:
        """Mean cosine of the speaker embeddings (CAM++), -1 to 1; 1: the same voice."""
        return self._value("similarity")

    @property
    def words_kept(self) -> float | None:
        """Share of the words recognized in the originals that are recognized in the anonymized recordings, 0 to 1."""
        words = sum(pair.words for pair in self.pairs)
        return sum(pair.hits for pair in self.pairs) / words if words else None

    @property
    def quality(self) -> tuple[float, float] | None:
        """Mean predicted quality (DNSMOS) before and after, 1 (bad) to 5 (excellent)."""
        rated = [pair.quality for pair in self.pairs if pair.quality is not None]
        if not rated:
            return None
        return sum(before for before, _ in rated) / len(rated), sum(after for _, after in rated) / len(rated)

    @property
    def pitch_correlation(self) -> float | None:
        """Mean correlation of the F0 contours, -1 to 1; 1: the same intonation."""
        return self._value("pitch_correlation")

    @property
    def transcripts(self) -> tuple[str, str] | None:
        """Recognized words of the two recordings; None if several pairs were compared."""
        return self.pairs[0].transcripts if len(self.pairs) == 1 else None

    def _value(self, name: str) -> float | None:
        values = [getattr(pair, name) for pair in self.pairs if getattr(pair, name) is not None]
        return sum(values) / len(values) if values else None

    def estimate(self, name: str) -> Estimate | None:
        """Return a measure with its interval; None if fewer than two pairs have it.

        Parameters
        ----------
        name
            ``similarity``, ``words_kept``, ``quality_before``, ``quality_after`` or ``pitch_correlation``.
        """
        if name not in _MEASURES:
            raise InputError(f"unknown measure {name!r}", fix=f"use {', '.join(_MEASURES)}")
        rows = [(pair, value) for pair in self.pairs if (value := _MEASURES[name](pair)) is not None]
        if len(rows) < 2:
            return None
        known = all(pair.speaker is not None for pair, _ in rows)
        speakers = [str(pair.speaker) if known else pair.id for pair, _ in rows]
        if name == "words_kept":
            return ratio([pair.hits for pair, _ in rows], [pair.words for pair, _ in rows], speakers, top=1.0)
        return mean([value for _, value in rows], speakers)

    @property
    def sentences(self) -> tuple[str, str, str]:
        """Voice, words and naturalness, a sentence or two each."""
        return self._voice(), self._words(), self._naturalness()

    def _voice(self) -> str:
        judged = [pair for pair in self.pairs if pair.similarity is not None]
        if self.similarity is None:
            return "Voice: not measured."
        likeness = Counter(sounds_like(pair.similarity or 0.0, min(pair.seconds)) for pair in judged)
        if len(judged) == 1:
            (kind,) = likeness
            verdict = "neither like the same person nor like another" if kind == "in between" else f"like {kind}"
            opening = f"Voice: it sounds {verdict}, to a speaker recognizer"
        else:
            opening = f"Voice: {likeness['another person']} of {len(judged)} recordings sound like another person, "
            opening += f"{likeness['the same person']} still like the same one"
        known = reference(sorted(min(pair.seconds) for pair in judged)[len(judged) // 2])
        return (
            f"{opening}. Similarity {_number(self.similarity, self.estimate('similarity'))}; recordings of one person "
            f"score {known.same[0]:.2f} to {known.same[2]:.2f}, of different people {known.different[0]:.2f} to "
            f"{known.different[2]:.2f}."
        )

    def _words(self) -> str:
        if self.words_kept is None:
            return "Words: not measured."
        words, hits = sum(pair.words for pair in self.pairs), sum(pair.hits for pair in self.pairs)
        share = _percent(self.words_kept, self.estimate("words_kept"))
        sentence = f"Words: {share} of the words are still understood ({hits:,} of {words:,}), by a speech recognizer."
        kinds = [pair.kind for pair in self.pairs if pair.kind is not None]
        if kinds and sum(kind == "english" for kind in kinds) < _FEW_WORDS * len(kinds):
            sentence += " This says little: the recognizer knows English alone, and hardly understands the originals."
        return sentence

    def _naturalness(self) -> str:
        if self.quality is None:
            return "Naturalness: not measured."
        before, after = self.quality
        known = reference(1.0).naturalness
        verdict = (
            "about as natural as before"
            if after >= before - _LESS_NATURAL
            else "less natural than before, but within real recordings"
            if after >= known[0]
            else "less natural than before"
        )
        return (
            f"Naturalness: {verdict}. Rated {_number(before, self.estimate('quality_before'))} before and "
            f"{_number(after, self.estimate('quality_after'))} after, of 5 (DNSMOS); real recordings of read speech "
            f"get {known[0]:.1f} to {known[2]:.1f}."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return which recordings are hardly speech, or not English."""
        meanings = {"hardly speech": "hardly any speech was found", "not english": "not English, or covered by noise"}
        warnings = []
        for kind, meaning in meanings.items():
            ids = [pair.id for pair in self.pairs if pair.kind == kind]
            if ids:
                where = "the original" if len(self.pairs) == 1 else f"{len(ids)} original(s), e.g. {ids[0]}"
                warnings.append(f"{where}: {meaning}")
        return tuple(warnings)

    def __str__(self) -> str:
        lines = [*self.sentences]
        if len(self.pairs) == 1 and self.pairs[0].words:
            lines.append(f"Text: {self.pairs[0].marked_text}")
        elif self.pairs:
            changed = sorted((pair for pair in self.pairs if pair.words), key=lambda pair: pair.words_kept or 0.0)
            changed = [pair for pair in changed if pair.hits < pair.words][:_LISTED]
            lines += [f"Most changed: {pair.id}: {pair.marked_text}" for pair in changed]
        lines += [f"warning: {text}" for text in self.warnings]
        lines += [f"note: {text}" for text in self.notes]
        return "\n".join(map(escaped, [*lines, _ADVICE]))

    def records(self) -> list[dict[str, Any]]:
        """Return one record per pair."""
        return [
            {
                "recording": pair.id,
                "speaker": pair.speaker,
                "similarity": pair.similarity,
                "sounds_like": None if pair.similarity is None else sounds_like(pair.similarity, min(pair.seconds)),
                "words": pair.words,
                "words_kept": pair.words_kept,
                "quality_before": _MEASURES["quality_before"](pair),
                "quality_after": _MEASURES["quality_after"](pair),
                "pitch_correlation": pair.pitch_correlation,
                "kind": pair.kind,
            }
            for pair in self.pairs
        ]

    def table(self) -> Table:
        """Return the measures of each pair, with the sentences below."""
        rows = [
            (
                pair.id,
                _shown(pair.similarity, "{:.2f}"),
                _shown(pair.words_kept, "{:.0%}"),
                "-" if pair.quality is None else f"{pair.quality[0]:.2f} -> {pair.quality[1]:.2f}",
                _shown(pair.pitch_correlation, "{:.2f}"),
            )
            for pair in self.pairs
        ]
        columns = ("recording", "similarity", "words kept", "naturalness", "pitch correlation")
        return Table(columns, tuple(rows), (*self.sentences, *self.warnings, *self.notes))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        estimates = {name: self.estimate(name) for name in _MEASURES}
        return {
            "format": "voiceveil compare 1",
            "sentences": list(self.sentences),
            "similarity": self.similarity,
            "words_kept": self.words_kept,
            "quality": self.quality,
            "pitch_correlation": self.pitch_correlation,
            "intervals": {name: None if e is None else [e.low, e.high] for name, e in estimates.items()},
            "reference": asdict(reference(8.0)),
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "pairs": [
                {**record, "transcripts": pair.transcripts, "text": pair.marked_text}
                for record, pair in zip(self.records(), self.pairs, strict=True)
            ],
        }


_MEASURES: dict[str, Callable[[PairComparison], float | None]] = {
    "similarity": lambda pair: pair.similarity,
    "words_kept": lambda pair: pair.words_kept,
    "quality_before": lambda pair: None if pair.quality is None else pair.quality[0],
    "quality_after": lambda pair: None if pair.quality is None else pair.quality[1],
    "pitch_correlation": lambda pair: pair.pitch_correlation,
}


def _number(value: float, estimate: Estimate | None) -> str:
    return f"{value:.2f}" if estimate is None else f"{value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _percent(value: float, estimate: Estimate | None) -> str:
    return f"{value:.0%}" if estimate is None else f"{value:.0%} [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"


def _shown(value: float | None, pattern: str) -> str:
    return "-" if value is None else pattern.format(value)
