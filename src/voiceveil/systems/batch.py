"""The batch runner: a corpus in, an anonymized corpus of the same shape out; resumable, on one machine or on many.

The corpus is gone through in passes, and what must be remembered of each utterance is on disk: the memory of this
process does not grow with a manifest.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Unpack

from voiceveil.core.atomic_files import guarded, remove_parts
from voiceveil.core.errors import InputError
from voiceveil.core.files import read_text
from voiceveil.core.output_guard import refuse_existing, refuse_files
from voiceveil.corpus import Corpus, CorpusLike, Utterance, stream_corpus
from voiceveil.run.device import use_device, worker_device
from voiceveil.run.executor import Jobs, check_jobs, executor_of
from voiceveil.run.ledger import Ledger, open_ledger
from voiceveil.run.outputs import refuse_before_start
from voiceveil.run.progress import Progress
from voiceveil.systems.contract import Anonymizer, default_system
from voiceveil.systems.jobs import (
    JobRunner,
    Totals,
    WorkPlan,
    converter,
    digest_secret,
    make_jobs,
    plan_work,
    write_beside,
    write_listing,
)
from voiceveil.systems.layout import Layout, plan_layout
from voiceveil.systems.redaction.options import RedactionOptions
from voiceveil.systems.release import PlannedRelease, plan_release, write_release
from voiceveil.systems.settings import RunKeywords, RunOptions, Settings, make_settings
from voiceveil.systems.speaker_embeddings import SpeakerEmbeddings, mean_speaker_embeddings
from voiceveil.systems.summary import Failure, Summary
from voiceveil.systems.worker import Job

__all__ = ["anonymize"]


def _redaction_files(redaction: RedactionOptions | None, target: Path | None = None) -> list[Path]:
    """Return the files that redaction writes beside a single recording, or for all."""
    if redaction is None:
        return []
    transcripts = [redaction.transcript_of(target)] if redaction.transcript and target is not None else []
    return [*transcripts, *([] if redaction.listing is None else [redaction.listing])]


def anonymize(
    source: str | Path | Corpus,
    output: str | Path,
    *,
    system: str | Anonymizer | None = None,
    jobs: Jobs = 1,
    device: str = "auto",
    **options: Unpack[RunKeywords],
) -> Summary:
    """Anonymize a recording or a corpus into ``output``.

    An interrupted run is resumed. A file in the output that the program did not write, or that
    was changed since, stops the run before anything is written unless ``overwrite`` is True; an output that is, holds
    or lies in the input is always refused.

    Parameters
    ----------
    source
        Audio file, folder of audio, Kaldi directory, ``.csv`` or ``.jsonl`` manifest, ``"NAME:PATH"``, or a Corpus.
    output
        Folder; for a single recording also the name of an audio or video file, whose suffix decides the container.
    system
        Name of a system or the system itself. Default: ``veil``, or ``b2`` with a warning where the packages that
        ``veil`` needs are not installed.
    level
        Draw a pseudo-speaker for each ``"utterance"``, or for each ``"speaker"`` (and role: enrollment, trial).
    jobs
        Number of processes, or an executor (:mod:`voiceveil.run.executor`) for a cluster. With more than one process,
        scripts need the usual ``if __name__ == "__main__":``.
    device
        Where networks run: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``; ``"auto"`` takes a graphics
        card if there is one and ``jobs`` is 1.
    seed
        Makes the run repeatable by everybody: for experiments, not for protection.
    key_file
        Secret key file: only those who have it can repeat the run. Without ``seed`` and ``key_file`` a fresh key is
        drawn and forgotten.
    key_namespace
        Other names give other pseudo-speakers under the same key file (default: the name of the corpus, so that equal
        ids in two corpora get different pseudo-speakers).
    key
        Key that several runs share, instead of ``seed`` and ``key_file``.
    draws
        ``"official"``: the random sequences of the challenge's own scripts.
    rate
        Sampling rate of the output in Hz (default: that of the input; for corpora with tables, that of the system).
    format
        ``"wav"``, ``"flac"``, ``"m4a"``, ``"mp4"``, ... (default: that of the input; with tables, ``"wav"``).
    encoding
        Depth of PCM, ``"int16"`` or ``"int24"`` (default: that of the input; for corpora with tables, ``"int16"``).
    keep_timing
        Change neither tempo nor rhythm (default: for videos). Without it, ``veil`` changes the length by up to a fifth.
    suffix
        End of the name of an output Kaldi directory (default: ``_`` and the name of the system).
    overwrite
        True: start again where another run left its results, and replace files that are in the way. ``"changed"``:
        start again only if the settings have changed.
    publish
        New folder for a release of the result without names, order and times of the input, or a
        :class:`~voiceveil.systems.release.Release`.
    feature_cache
        SQLite file that keeps features of the recordings for other systems, which makes these several times as fast;
        it holds embeddings of the speakers: biometric data.
    role
        Role of all utterances in the draws, ``"enroll"`` or ``"trial"`` (default: as the corpus lists them).
    speaker_embeddings
        Called, if needed, for the mean embedding of each speaker at speaker level (default: the means over
        ``source``); :func:`voiceveil.systems.speaker_embeddings.mean_speaker_embeddings` computes them.
    speakers
        Several people speak in a recording: their number, or ``"auto"``. Each gets a new voice, and
        ``output`` with the suffix ``.rttm`` says who speaks when. The timing is kept.
    turns
        The same, with turns that are known: an RTTM or CSV file, or a list of (speaker, start, end) in seconds.
    hide, keep
        Names of the speakers to hide (the others are copied), or of those to keep: as in ``turns``, or ``speaker-1``,
        ``speaker-2``, ... in the order in which they first speak.
    channels
        ``"separate"``: one person speaks in each channel, ``channel-1``, ``channel-2``, ...
    margin
        Seconds around turns of hidden speakers that are not copied either (default: 0.25).
    redact
        Remove words that identify: ``True``, or some of ``"words"``, ``"names"``, ``"numbers"`` and ``"numbers=all"``,
        as a list or with commas. ``True`` means names, numbers, and ``words`` if they are given. The timing is kept.
    words
        Words and phrases to remove: a list, or a file with one in each line. Those that sound alike go as well.
    names_model
        spaCy pipeline that finds names of people, places and organizations: an installed package or a folder (default:
        the best ``en_core_web_*`` that is installed).
    recognizer
        Recognizer that transcribes the recording and the result (default: ``"moonshine"``).
    redact_with
        ``"tone"`` (default) or ``"silence"``.
    guard
        Seconds around a word that are removed with it (default: 0.25).
    text
        File with what is said in the recording, which is searched as well. For a corpus: its texts.
    transcript
        File for the transcript of what is left, ``.txt``, ``.srt`` or ``.vtt``; or ``"txt"``, ``"srt"``, ``"vtt"`` for
        a file beside each recording of the output. Without ``"txt"``, texts of a corpus are left out of its output.
    redactions
        Private file (CSV) that lists what was removed, with the words.
    quiet
        Show no progress.

    Returns
    -------
    Summary
        Counts, failures and times; prints them. Recordings that cannot be read are in its ``failures``, the others
        are anonymized.

    Raises
    ------
    InputError
        If an argument or the output cannot be used, or nothing could be read.

    Examples
    --------
    >>> import numpy as np, voiceveil as vv
    >>> noise = vv.Waveform(np.random.default_rng(0).normal(0, 0.1, 8000), 16000)
    >>> written = [vv.save(f"recordings/{name}.wav", noise) for name in ("a", "b")]
    >>> summary = vv.anonymize("recordings", "hidden", system="b2", seed=1)
    >>> summary.done, summary.failures
    (2, ())
    """
    check_jobs(jobs)
    unknown = [name for name in options if name not in RunOptions.__dataclass_fields__]
    if unknown:
        raise TypeError(f"anonymize() got an unexpected keyword argument {unknown[0]!r}")
    if system is None:
        system, warning = default_system()
        if warning:
            warnings.warn(warning, UserWarning, stacklevel=2)
    with use_device(device):
        device = worker_device(executor_of(jobs))
    with use_device(device):
        run = _Run.check(source, Path(output), system, RunOptions(**options))
        return run.convert_file() if run.corpus.kind == "file" else run.convert_corpus(jobs)


@dataclass(frozen=True)
class _Run:
    """A run whose input, output and options were checked; until it starts, nothing is written."""

    corpus: CorpusLike
    layout: Layout
    settings: Settings
    release: PlannedRelease | None
    options: RunOptions
    start: float = field(default_factory=time.monotonic)

    @classmethod
    def check(cls, source: str | Path | Corpus, output: Path, system: str | Anonymizer, options: RunOptions) -> _Run:
        """Check input, output and options, and return the run; raise ``InputError`` for the first fault."""
        settings = make_settings(system, options)
        corpus: CorpusLike = source if isinstance(source, Corpus) else stream_corpus(source)
        # Recordings that the user named keep their formats; what belongs to a corpus gets those of the challenges.
        named = corpus.kind == "files" or (corpus.kind in {"file", "folder"} and not isinstance(source, Corpus))
        settings = settings.in_corpus(corpus.name).with_formats(like_input=named)
        if len(corpus) == 0:
            raise InputError("no utterances to anonymize", where=corpus.root)
        layout = plan_layout(
            corpus,
            output,
            suffix=f"_{settings.system.name}" if options.suffix is None else options.suffix,
            extension=None if settings.format is None else f".{settings.format}",
            manifest_name=None if isinstance(source, Corpus) else Path(source).name,
            key_file=None if options.key_file is None else Path(options.key_file),
        )
        release = None
        if options.publish is not None:
            target = next(map(layout.target, corpus)) if corpus.kind == "file" else layout.folder
            release = plan_release(options.publish, corpus, target, settings.system, settings.level)
        run = cls(corpus, layout, settings, release, options)
        run._check_draws()
        run._check_redaction()
        return run

    def _check_redaction(self) -> None:
        """Refuse files that are one recording's where there are several."""
        redaction = self.settings.redaction
        if redaction is None or self.corpus.kind == "file":
            return
        if redaction.text is not None:
            fix = "use a corpus with texts: a column `text` in a manifest, a file `text` in a Kaldi directory"
            raise InputError("--text is what is said in one recording, but there are several", fix=fix)
        if redaction.transcript_file is not None:
            fix = f"--transcript {redaction.transcript} writes a file beside each"
            raise InputError("one file is given for the transcripts of several recordings", fix=fix)

    def _text(self, utterance: Utterance) -> str | None:
        """Return the text of an utterance in the output: after redaction, its transcript if it is written as text."""
        redaction = self.settings.redaction
        if redaction is None or utterance.text is None:
            return utterance.text
        if redaction.transcript != "txt":
            return None
        return " ".join(read_text(redaction.transcript_of(self.layout.target(utterance))).split())

    def _check_draws(self) -> None:
        """Refuse utterances without a speaker at speaker level, and systems without official draws."""
        for _ in self._jobs():
            if self.settings.level == "utterance":  # the first utterance stands for all
                return

    def _jobs(self, embeddings: SpeakerEmbeddings | None = None) -> Iterator[Job]:
        return make_jobs(self.corpus, self.layout, self.settings, embeddings)

    def _speaker_embeddings(self, jobs: Jobs) -> SpeakerEmbeddings:
        """Return speaker -> embedding that draws depend on: none at utterance level, nor for many systems."""
        settings = self.settings
        if settings.level == "utterance":
            return {}
        if self.options.speaker_embeddings is not None:
            return self.options.speaker_embeddings()
        folder = self.layout.folder
        return mean_speaker_embeddings(self.corpus, settings.system, jobs, folder=folder, features=settings.features)

    def convert_file(self) -> Summary:
        """Convert a single file, which needs no ledger; its error is raised."""
        (job,) = self._jobs()
        overwrite = self.options.overwrite is True
        with Progress("anonymizing", 1, quiet=self.options.quiet) as progress:
            refuse_files([job.target], overwrite=overwrite, audio=True)
            refuse_files([job.turns] if self.settings.conversation else [], overwrite=overwrite)
            redaction = self.settings.redaction
            refuse_files(_redaction_files(redaction, job.target), overwrite=overwrite)
            try:
                done = converter(self.settings)(job)
                refuse_files([job.target], overwrite=overwrite, audio=True)
                write_beside(job, done, redaction, overwrite=overwrite)
                write_listing(redaction, {} if done.redaction is None else {job.id: done.redaction})
                job.part.replace(job.target)
            finally:
                job.part.unlink(missing_ok=True)
            outputs = self.layout.outputs(self.corpus, lambda id: done.seconds, self._text)
            published = write_release(self.release, outputs, lambda id: done.sha256)
            progress.advance(audio=done.seconds)
        return Summary(
            output=job.target,
            done=1,
            bandwidth=self.settings.system.rate / 2,
            **vars(Totals().plus(done)),
            seconds=time.monotonic() - self.start,
            turns=job.turns if done.conversation else None,
            transcript=redaction.transcript_of(job.target) if redaction and redaction.transcript else None,
            redactions=redaction.listing if redaction else None,
            published=published,
        )

    def convert_corpus(self, jobs: Jobs) -> Summary:
        """Convert every utterance that the ledger does not list as done, then write metadata and release."""
        corpus, layout, settings, overwrite = self.corpus, self.layout, self.settings, self.options.overwrite
        if overwrite is not True:
            refuse_before_start(layout.folder, layout.targets(corpus))
            refuse_files(_redaction_files(settings.redaction), overwrite=False)
        with open_ledger(layout.ledger, settings.record(), overwrite=overwrite, renamed=settings.renamed) as ledger:
            secret = digest_secret(settings, layout.ledger)
            plan = self._plan(ledger, secret)
            progress = Progress("anonymizing", plan.waiting, work=plan.work, quiet=self.options.quiet)
            redaction = settings.redaction
            runner = JobRunner(ledger, plan, progress, secret, redaction=redaction, overwrite=overwrite is True)
            parts = {layout.folder, layout.ledger.parent, *layout.folders}
            remove_parts(parts)
            try:
                embeddings = self._speaker_embeddings(jobs) if plan.waiting else {}
                runner.run((job for job in self._jobs(embeddings) if plan.stamps[job.id]), settings, jobs)
            finally:  # workers may have finished files that were not recorded, and a node that died leaves some
                remove_parts(parts)
            write_listing(redaction, runner.removed)
            finished = corpus.filter(lambda u: runner.has(u.id))
            outputs = layout.outputs(finished, lambda id: ledger.entries[id].seconds, self._text)
            with guarded(layout.folder, ledger):
                layout.write_metadata(outputs)
            left_over = ledger.others(plan.stamps)
            others = set(left_over)
            ledger.finish(lambda id: runner.has(id) or id in others)
            published = write_release(self.release, outputs, lambda id: ledger.entries[id].sha256)
        return Summary(
            output=layout.folder,
            done=plan.waiting - len(runner.failed),
            already_done=len(corpus) - plan.waiting,
            failures=tuple(Failure(id, error) for id, error in sorted(runner.failed.items())),
            left_over=tuple(left_over),
            bandwidth=settings.system.rate / 2,
            **vars(runner.totals),
            seconds=time.monotonic() - self.start,
            redactions=redaction.listing if redaction else None,
            published=published,
        )

    def _plan(self, ledger: Ledger, secret: bytes) -> WorkPlan:
        """Return which utterances are left; refuse existing files that the ledger does not list."""
        corpus, layout, overwrite = self.corpus, self.layout, self.options.overwrite
        with_text = self.settings.redaction is not None
        plan = plan_work(corpus, layout, ledger, secret, with_text=with_text)
        if plan.waiting and ledger.entries and not self.settings.resumable:
            if overwrite != "changed":
                raise InputError(
                    "a speaker-level run without a key cannot be resumed: its speakers would get other pseudo-speakers",
                    where=layout.folder,
                    fix="start again with --overwrite; runs with --key-file can always be resumed",
                )
            plan = plan_work(corpus, layout, None, secret, with_text=with_text)
        if overwrite is not True:
            waiting = (layout.target(utterance) for utterance in corpus if plan.stamps[utterance.id])
            refuse_existing(chain(waiting, layout.metadata), ledger.owns)
        return plan
