"""ASV_eval of the 2020 and 2022 challenges: x-vectors that Kaldi has extracted, compared by its PLDA.

``kaldi:FOLDER`` reads the folder that the challenges' scripts leave, ``exp/models/asv_eval/xvect_01709_1``:

    xvect_SET/xvector.scp                              for each enrollment and trial set, original and anonymized
    xvect_TRAINING/{plda,mean.vec,transform.mat}       of the training set; mean and LDA may be missing

It computes what the scripts compute: mean of the enrollment x-vectors, ``ivector-subtract-global-mean``,
``transform-vec``, ``ivector-normalize-length``, then ``ivector-plda-scoring --normalize-length=true`` with the number
of enrollment utterances. ``kaldi-anonymized:FOLDER`` is ASV_eval^anon, whose models were trained on anonymized speech.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from voiceveil.attack.attacker import Attacker, Knowledge, TrainingSpeech
from voiceveil.attack.embedding import Embedded, enroll, score_trials
from voiceveil.attack.registry import AttackerOptions, attackers
from voiceveil.attack.sets import Condition, TrialSet
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus
from voiceveil.models.pretrained import digest_files
from voiceveil.models.speaker.covariances import Floats
from voiceveil.models.speaker.kaldi_files import check_kaldiio, read_array, read_plda, read_vectors
from voiceveil.models.speaker.plda import PldaScorer
from voiceveil.run.context import RunContext

__all__ = ["KaldiAttacker", "kaldi_scorer"]

_PREFIXES = ("xvect_", "xvectors_")


def kaldi_scorer(folder: Path) -> PldaScorer:
    """Return the scorer of a folder with ``plda`` and, if they are there, ``mean.vec`` and ``transform.mat``.

    Raises
    ------
    InputError
        If a file cannot be read, or their dimensions do not fit.
    """
    model = read_plda(folder / "plda")
    k = len(model.mean)
    mean_file, lda_file = folder / "mean.vec", folder / "transform.mat"
    transform = read_array(lda_file) if lda_file.is_file() else np.eye(k)
    if transform.ndim != 2 or len(transform) != k:
        raise InputError(f"a transform of the shape {transform.shape} before a PLDA of {k} dimensions", where=lda_file)
    mean = read_array(mean_file) if mean_file.is_file() else np.zeros(transform.shape[1])
    d = len(mean)
    if mean.ndim != 1 or transform.shape[1] not in (d, d + 1):
        problem = f"a mean of the shape {mean.shape} before a transform of the shape {transform.shape}"
        raise InputError(problem, where=mean_file)
    offset = transform[:, d] if transform.shape[1] == d + 1 else np.zeros(k)
    return PldaScorer(mean, transform[:, :d].T, model.covariances(), offset=offset)


@dataclass(eq=False)
class KaldiAttacker(Attacker):
    """Compare stored x-vectors by a stored PLDA.

    Parameters
    ----------
    folder : Path
        Models and x-vectors.
    learned_from_anonymized : bool
        The models were trained on speech of the system that is attacked.
    """

    folder: Path
    learned_from_anonymized: bool = False
    minimum: float = field(default=0.0, init=False)  # it processes no audio

    @property
    def name(self) -> str:
        """``kaldi`` with the name of the folder."""
        return f"{'kaldi-anonymized' if self.learned_from_anonymized else 'kaldi'}:{self.folder.name}"

    @property
    def backend(self) -> str:
        """``plda``."""
        return "plda"

    @property
    def llr(self) -> bool:
        """True: PLDA gives log-likelihood ratios."""
        return True

    @property
    def compares_voices(self) -> bool:
        """True: any two x-vectors can be compared."""
        return True

    @property
    def encoder_family(self) -> str:
        """``xvector``."""
        return "xvector"

    def conditions(self, *, anonymized: bool = True) -> Mapping[Condition, Knowledge]:
        """Return all three conditions, or ``aa`` alone for models of anonymized speech."""
        if self.learned_from_anonymized:
            return {"aa": "semi-informed"} if anonymized else {}
        known: dict[Condition, Knowledge] = {"oo": "unprotected", "oa": "ignorant", "aa": "lazy-informed"}
        return known if anonymized else {"oo": "unprotected"}

    def fingerprint(self) -> str:
        """Return the hash of the PLDA with mean and LDA."""
        files = [path for name in ("plda", "mean.vec", "transform.mat") if (path := self._model / name).is_file()]
        return f"kaldi plda 1 {digest_files(files)}"

    def check(self) -> None:
        """Raise an ``InputError`` if the PLDA cannot be read."""
        check_kaldiio()
        _ = self.scorer

    def fit(self, training: TrainingSpeech, context: RunContext) -> None:
        """Do nothing: the models were trained by Kaldi."""

    @cached_property
    def scorer(self) -> PldaScorer:
        """The PLDA."""
        return kaldi_scorer(self._model)

    @property
    def _model(self) -> Path:
        """The folder with the PLDA: FOLDER itself, or the one folder in it that has a ``plda``."""
        if (self.folder / "plda").is_file():
            return self.folder
        if not self.folder.is_dir():
            raise InputError(
                "no such folder", where=self.folder, fix="give kaldi:FOLDER, e.g. exp/models/asv_eval/xvect_01709_1"
            )
        models = sorted(path.parent for path in self.folder.glob("*/plda"))
        if len(models) != 1:
            problem = f"{len(models)} folders with a PLDA in it, not one"
            fix = "keep the PLDA of one training set, beside the x-vectors"
            raise InputError(problem, where=self.folder, fix=fix)
        return models[0]

    def score(self, trial_set: TrialSet, condition: Condition, context: RunContext) -> Floats:
        """Return the likelihood ratio of each trial, shape (trials,)."""
        enrollment, trial = trial_set.corpora(condition)
        enrolled = self._vectors(enrollment, [id for ids in trial_set.enrollment.values() for id in ids])
        tested = self._vectors(trial, list(trial_set.speaker_of))
        return score_trials(trial_set.trials, enroll(enrolled, trial_set.enrollment), tested, self.scorer)

    def compare(self, first: Corpus, second: Corpus, context: RunContext) -> Floats:
        """Return the likelihood ratio (n, m) of each utterance of ``first`` with each of ``second``."""
        rows, columns = (self._vectors(corpus, [u.id for u in corpus]).vectors for corpus in (first, second))
        return self.scorer(rows, np.ones(len(rows), dtype=np.int64), columns)

    def _vectors(self, corpus: Corpus, ids: Sequence[str]) -> Embedded:
        lists = [self.folder / f"{prefix}{corpus.name}" / "xvector.scp" for prefix in _PREFIXES]
        scp = next((path for path in lists if path.is_file()), lists[0])
        vectors = read_vectors(scp, ids)
        if vectors.shape[1] != len(self.scorer.mean):
            problem = f"x-vectors of {vectors.shape[1]} dimensions, but a PLDA for {len(self.scorer.mean)}"
            raise InputError(problem, where=scp, fix="give files of one model")
        return Embedded(tuple(ids), vectors)


def _make(options: AttackerOptions, *, learned_from_anonymized: bool) -> list[Attacker]:
    name = "kaldi-anonymized" if learned_from_anonymized else "kaldi"
    if not options.argument:
        raise InputError(f"the attacker {name} needs a folder", fix=f"write {name}:exp/models/asv_eval/xvect_01709_1")
    check_kaldiio()
    return [KaldiAttacker(Path(options.argument), learned_from_anonymized)]


attackers.register("kaldi")(partial(_make, learned_from_anonymized=False))
attackers.register("kaldi-anonymized")(partial(_make, learned_from_anonymized=True))
