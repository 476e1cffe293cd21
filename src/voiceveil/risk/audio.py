"""Attackers from audio: original and anonymized recordings, and an encoder for each attacker.

Conventions: corpora are bags of utterances found by id; the split of ``voiceveil corpus protocol --legal`` says which
are in A and in B. Speakers, genders and other labels are those of the original corpora. As in section 3.4 of the paper
both sets are anonymized for every attacker but ``original``; attackers differ in what their encoder has learned from:

* original, ignorant: an encoder of original speech, as it is;
* semi-informed, informed: ``ENCODER-adapted`` has its last layer learned anew from labelled speech of a similar system
  (``similar``) or of the very system (``training``; by default the release itself); another name is an encoder that
  was trained as a whole (``trained:FOLDER``).

Nobody is attacked by a model that has heard them. Where training speech has speakers of the release, these are
attacked in five parts, each by a model that has heard all others: an attacker who knows everybody but you.

An adapted layer is an affine map, so that x-vectors are averaged and compared by their cosine exactly as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack import Attacker, make_attackers
from voiceveil.attack.adaptation import TrainingSet, adapt, candidates, recording_units
from voiceveil.attack.backends import Linear
from voiceveil.attack.checks import check_training_speakers
from voiceveil.attack.embedding import embed_raw, from_raw, has_trunk
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance
from voiceveil.metrics.legal import voices
from voiceveil.models.speaker.covariances import Floats
from voiceveil.models.speaker.encoders import SpeakerEncoder
from voiceveil.risk.embeddings import Names, Table
from voiceveil.risk.sets import ATTACKERS, Attack, Part, check_sets
from voiceveil.run.context import RunContext

__all__ = ["Recordings", "attacks_from_audio"]

_PARTS = 5


@dataclass(frozen=True)
class Recordings:
    """Original and anonymized recordings of A and B, and speech that attackers learn from, all anonymized.

    ``training`` by the system that is attacked (empty: the release itself), ``similar`` by a similar one.
    """

    split: Mapping[str, str]
    original: tuple[Corpus, ...] = ()
    anonymized: tuple[Corpus, ...] = ()
    training: tuple[Corpus, ...] = ()
    similar: tuple[Corpus, ...] = ()

    def side(self, protected: bool) -> tuple[Utterance, ...]:
        """The utterances of A and B, in the order of the split; who speaks is known from the original corpora."""
        corpora = self.anonymized if protected else self.original
        there = {u.id: u for corpus in corpora for u in corpus}
        missing = [key for key in self.split if key not in there]
        if missing:
            kind = "anonymized" if protected else "original"
            what = f"{len(missing)} utterance(s) of the protocol are not among the {kind} recordings, e.g. {missing[0]}"
            raise InputError(what, fix=f"give all corpora with --{kind}")
        return tuple(there[key] for key in self.split)

    def known(self) -> dict[str, Utterance]:
        """Utterance id -> what is known about it: from the original corpora, or else from the anonymized ones."""
        known = {u.id: u for corpus in (*self.anonymized, *self.original) for u in corpus}
        for key in self.split:
            if key not in known or known[key].speaker is None:
                raise InputError(f"utterance {key} has no speaker", fix="give corpora that say who speaks")
        return known


def attacks_from_audio(
    recordings: Recordings,
    attackers: Mapping[str, str | Attacker],
    context: RunContext,
    labels: Mapping[str, Mapping[str, str]],
) -> list[Attack]:
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
    by: SpeakerEncoder,
    recordings: Recordings,
    context: RunContext,
    labels: Mapping[str, Mapping[str, str]],
) -> Attack:
    known = recordings.known()
    spoken = recordings.side(name != "original")
    names = np.array([known[u.id].speaker for u in spoken])
    raw = embed_raw(spoken, by, context).vectors
    plain = from_raw(by, raw)
    columns = {key: np.array([of.get(u.id, "") for u in spoken]) for key, of in labels.items()}
    sets = _Sets(recordings, [u.id for u in spoken], names, columns)
    about: dict[str, Any] = {"encoder": by.name, "fingerprint": by.fingerprint(), "knows": ATTACKERS[name]}
    checks = check_training_speakers(f"the {name} attacker ({by.name})", by.training().speaker_ids, set(names.tolist()))
    if not adapted:
        return Attack(name, (sets.part(plain),), sets.labels(), {**about, "scores": "cosine"}, tuple(checks))
    corpora = recordings.similar if name == "semi-informed" else recordings.training or recordings.anonymized
    layers = _learn(by, corpora, known, set(names.tolist()), context)
    parts = tuple(sets.part(layer.apply(raw, plain), layer.only) for layer in layers)
    learned = [layer.name for layer in layers]
    about |= {
        "scores": f"cosine behind a learned layer ({', '.join(dict.fromkeys(learned))})",
        "training": {"speakers": layers[0].speakers, "utterances": layers[0].utterances, "models": len(layers)},
        "validation_eer": round(float(np.mean([layer.validation_eer for layer in layers])), 4),
        "unadapted_eer": round(float(np.mean([layer.unadapted_eer for layer in layers])), 4),
    }
    return Attack(name, parts, sets.labels(), about, tuple(checks))


@dataclass(frozen=True, eq=False)
class _Sets:
    """Who said what, row by row, and which rows are of A and of B."""

    recordings: Recordings
    ids: list[str]
    speaker: Names
    columns: Mapping[str, Names]

    def rows(self, side: str) -> NDArray[np.bool_]:
        return np.array([self.recordings.split[key] == side for key in self.ids])

    def labels(self) -> dict[str, Names]:
        return {key: column[self.rows("A")] for key, column in self.columns.items()}

    def part(self, vectors: Floats, only: frozenset[str] | None = None) -> Part:
        """Both sets as a model hears them, checked."""
        everything = Table(np.array(self.ids), self.speaker, vectors.astype(np.float32))
        a, b = everything.rows(self.rows("A")), everything.rows(self.rows("B"))
        check_sets(a, b)
        return Part(voices(a.vector, a.speaker.tolist()), voices(b.vector, b.speaker.tolist()), only)


@dataclass(frozen=True, eq=False)
class _Layer:
    """A learned affine layer, for the speakers ``only``; ``on_trunk``: it stands in the place of the last one."""

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
    by: SpeakerEncoder,
    corpora: Sequence[Corpus],
    known: Mapping[str, Utterance],
    release: set[str],
    context: RunContext,
) -> list[_Layer]:
    """One layer if no speaker of the release is in the training speech, else one for each fifth of these."""
    listed = [u for corpus in corpora for u in corpus]
    told = [known.get(u.id, u) for u in listed]
    unknown = next((u.id for u in told if u.speaker is None), None)
    if unknown is not None:
        raise InputError(f"training utterance {unknown} has no speaker", fix="add utt2spk")
    speaker = np.array([str(u.speaker) for u in told])
    raw = np.concatenate([embed_raw(corpus, by, context).vectors for corpus in corpora])
    gender = np.array([u.gender or "" for u in told])
    unit = recording_units(told)
    heard = sorted(release & set(speaker.tolist()))
    if not heard:
        return [_fit(by, raw, speaker, gender, unit, None, context)]
    parts = [frozenset(heard[number::_PARTS]) for number in range(min(_PARTS, len(heard)))]
    strangers = frozenset(release - set(heard))
    parts[0] |= strangers  # any model will do for those whom none has heard
    layers = []
    for only in parts:
        kept = ~np.isin(speaker, sorted(only))
        layers.append(_fit(by, raw[kept], speaker[kept], gender[kept], unit[kept], only, context))
    return layers


def _fit(
    by: SpeakerEncoder,
    raw: Floats,
    speaker: Names,
    gender: Names,
    unit: Names,
    only: frozenset[str] | None,
    context: RunContext,
) -> _Layer:
    """The layer that does best on held-out speakers of its training data."""
    codes = np.unique(speaker, return_inverse=True)[1].reshape(-1).astype(np.int64)
    data = TrainingSet(from_raw(by, raw), raw if has_trunk(by) else None, codes, gender, unit)
    affine = [one for one in candidates(data) if one.backend.affine]  # so that vectors can be averaged and compared
    found = adapt(data, affine, cache=context.cache)
    assert isinstance(found.scorer, Linear)  # noqa: S101 -- the scorer of an affine back-end
    return _Layer(
        found.candidate.name,
        found.scorer,
        found.candidate.on_trunk,
        only,
        found.speakers,
        found.utterances,
        found.validation_eer,
        found.unadapted,
    )
