"""Attackers by statistics of a speech recognizer: all its layers at once, and histograms of learned codes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from voiceveil.attack.attacker import Attacker, ModelWork, SpeechPart, TrainingSpeech
from voiceveil.attack.encoder_attackers import AdaptedAttacker, attacked_parts
from voiceveil.attack.registry import AttackerOptions, adapted_attacker, attackers
from voiceveil.attack.sets import Condition, TrialSet
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance
from voiceveil.models.speaker.encoders import SpeakerEncoder
from voiceveil.models.speaker.recognizer_statistics import (
    CodeHistogram,
    FrameSample,
    RecognizerEncoder,
    learn_codebook,
)
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

__all__ = ["CodesAttacker"]

_CODES = 256
_LEARNED_FROM = 400  # utterances of the training speech, 60 vectors of each


@dataclass(eq=False)
class CodesAttacker(AdaptedAttacker):
    """Compare how often codes occur in an utterance: a codebook and a back-end are learned from anonymized speech.

    Parameters
    ----------
    codes : int
        Size of the codebook.
    """

    encoder: SpeakerEncoder = field(default_factory=CodeHistogram)
    codes: int = _CODES

    @property
    def name(self) -> str:
        """``codes``, with their number unless it is 256."""
        return "codes" if self.codes == _CODES else f"codes:{self.codes}"

    @property
    def reference(self) -> None:  # type: ignore[override]
        """None: there is no codebook for original speech."""
        return

    def fit(self, training: TrainingSpeech, context: RunContext) -> None:
        """Learn the codebook from the training speech, then choose a back-end."""
        if self.adapted is None:
            samples = context.extract(_learned_from(training.anonymized), FrameSample())
            self.encoder = CodeHistogram(learn_codebook(samples.values(), self.codes))
        super().fit(training, context)

    def work(
        self,
        sets: Sequence[TrialSet],
        conditions: Sequence[Condition],
        training: Mapping[str, Sequence[str]],
        cache: Cache,
    ) -> Iterator[ModelWork]:
        """Yield the features of part of the training speech, and the codes of all speech."""
        learned = [SpeechPart(name, "a", _sampled(ids)) for name, ids in training.items()]
        yield ModelWork(f"{self.name}, learning", FrameSample(), learned)
        parts = [*attacked_parts(sets, [c for c in self.conditions() if c in conditions])]
        yield ModelWork(self.name, self.encoder, [*parts, *(SpeechPart(n, "a", ids) for n, ids in training.items())])


def _learned_from(corpora: Sequence[Corpus]) -> list[Utterance]:
    """Return the utterances from which the codebook is learned, spread evenly over the ids, always the same ones."""
    utterances = {utterance.id: utterance for corpus in corpora for utterance in corpus}
    return [utterances[key] for key in _sampled(list(utterances))]


def _sampled(ids: Sequence[str]) -> list[str]:
    return sorted(ids, key=lambda key: hashlib.sha256(key.encode()).digest())[:_LEARNED_FROM]


@attackers.register("codes")
def make_codes(options: AttackerOptions) -> list[Attacker]:
    """Return the attacker of ``codes`` or ``codes:NUMBER``."""
    if options.argument and not (options.argument.isdecimal() and 2 <= int(options.argument) <= 4096):
        raise InputError(f"{options.argument!r} is no number of codes", fix="use codes, or codes:2 to codes:4096")
    attacker = CodesAttacker(
        similar=options.similar, llr_only=options.scoring == "plda", from_enrollment=options.from_enrollment
    )
    attacker.encoder.check()
    return [replace(attacker, codes=int(options.argument or _CODES))]


@attackers.register("moonshine-layers")
def make_layers(options: AttackerOptions) -> list[Attacker]:
    """Return the adapted attackers of all layers of Moonshine tiny, or of the file of ``moonshine-layers:FILE``."""
    first = RecognizerEncoder(1, options.argument)
    first.check()
    return [adapted_attacker(layer, options) for layer in first.all_layers()]
