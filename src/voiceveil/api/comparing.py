"""Compare recordings with their anonymized versions, to see whether it worked."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from voiceveil.api.recordings import as_waveform
from voiceveil.audio import Waveform, info, load
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import refuse_files
from voiceveil.corpus import Corpus, Utterance, open_corpus
from voiceveil.evaluation.recording_comparison import RecordingPair, compare_pairs
from voiceveil.evaluation.recording_summary import ComparisonSummary
from voiceveil.models.asr.recognition import recognizer as open_recognizer
from voiceveil.risk.folders import refuse_swapped
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.executor import Jobs, check_jobs
from voiceveil.run.outputs import refuse_inputs

__all__ = ["RecordingComparison", "compare"]

Recording = str | os.PathLike[str] | Waveform


@dataclass(frozen=True)
class RecordingComparison(ComparisonSummary):
    """Voice, words and naturalness of recordings before and after; prints three sentences.

    A measure that could not be computed is None, and ``notes`` says why.
    """

    sources: tuple[RecordingPair, ...] = field(default=(), repr=False)

    def report(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write a page with players, spectrograms and the changed words, and return its path.

        Parameters
        ----------
        path
            File name; its folder must exist. The page holds the recordings: personal data.
        overwrite
            Replace the file if it exists; never what was read.
        """
        from voiceveil.report.recordings import write_recording_report

        target = Path(path)
        refuse_report(target, self.sources, overwrite=overwrite)
        return write_recording_report(self, self.sources, target)


def compare(
    original: Recording | Corpus,
    anonymized: Recording | Corpus,
    *,
    recognizer: str = "moonshine",
    jobs: Jobs = 1,
    cache: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> RecordingComparison:
    """Compare recordings with their anonymized versions: whose voice, which words, how natural.

    A high similarity shows that the voice was *not* hidden; a low one does not prove that it was, as a trained attacker
    may still recognize it: measure that with :func:`voiceveil.evaluate` or :func:`voiceveil.assess_risk`.

    Parameters
    ----------
    original, anonymized
        Two recordings, as files or waveforms, or two corpora as :func:`voiceveil.open_corpus` reads them, whose
        utterances have the same ids.
    recognizer
        Speech recognizer for the words, see :func:`voiceveil.transcribe`.
    jobs
        Number of processes, or an executor.
    cache
        SQLite file that keeps transcripts and embeddings (biometric data) for the next call.
    progress
        Show progress on the standard error output.

    Returns
    -------
    RecordingComparison
        Prints three sentences; ``.similarity``, ``.words_kept``, ``.quality``, ``.pairs``, ``.report("page.html")``.
        Its measures are None where a model is not installed or a recording is too short; ``notes`` says why.

    Raises
    ------
    InputError
        If a recording cannot be read, or no recording has an anonymized version.

    Examples
    --------
    >>> vv.compare("original.wav", "anonymized.wav").words_kept   # doctest: +SKIP
    0.95
    """
    check_jobs(jobs)
    if recognizer != "moonshine":  # whose absence is a note
        open_recognizer(recognizer)
    pairs, notes = _pairs(original, anonymized)
    alone = len(pairs) == 1
    readable, lengths = [], []
    for pair in pairs:
        try:
            lengths.append((_seconds(pair.original), _seconds(pair.anonymized)))
            readable.append(pair)
        except InputError as error:
            if alone:
                raise
            notes.append(f"left out: {error}")
    if not readable:
        raise InputError("no pair of recordings can be read", fix=notes[-1])
    with closing(Cache(None if cache is None else Path(cache))) as store:
        context = RunContext(store, jobs, progress=progress)
        compared, faults = compare_pairs(readable, lengths, context, recognizer=recognizer)
    return RecordingComparison(tuple(compared), (*notes, *faults), tuple(readable))


def refuse_report(report: Path, pairs: tuple[RecordingPair, ...], *, overwrite: bool) -> None:
    """Refuse to write a report over or into what is read, and over a file that is there."""
    if not report.absolute().parent.is_dir():
        raise InputError("no such folder", where=report.parent, fix="make it first")
    sides = [side for pair in pairs for side in (pair.original, pair.anonymized)]
    refuse_inputs(report, [side.path for side in sides if isinstance(side, Utterance)])
    refuse_files([report], overwrite=overwrite)


def _pairs(original: Recording | Corpus, anonymized: Recording | Corpus) -> tuple[list[RecordingPair], list[str]]:
    """Return the pairs, and notes on recordings without a counterpart."""
    if not all(isinstance(side, str | os.PathLike | Corpus) for side in (original, anonymized)):
        if isinstance(original, Corpus) or isinstance(anonymized, Corpus):
            raise InputError("a waveform and a corpus cannot be compared", fix="give two waveforms or two corpora")
        return [RecordingPair("recording", as_waveform(original), as_waveform(anonymized))], []
    assert not isinstance(original, Waveform) and not isinstance(anonymized, Waveform)  # noqa: S101, PT018
    is_file = [not isinstance(side, Corpus) and Path(side).is_file() for side in (original, anonymized)]
    if all(is_file) and not any(Path(str(side)).suffix.lower() in _LISTS for side in (original, anonymized)):
        first, second = Path(str(original)), Path(str(anonymized))
        return [RecordingPair(first.stem, Utterance("original", first), Utterance("anonymized", second))], []
    if any(is_file) and not all(is_file):
        raise InputError("one of the two is a file, the other is not", fix="give two files, or two folders")
    if not isinstance(original, Corpus) and not isinstance(anonymized, Corpus):
        refuse_swapped(Path(original), Path(anonymized))
    befores, afters = (
        side if isinstance(side, Corpus) else open_corpus(side if isinstance(side, str) else Path(side))
        for side in (original, anonymized)
    )
    both = [id for id in befores.by_id if id in afters.by_id]
    if not both:
        names = [next(iter(corpus.by_id), "nothing") for corpus in (befores, afters)]
        raise InputError(
            f"no recording is in both: the first is {names[0]!r} on one side and {names[1]!r} on the other",
            where=afters.root,
            fix="give the folder that `voiceveil anonymize` wrote: it keeps the names",
        )
    notes = []
    for kind, lost in (("no anonymized version", len(befores) - len(both)), ("no original", len(afters) - len(both))):
        if lost:
            notes.append(f"{lost} recording(s) have {kind} and were left out")
    return [RecordingPair(id, befores.by_id[id], afters.by_id[id], befores.by_id[id].speaker) for id in both], notes


_LISTS = frozenset({".csv", ".jsonl"})


def _seconds(recording: Utterance | Waveform) -> float:
    """Return the length of a recording, which is read as a whole to find out whether it can be."""
    if isinstance(recording, Waveform):
        return recording.duration
    if info(recording.path).duration > _LONG and recording.duration is None:
        return info(recording.path).duration - recording.start
    return load(recording.path, start=recording.start, duration=recording.duration).duration


_LONG = 3600.0  # seconds of a file whose header is believed, as reading it takes long
