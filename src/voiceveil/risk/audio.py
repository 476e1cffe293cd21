"""Attacks on audio: original and anonymized recordings of A and B, embedded by each attacker's encoder.

Conventions: utterances are found by their ids in all corpora; the split of ``voiceveil corpus protocol --legal``
assigns them to A and B. Speakers, genders and other labels are those of the original corpora. As in section 3.4 of the
paper both sets are anonymized for every attacker but ``original``. Attackers differ in the training of their encoder:

* original, ignorant: an encoder of original speech;
* semi-informed, informed: the last layer of an adapted encoder (``campplus-adapted``) is trained on labeled speech of a
  similar system (``similar``) or of the attacked system (``training``; by default the release itself). An encoder that
  was trained as a whole (``trained:FOLDER``) is used as it is.

No speaker is attacked by a model that was trained on their speech. If training speech has speakers of the release, they
are attacked in five parts, each by a model that was trained on all others: the attacker knows everybody but you.

An adapted layer is an affine map, so that x-vectors are averaged and compared by cosines exactly as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack import Attacker, make_attackers
from voiceveil.attack.adaptation import adapt, candidates, recording_units
from voiceveil.attack.backends import Linear
from voiceveil.attack.checks import check_training_speakers
from voiceveil.attack.embedding import embed_raw, from_raw, has_trunk
from voiceveil.attack.validation import LabeledEmbeddings
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance
from voiceveil.metrics.legal import utterance_embeddings
from voiceveil.models.speaker.covariances import Floats
from voiceveil.models.speaker.encoders import SpeakerEncoder
from voiceveil.risk.embeddings import EmbeddingTable, Names
from voiceveil.risk.sets import ATTACKERS, AttackPart, RiskAttack, check_sets
from voiceveil.run.context import RunContext

__all__ = ["Recordings", "attacks_from_audio"]

_PARTS = 5


@dataclass(frozen=True)
class Recordings:
    """Recordings of A and B, and training speech of the attackers.

    Parameters
    ----------
    split : mapping
        Utterance id -> "A" or "B".
    original, anonymized : tuple of Corpus
        The recordings before and after anonymization.
    training : tuple of Corpus
        Speech that the attacked system anonymized; by default the release itself.
    similar : tuple of Corpus
        Speech that a similar system anonymized.
    """

    split: Mapping[str, str]
    original: tuple[Corpus, ...] = ()
    anonymized: tuple[Corpus, ...] = ()
    training: tuple[Corpus, ...] = ()
    similar: tuple[Corpus, ...] = ()

    def side(self, protected: bool) -> tuple[Utterance, ...]:
        """Return the utterances of A and B, anonymized if ``protected``, in the order of the split.

        Raises
        ------
        InputError
            If an utterance of the split is missing.
        """
        corpora = self.anonymized if protected else self.original
        by_id = {u.id: u for corpus in corpora for u in corpus}
        missing = [key for key in self.split if key not in by_id]
        if missing:
            kind = "anonymized" if protected else "original"
            fault = f"{len(missing)} utterance(s) of the protocol are not among the {kind} recordings"
            raise InputError(f"{fault}, e.g. {missing[0]}", fix=f"give all corpora with --{kind}")
        return tuple(by_id[key] for key in self.split)

    def known(self) -> dict[str, Utterance]:
        """Return utterance id -> utterance with its labels: of the original corpora, or else of the anonymized ones."""
        known = {u.id: u for corpus in (*self.anonymized, *self.original) for u in corpus}
        for key in self.split:
            if key not in known or known[key].speaker is None:
                raise InputError(f"utterance {key} has no speaker", fix="give corpora that say who speaks")
        return known


def check_attackers(attackers: Mapping[str, str]) -> None:
    """Raise ``InputError`` if a package or a model that an attacker needs is missing."""
    for attacker in make_attackers(list(attackers.values())):
        attacker.check()


def attacks_from_audio(
    recordings: Recordings,
    attackers: Mapping[str, str | Attacker],
    context: RunContext,
    labels: Mapping[str, Mapping[str, str]],
) -> list[RiskAttack]:
    """Return the attacks on some recordings.

    Parameters
    ----------
    recordings : Recordings
        Original and anonymized speech, and training speech.
    attackers : mapping
        Knowledge, a key of :data:`~voiceveil.risk.sets.ATTACKERS`, -> attacker with an encoder, or its name. One that
        needs training, such as ``campplus-adapted``, learns the last layer of the encoder anew.
    context : RunContext
        Cache and processes.
    labels : mapping
        Attribute -> utterance id -> label.

    Raises
    ------
    InputError
        If an attacker or its speech is missing; found before the work begins.
    """
    chosen: dict[str, tuple[SpeakerEncoder, bool]] = {}
    for name, given in attackers.items():
        if name not in ATTACKERS:
            raise InputError(f"unknown attacker {name!r}", fix=f"known: {', '.join(ATTACKERS)}")
        attacker = make_attackers([given])[0]
        if attacker.encoder is None:
            raise InputError(f"the attacker {attacker.name} has no encoder", fix="name an encoder, e.g. campplus")
        attacker.check()
        if name == "semi-informed" and not recordings.similar and attacker.needs_training:
            raise InputError("a semi-informed attacker needs speech of a similar system", fix="give --train-similar")
        recordings.side(name != "original")
        chosen[name] = (attacker.encoder, attacker.needs_training)
    return [_attack(name, adapted, encoder, recordings, context, labels) for name, (encoder, adapted) in chosen.items()]


def _attack(
    name: str,
    adapted: bool,
    encoder: SpeakerEncoder,
    recordings: Recordings,
    context: RunContext,
    labels: Mapping[str, Mapping[str, str]],
) -> RiskAttack:
    known = recordings.known()
    spoken = recordings.side(name != "original")
    names = np.array([known[u.id].speaker for u in spoken])
    raw = embed_raw(spoken, encoder, context).vectors
    plain = from_raw(encoder, raw)
    columns = {key: np.array([of.get(u.id, "") for u in spoken]) for key, of in labels.items()}
    sets = _Sets(recordings, [u.id for u in spoken], names, columns)
    about: dict[str, Any] = {"encoder": encoder.name, "fingerprint": encoder.fingerprint(), "knows": ATTACKERS[name]}
    checks = check_training_speakers(
        f"the {name} attacker ({encoder.name})", encoder.training().speaker_ids, set(names.tolist())
    )
    if not adapted:
        return RiskAttack(name, (sets.part(plain),), sets.labels(), {**about, "scores": "cosine"}, tuple(checks))
    corpora = recordings.similar if name == "semi-informed" else recordings.training or recordings.anonymized
    layers = _learn(encoder, corpora, known, set(names.tolist()), context)
    parts = tuple(sets.part(layer.apply(raw, plain), layer.only) for layer in layers)
    learned = [layer.name for layer in layers]
    about |= {
        "scores": f"cosine behind a learned layer ({', '.join(dict.fromkeys(learned))})",
        "training": {"speakers": layers[0].speakers, "utterances": layers[0].utterances, "models": len(layers)},
        "validation_eer": round(float(np.mean([layer.validation_eer for layer in layers])), 4),
        "unadapted_eer": round(float(np.mean([layer.unadapted_eer for layer in layers])), 4),
    }
    return RiskAttack(name, parts, sets.labels(), about, tuple(checks))


@dataclass(frozen=True, eq=False)
class _Sets:
    """Ids, speakers and labels of all utterances, and the rows of A and of B."""

    recordings: Recordings
    ids: list[str]
    speaker: Names
    columns: Mapping[str, Names]

    def rows(self, side: str) -> NDArray[np.bool_]:
        return np.array([self.recordings.split[key] == side for key in self.ids])

    def labels(self) -> dict[str, Names]:
        return {key: column[self.rows("A")] for key, column in self.columns.items()}

    def part(self, vectors: Floats, only: frozenset[str] | None = None) -> AttackPart:
        """Return both sets with the embeddings of one model, checked."""
        table = EmbeddingTable(np.array(self.ids), self.speaker, vectors.astype(np.float32))
        a, b = table.rows(self.rows("A")), table.rows(self.rows("B"))
        check_sets(a, b)
        return AttackPart(
            utterance_embeddings(a.vector, a.speaker.tolist()), utterance_embeddings(b.vector, b.speaker.tolist()), only
        )


@dataclass(frozen=True, eq=False)
class _Layer:
    """A trained affine layer for the speakers ``only``; with ``on_trunk`` it replaces the last layer."""

    name: str
    linear: Linear
    on_trunk: bool
    only: frozenset[str] | None
    speakers: int
    utterances: int
    validation_eer: float
    unadapted_eer: float

    def apply(self, raw: Floats, plain: Floats) -> Floats:
        return self.linear.transform(raw if self.on_trunk else plain)


def _learn(
    encoder: SpeakerEncoder,
    corpora: Sequence[Corpus],
    known: Mapping[str, Utterance],
    release: set[str],
    context: RunContext,
) -> list[_Layer]:
    """Return one layer, or one for each fifth of those speakers of the release who are in the training speech."""
    labeled = [known.get(u.id, u) for corpus in corpora for u in corpus]
    unknown = next((u.id for u in labeled if u.speaker is None), None)
    if unknown is not None:
        raise InputError(f"training utterance {unknown} has no speaker", fix="add utt2spk")
    data = _TrainingData(
        np.concatenate([embed_raw(corpus, encoder, context).vectors for corpus in corpora]),
        np.array([str(u.speaker) for u in labeled]),
        np.array([u.gender or "" for u in labeled]),
        recording_units(labeled),
    )
    shared = sorted(release & set(data.speaker.tolist()))
    if not shared:
        return [_fit(encoder, data, None, context, "attacker learning")]
    parts = [frozenset(shared[number::_PARTS]) for number in range(min(_PARTS, len(shared)))]
    parts[0] |= frozenset(release - set(shared))  # speakers without training speech: any model may attack them
    return [
        _fit(encoder, data.without(only), only, context, f"attacker learning, model {number} of {len(parts)}")
        for number, only in enumerate(parts, start=1)
    ]


@dataclass(frozen=True, eq=False)
class _TrainingData:
    """Embeddings of the training speech before the last layer, (n, k), and labels of each utterance, (n,)."""

    raw: Floats
    speaker: Names
    gender: Names
    unit: Names

    def without(self, speakers: frozenset[str]) -> _TrainingData:
        """Return the utterances of all other speakers."""
        kept = ~np.isin(self.speaker, sorted(speakers))
        return _TrainingData(self.raw[kept], self.speaker[kept], self.gender[kept], self.unit[kept])


def _fit(
    encoder: SpeakerEncoder, data: _TrainingData, only: frozenset[str] | None, context: RunContext, label: str
) -> _Layer:
    """Return the layer that does best on held-out training speakers; it is for the speakers ``only``, or for all."""
    codes = np.unique(data.speaker, return_inverse=True)[1].reshape(-1).astype(np.int64)
    trunk = data.raw if has_trunk(encoder) else None
    training = LabeledEmbeddings(from_raw(encoder, data.raw), trunk, codes, data.gender, data.unit)
    affine = [c for c in candidates(training) if c.backend.affine]  # so that vectors can be averaged and compared
    adapted = adapt(training, affine, cache=context.cache, quiet=not context.progress, label=label)
    assert isinstance(adapted.scorer, Linear)  # noqa: S101 -- the scorer of an affine back-end
    return _Layer(
        adapted.candidate.name,
        adapted.scorer,
        adapted.candidate.on_trunk,
        only,
        adapted.speakers,
        adapted.utterances,
        adapted.validation_eer,
        adapted.unadapted,
    )
