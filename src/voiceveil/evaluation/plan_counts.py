"""Compare the sizes of sets with those that the plan of a protocol states: utterances, speakers, trials and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus
from voiceveil.corpus.challenge_data import CountDifference
from voiceveil.evaluation.protocol import Protocol, ProtocolTrialSet, Verification

__all__ = ["count_differences", "word_differences"]


def count_differences(protocol: Protocol, corpora: Mapping[str, Corpus]) -> list[CountDifference]:
    """Return where utterances, speakers and trials of the sets are not as many as the plan says.

    Parameters
    ----------
    protocol
        States the sets and their counts; a count that it does not state is not compared.
    corpora
        The sets by name; sets of the protocol that are not among them are passed over.

    Raises
    ------
    InputError
        If a set of trials has no trial list.
    """
    return [
        CountDifference(sets, f"{label}: {count}, the plan says {expected}")
        for sets, label, count, expected in _counts(protocol, corpora)
        if expected is not None and count != expected
    ]


def word_differences(protocol: Protocol, corpora: Mapping[str, Corpus]) -> list[str]:
    """Return sentences about transcripts with another number of words than the official results state."""
    differences = []
    for part in protocol.recognition:
        if part.words is not None and all(name in corpora for name in part.sets):
            words = sum(len((u.text or "").split()) for name in part.sets for u in corpora[name])
            if words != part.words:
                differences.append(f"words of {part.dataset}: {words}, the official results say {part.words}")
    return differences


_Count = tuple[tuple[str, ...], str, int, int | None]


def _counts(protocol: Protocol, corpora: Mapping[str, Corpus]) -> Iterator[_Count]:
    """Yield sets, what is counted, the count, and the expected count."""
    for part in protocol.verification:
        if part.enroll not in corpora:  # its trials cannot be scored; the recordings may serve other measures
            continue
        yield from _enrollment_counts(part, corpora[part.enroll])
        present = [trials for trials in part.trials if trials.set in corpora]
        if len(present) == len(part.trials):
            sets = tuple(trials.set for trials in present)
            total = sum(len(corpora[name]) for name in sets)
            yield sets, f"trial utterances of {part.dataset} {part.subset}".rstrip(), total, part.trial_utterances
        for trials in present:
            yield from _trial_counts(trials, corpora[trials.set])
    for emotion in protocol.emotion:
        if emotion.set in corpora:
            yield (emotion.set,), f"utterances of {emotion.set}", len(corpora[emotion.set]), emotion.utterances
    training = protocol.training
    if training is not None and training.set in corpora:
        corpus, sets = corpora[training.set], (training.set,)
        yield sets, f"utterances of {training.set}", len(corpus), training.utterances
        yield sets, f"speakers of {training.set}", len(corpus.by_speaker), training.speakers
        for gender, expected in training.genders.items():
            yield sets, f"speakers of {training.set} of gender {gender}", _genders(corpus)[gender], expected


def _enrollment_counts(part: Verification, corpus: Corpus) -> Iterator[_Count]:
    yield (part.enroll,), f"utterances of {part.enroll}", len(corpus), part.enroll_utterances
    for gender, expected in part.enroll_speakers.items():
        yield (part.enroll,), f"speakers of {part.enroll} of gender {gender}", _genders(corpus)[gender], expected


def _trial_counts(trials: ProtocolTrialSet, corpus: Corpus) -> Iterator[_Count]:
    listed = corpus.trials
    if listed is None:
        raise InputError("a set of trials without a trial list", where=corpus.root)
    sets = (trials.set,)
    yield sets, f"speakers of {trials.set}", len(corpus.by_speaker), trials.speakers
    yield sets, f"target trials of {trials.set}", int(listed.target.sum()), trials.target
    yield sets, f"nontarget trials of {trials.set}", int((~listed.target).sum()), trials.nontarget


def _genders(corpus: Corpus) -> Counter[str | None]:
    """Return gender -> number of speakers."""
    return Counter(spoken[0].gender for spoken in corpus.by_speaker.values())
