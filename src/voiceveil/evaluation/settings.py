"""Settings of an evaluation, apart from the system: data, protocol, attackers, and less common options."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from voiceveil.core.terminal import print_lines
from voiceveil.evaluation.model_choice import ModelChoice
from voiceveil.evaluation.protocol import Protocol
from voiceveil.run.executor import Jobs

__all__ = ["EvaluationOptions", "EvaluationSettings"]


@dataclass(frozen=True)
class EvaluationOptions:
    """Less common options of an evaluation.

    Parameters
    ----------
    train, emotion : sequence of str
        Sets that the attackers train on, and sets with emotion labels, instead of those of the protocol.
    trial_utterances : sequence of int
        Also attack with trials of several utterances that are known to be of one person, e.g. ``(1, 3, 5)``.
    mixed : bool
        Also attack with all pairs of enrolled speakers and utterances of both genders.
    recognizers : sequence of str, optional
        Speech recognizers, see :func:`voiceveil.transcribe`. The first one counts in rankings and official files
        (default: those of the protocol, or ``moonshine``).
    anonymized_recognizers : sequence of str, optional
        Recognizers of the anonymized speech, e.g. one that was trained on anonymized speech (default: ``recognizers``).
        If they are given, ``recognizers`` recognize the original speech alone.
    emotion_models : sequence of str, optional
        Emotion recognizers: ``functionals``, or pretrained models. The first one counts in rankings
        (default: those of the protocol, or ``functionals``).
    similarity : str, optional
        The attacker that compares voices for DeID and G_VD (default: that of the protocol, or ``campplus``).
    similarity_scoring : {"cosine", "plda"}, optional
        How it compares embeddings (default: that of the protocol, or ``cosine``).
    pitch_tracker : str, optional
        ``autocorrelation``, ``praat``, ``swift`` or ``yaapt`` (default: that of the protocol, or ``autocorrelation``).
    key_file : path, optional
        Secret key file: only those who have it can repeat the run.
    key_namespace : str, optional
        Other names give other pseudo-speakers under the same key (default: the name of the data folder).
    cache : path, optional
        SQLite file for the results of the models (default: ``cache.sqlite`` in the output); several systems may
        share one. It holds embeddings of the speakers, which are biometric data.
    feature_cache : path, optional
        SQLite file for features of the recordings that several systems may share, see :func:`voiceveil.anonymize`.
    overwrite : bool
        Start again if the output holds other results, and replace files there; never the data.
    report : bool
        Write ``report.html``, and the details that it shows.
    progress : bool
        Show progress on the standard error output.
    """

    train: Sequence[str] = ()
    emotion: Sequence[str] = ()
    trial_utterances: Sequence[int] = (1,)
    mixed: bool = False
    recognizers: Sequence[str] | None = None
    anonymized_recognizers: Sequence[str] | None = None
    emotion_models: Sequence[str] | None = None
    similarity: str | None = None
    similarity_scoring: Literal["cosine", "plda"] | None = None
    pitch_tracker: str | None = None
    key_file: str | Path | None = None
    key_namespace: str | None = None
    cache: str | Path | None = None
    feature_cache: str | Path | None = None
    overwrite: bool = False
    report: bool = True
    progress: bool = False


@dataclass(frozen=True)
class EvaluationSettings:
    """Settings of an evaluation, apart from the system.

    Parameters
    ----------
    data : path
        Folder of Kaldi directories, named as in the protocol.
    protocol : Protocol
        Sets, metrics and rules.
    out : path, optional
        Folder for all results (default: ``results/PROTOCOL/SYSTEM``); it may neither be, hold nor lie in the data.
    attackers : sequence of str, optional
        See :mod:`voiceveil.attack.registry` (default: those that can attack any system, and those made for the
        system). Attackers that need training speech are left out if there is none.
    seed : int, optional
        Makes the run repeatable by everybody.
    jobs : int or Executor
        Processes.
    device : str
        Where networks run, see :mod:`voiceveil.run.device`.
    options : EvaluationOptions
        Less common options.
    """

    data: Path
    protocol: Protocol
    out: Path | None = None
    attackers: Sequence[str] | None = None
    seed: int | None = None
    jobs: Jobs = 1
    device: str = "auto"
    options: EvaluationOptions = field(default_factory=EvaluationOptions)

    @property
    def key_namespace(self) -> str | None:
        """The key namespace of all sets: the same speaker of several sets is the same pseudo-speaker in each role.

        None without a key file.
        """
        options = self.options
        is_default = options.key_file is not None and options.key_namespace is None
        return self.data.resolve().name if is_default else options.key_namespace

    @property
    def models(self) -> ModelChoice:
        """The models of the protocol, or those that the options name instead."""
        options = self.options
        return self.protocol.models.updated(
            recognizers=options.recognizers,
            anonymized_recognizers=options.anonymized_recognizers,
            emotion_models=options.emotion_models,
            similarity=options.similarity,
            similarity_scoring=options.similarity_scoring,
            pitch_tracker=options.pitch_tracker,
        )

    def results_folder(self, system: str) -> Path:
        """Return the folder of the results of a system."""
        return self.out or Path("results") / self.protocol.name / system

    def cache_file(self, out: Path) -> Path:
        """Return the file of the cache, for results in ``out``."""
        return out / "cache.sqlite" if self.options.cache is None else Path(self.options.cache)

    def say(self, line: str) -> None:
        """Print a line of progress on the standard error output, if progress is wanted."""
        if self.options.progress:
            print_lines(line, file=sys.stderr)
