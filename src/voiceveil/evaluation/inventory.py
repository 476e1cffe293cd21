"""The part of a protocol that a folder of data allows: sets that are present or missing, and differences to the plan.

An evaluation uses the sets that are present, and its results name those that are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from voiceveil.core.errors import InputError
from voiceveil.core.files import read_text
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.evaluation.plan_counts import count_differences
from voiceveil.evaluation.protocol import (
    Emotion,
    Level,
    Protocol,
    ProtocolTrialSet,
    Recognition,
    Training,
    Verification,
)

__all__ = ["Inventory", "spread_sample", "take_inventory"]

_SAMPLE_SEED = 2024


@dataclass(frozen=True, eq=False)
class Inventory:
    """The part of a protocol that the data allow: ``corpora`` (name -> corpus) with their ``roles``.

    ``verification``, ``recognition`` and ``emotion`` are the parts of the protocol whose sets are present; ``missing``
    names the other sets; ``differences`` are sentences about counts that differ from the plan, ``remarks`` about sets
    that replace others, with the content of the folder's ``NOTE.txt``.
    """

    protocol: Protocol
    corpora: dict[str, Corpus]
    roles: dict[str, str]
    verification: tuple[Verification, ...]
    recognition: tuple[Recognition, ...]
    emotion: tuple[Emotion, ...]
    training: tuple[str, ...]
    missing: tuple[str, ...]
    differences: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    @property
    def enrollment_of(self) -> dict[str, str]:
        """Trial set -> its enrollment set, of all verification."""
        return {trials.set: part.enroll for part in self.verification for trials in part.trials}

    def recognition_ids(self, entry: Recognition, name: str) -> list[str]:
        """Return the ids of the utterances of a set whose words are recognized: all, or the entry's ``sample``."""
        corpus = self.corpora[name]
        return [u.id for u in corpus] if entry.sample is None else spread_sample(corpus, entry.sample)

    def trial_sets(self) -> list[tuple[Verification, ProtocolTrialSet]]:
        """Return each trial set once, with the entry of the protocol that it belongs to."""
        by_name = {trials.set: (entry, trials) for entry in self.verification for trials in entry.trials}
        return list(by_name.values())

    def draw_role(self, name: str) -> str | None:
        """Return the role of a set for draws at speaker level, ``enroll`` or ``trial``, whatever files it has.

        None for other sets, and at utterance level: each utterance then has the role that the set lists.
        """
        role = self.roles[name]
        return role if role in ("enroll", "trial") and self.level(name) == "speaker" else None

    def level(self, name: str) -> Level:
        """Return the level at which a set is anonymized: ``utterance`` or ``speaker``."""
        return self.protocol.level(self.roles[name])


def spread_sample(corpus: Corpus, count: int) -> list[str]:
    """Return the ids of ``count`` utterances, as many of each speaker as possible, in the order of the corpus.

    The choice depends on the corpus alone, and a smaller sample is part of a larger one.
    """
    rng = np.random.default_rng(_SAMPLE_SEED)
    ranked = [
        (rank, float(rng.random()), utterances[index].id)
        for _, utterances in sorted(corpus.by_speaker.items(), key=lambda item: str(item[0]))
        for rank, index in enumerate(rng.permutation(len(utterances)))
    ]
    chosen = {id for *_, id in sorted(ranked)[:count]}
    return [u.id for u in corpus if u.id in chosen]


def take_inventory(
    protocol: Protocol, data: Path, *, train: Sequence[str] = (), emotion: Sequence[str] = ()
) -> Inventory:
    """Return the sets of a protocol that a folder has.

    Parameters
    ----------
    protocol
        The protocol.
    data
        Folder of Kaldi directories, named as in the protocol.
    train, emotion
        Sets of ``data`` to use instead of the training and the emotion sets of the protocol, for example a smaller
        training set. By default, if those of the protocol are missing, its stand-ins are used. The results name them.

    Raises
    ------
    InputError
        If the folder or a named set does not exist, or no set of the protocol is there.
    """
    if not data.is_dir():
        raise InputError("no such folder", where=data)
    train, emotion = _stand_ins(protocol, data, train, emotion)
    emotions = tuple(Emotion(name, "", name) for name in emotion) or protocol.emotion
    roles = _used_roles(protocol, train, emotions)
    for name in (*train, *emotion):
        if not (data / name / "wav.scp").exists():
            raise InputError(f"no set {name!r}", where=data, fix="give the name of a Kaldi directory in this folder")
    corpora = {name: open_corpus(data / name) for name in roles if (data / name / "wav.scp").exists()}
    missing = tuple(name for name in {**protocol.roles(), **roles} if name not in corpora)
    verification = tuple(
        replace(part, trials=tuple(t for t in part.trials if t.set in corpora))
        for part in protocol.verification
        if part.enroll in corpora and any(t.set in corpora for t in part.trials)
    )
    recognition = tuple(part for part in protocol.recognition if all(name in corpora for name in part.sets))
    judged = tuple(part for part in emotions if part.set in corpora)
    if not (verification or recognition or judged):
        fix = f"it should hold Kaldi directories such as {next(iter(roles))}"
        raise InputError(f"nothing of {protocol.title} is here", where=data, fix=fix)
    return Inventory(
        protocol,
        corpora,
        {name: role for name, role in roles.items() if name in corpora},
        verification,
        recognition,
        judged,
        _training(protocol.training, corpora, train),
        missing,
        tuple(difference.text for difference in count_differences(protocol, corpora)),
        (*_replacements(protocol, train, emotion), *_note(data)),
    )


def _used_roles(protocol: Protocol, train: Sequence[str], emotions: Sequence[Emotion]) -> dict[str, str]:
    """Return set -> role, with the training and emotion sets that are used instead of those of the protocol."""
    named: list[tuple[str, str]] = [(name, role) for name, role in protocol.named_sets() if role in ("enroll", "trial")]
    named += [(part.set, "emotion") for part in emotions]
    if protocol.training is not None and not train:
        named += [(name, "train") for name in protocol.training.sets]
    roles: dict[str, str] = {}
    for name, role in named:
        roles.setdefault(name, role)
    return {**roles, **dict.fromkeys(train, "train")}


def _stand_ins(
    protocol: Protocol, data: Path, train: Sequence[str], emotion: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the training and emotion sets to use if those of the plan are missing and the user named none."""

    def there(names: Iterable[str]) -> list[str]:
        return [name for name in names if (data / name / "wav.scp").exists()]

    if not train and protocol.training is not None and not there(protocol.training.sets):
        train = there(protocol.stand_ins.train)
    if not emotion and protocol.emotion and not there(part.set for part in protocol.emotion):
        emotion = there(protocol.stand_ins.emotion)
    return train, emotion


def _replacements(protocol: Protocol, train: Sequence[str], emotion: Sequence[str]) -> Iterator[str]:
    """Yield sentences about sets that are used instead of those of the plan."""
    planned = {"the attacker learns from": list(protocol.training.sets) if protocol.training else []}
    planned["emotions are those of"] = [part.set for part in protocol.emotion]
    for (phrase, sets), names in zip(planned.items(), (train, emotion), strict=True):
        if names:
            yield f"{phrase} {' and '.join(names)}" + (f" instead of {' and '.join(sets)}" if sets else "")


def _note(data: Path) -> list[str]:
    """Return the content of the folder's ``NOTE.txt``, e.g. that voices are synthetic, for every report."""
    path = data / "NOTE.txt"
    return [f"about the data: {' '.join(read_text(path, at_most=1 << 16).split())}"] if path.is_file() else []


def _training(training: Training | None, corpora: dict[str, Corpus], train: Sequence[str]) -> tuple[str, ...]:
    if train:
        return tuple(train)
    return tuple(name for name in (() if training is None else training.sets) if name in corpora)
