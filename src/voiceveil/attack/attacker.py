"""The contract of attackers: what each knows and needs, how it learns and how it scores trials.

The pipeline asks nothing but what :class:`Attacker` declares. Names are given to attackers in
:mod:`voiceveil.attack.registry`. The knowledge of an attacker goes by the names of the VoicePrivacy Challenges:

    unprotected     oo   there is no anonymization; the best that the attacker can do
    ignorant        oa   original enrollment against anonymized trials, with a model of original speech
    lazy-informed   aa   the enrollment is anonymized too; a model of original speech
    semi-informed   aa   and the model was trained on, or adapted to, speech of the same system
    similar-system  aa   and the model was trained on, or adapted to, speech of a similar system
    inverting       oa   undoes the anonymization as far as it can, then compares with original enrollment
    free            aa   measures the audio without any model
    metadata        aa   uses no audio at all: the order of the files

The legal paper calls the semi-informed attacker *informed*, and *semi-informed* the one of a similar system.

Conventions: a condition names enrollment and trial, ``o`` original, ``a`` anonymized. Rates are fractions, durations
are in seconds, and a higher score says "the same speaker".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from voiceveil.attack.sets import Condition, Side, TrialSet
from voiceveil.attack.validation import HeldOutScores
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus
from voiceveil.models.speaker.covariances import Floats
from voiceveil.models.speaker.encoders import SpeakerEncoder
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.extract import Evaluator

__all__ = ["Attacker", "Health", "Knowledge", "ModelWork", "SpeechPart", "TrainingSpeech"]

Knowledge = Literal[
    "unprotected", "ignorant", "lazy-informed", "semi-informed", "similar-system", "inverting", "free", "metadata"
]


@dataclass(frozen=True)
class TrainingSpeech:
    """Speech of other speakers, with known identities, from which attackers learn.

    Parameters
    ----------
    anonymized : tuple of Corpus
        Anonymized by the system that is attacked, or by a similar one.
    original : tuple of Corpus
        Not anonymized.
    """

    anonymized: tuple[Corpus, ...] = ()
    original: tuple[Corpus, ...] = ()

    @property
    def corpora(self) -> tuple[Corpus, ...]:
        """All training corpora."""
        return (*self.anonymized, *self.original)


class SpeechPart(NamedTuple):
    """Utterances of one set."""

    set: str
    side: Side
    ids: Sequence[str]


class ModelWork(NamedTuple):
    """A model and the utterances that it will process."""

    title: str
    evaluator: Evaluator[Any]
    parts: Sequence[SpeechPart]


@dataclass(frozen=True)
class Health:
    """Signs that an attacker can be trusted: a weak attacker makes weak protection look strong.

    Parameters
    ----------
    attacker : str
        Name of the attacker.
    original_eer : float, optional
        EER of the same encoder on original speech, mean over the sets.
    control_eer : float
        EER with shuffled identities: about 0.5.
    accuracy : float, optional
        Share of training utterances whose speaker is identified.
    validation_eer, unadapted_eer : float, optional
        EER on speakers held out of the training, and EER of the encoder before adaptation on the same speakers.
    peak_reached : bool, optional
        Whether the learning rate reached its largest value.
    choice : str
        Name of the chosen back-end.
    tried : tuple of (str, float)
        Back-ends that were compared and their validation EERs, best first.
    warnings : tuple of str
        Reasons not to trust the attacker.
    """

    attacker: str
    original_eer: float | None = None
    control_eer: float = 0.5
    accuracy: float | None = None
    validation_eer: float | None = None
    unadapted_eer: float | None = None
    peak_reached: bool | None = None
    choice: str = ""
    tried: tuple[tuple[str, float], ...] = ()
    warnings: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return one line of figures, and one for each warning."""
        figures = []
        if self.original_eer is not None:
            figures.append(f"original speech {self.original_eer:.1%} EER")
        if self.choice:
            figures.append(f"back-end {self.choice}")
        if self.validation_eer is not None:
            unadapted = "" if self.unadapted_eer is None else f" (unadapted {self.unadapted_eer:.1%})"
            figures.append(f"held-out speakers {self.validation_eer:.1%} EER{unadapted}")
        if self.accuracy is not None:
            figures.append(f"training accuracy {self.accuracy:.1%}")
        if self.peak_reached is not None:
            figures.append(f"learning rate {'reached' if self.peak_reached else 'did not reach'} its peak")
        figures.append(f"shuffled control {self.control_eer:.1%}")
        return [f"  {self.attacker}: {'; '.join(figures)}", *(f"    warning: {text}" for text in self.warnings)]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


class Attacker(ABC):
    """Base class of attackers. A new one defines ``name``, ``minimum``, ``conditions``, ``fingerprint`` and ``score``.

    ``check`` and ``check_training`` are called before any work begins, then ``fit`` once, then ``score`` for each set
    and condition.
    """

    #: The speaker encoder that it uses, or None.
    encoder: SpeakerEncoder | None = None
    #: Scores of a working attacker differ between trials. False for a cue that may be equal for all speakers.
    scores_vary: bool = True
    #: ``score`` takes sets with trials of several utterances (``TrialSet.groups``). False: scores of their single
    #: utterances are averaged.
    scores_groups: bool = False
    #: It has scores of training speakers (``held_out``) from which a fusion learns its weight.
    fusible: bool = False
    #: It combines the attackers that are named beside it, see ``combined``.
    combines: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in tables and results, e.g. ``campplus-adapted``."""

    @property
    @abstractmethod
    def minimum(self) -> float:
        """Shortest utterance in seconds that it can process."""

    @abstractmethod
    def conditions(self, *, anonymized: bool = True) -> Mapping[Condition, Knowledge]:
        """Return the conditions in which it attacks, and its knowledge in each.

        Parameters
        ----------
        anonymized : bool
            False if there is original speech alone: the only possible condition is then ``oo``.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a text that changes whenever its scores could: version and hash of the model."""

    @abstractmethod
    def score(self, trial_set: TrialSet, condition: Condition, context: RunContext) -> Floats:
        """Return the score of each trial, shape (trials,), in the order of the list."""

    @property
    def compares_voices(self) -> bool:
        """True if ``compare`` works: it compares single utterances, not only enrolled speakers with trials."""
        return False

    @property
    def encoder_family(self) -> str:
        """Kind of network that its embeddings come from, e.g. ``ecapa``; "" without embeddings."""
        return "" if self.encoder is None else self.encoder.family

    def compare(self, first: Corpus, second: Corpus, context: RunContext) -> Floats:
        """Return the score (n, m) of each of n utterances with each of m others; ``fit`` is called before."""
        raise InputError(
            f"the attacker {self.name} scores trials only", fix="name one that compares voices, e.g. campplus"
        )

    @property
    def backend(self) -> str:
        """Name of the back-end, e.g. ``cosine``; may be known only after ``fit``."""
        return ""

    @property
    def llr(self) -> bool:
        """True if scores are log-likelihood ratios (natural logarithm), for which Cllr is defined."""
        return False

    @property
    def needs_training(self) -> bool:
        """True if ``fit`` needs anonymized training speech."""
        return False

    @property
    def reference(self) -> Attacker | None:
        """The attacker with the same encoder and nothing else, which shows how good the encoder is, or None."""
        return None

    def combined(self, others: Sequence[Attacker]) -> Attacker:
        """Return an attacker that combines others, if it ``combines``."""
        return self

    def check(self) -> None:
        """Raise an ``InputError`` if a model is missing or cannot be used."""
        if self.encoder is not None:
            self.encoder.check()

    def check_training(self, training: TrainingSpeech) -> None:
        """Raise an ``InputError`` if training speech is missing or its speakers are not known."""
        if self.needs_training:
            require_speakers(self.name, training.anonymized, "anonymized", "--train")

    def fit(self, training: TrainingSpeech, context: RunContext) -> None:  # noqa: B027 -- most have nothing to learn
        """Learn from training speech; a second call changes nothing."""

    def held_out(self, training: TrainingSpeech, context: RunContext, size: int) -> HeldOutScores | None:
        """Return scores of trials among speakers of the training speech, none of whom it had learned from.

        They show how strong it is without any look at the attacked trials; a fusion learns its weights from them. None
        if the attacker has no such scores.

        Parameters
        ----------
        training : TrainingSpeech
            That of ``fit``, which was called before.
        context : RunContext
            Cache and processes.
        size : int
            Utterances of a trial.
        """
        return None

    def work(
        self,
        sets: Sequence[TrialSet],
        conditions: Sequence[Condition],
        training: Mapping[str, Sequence[str]],
        cache: Cache,
    ) -> Iterator[ModelWork]:
        """Yield the models that ``fit``, ``score`` and the diagnosis will run, and the speech that each processes.

        Parameters
        ----------
        sets : sequence of TrialSet
            The sets that will be attacked.
        conditions : sequence of {"oo", "oa", "aa"}
            The conditions that the protocol asks for; this attacker attacks under those that are its own.
        training : mapping
            Names of training sets -> utterance ids.
        cache : Cache
            Results of earlier runs, on which a model may depend.
        """
        yield from ()

    def health(self, eer: float | None, reference_eer: float | None) -> Health:
        """Return the signs of health that this attacker has of its own.

        Parameters
        ----------
        eer, reference_eer : float, optional
            Mean EER of this attacker and of its ``reference`` on anonymized speech, as a fraction.
        """
        return Health(self.name)


def require_speakers(name: str, corpora: Sequence[Corpus], kind: str, option: str) -> None:
    """Raise an ``InputError`` if there is no training speech, or a training utterance has no speaker.

    Parameters
    ----------
    name : str
        The attacker that needs it.
    corpora : sequence of Corpus
        The training speech.
    kind, option : str
        ``original`` or ``anonymized``, and the command-line option that gives it.
    """
    if not corpora:
        raise InputError(f"the attacker {name} needs {kind} training speech", fix=f"give {option} CORPUS")
    for corpus in corpora:
        unknown = next((u.id for u in corpus if u.speaker is None), None)
        if unknown is not None:
            raise InputError(f"training utterance {unknown} has no speaker", where=corpus.root, fix="add it to utt2spk")
