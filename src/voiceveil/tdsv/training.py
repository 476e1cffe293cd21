"""Training of a system on the training part of a challenge, and of other corpora that the user names.

Back-end, cohort, phrases and the calibration of the fusion come from the training speakers. Calibration needs scores of
speakers whom the back-end was not trained on: the speakers are divided into four folds, each is scored by a back-end
trained on the others, and the fusion is fitted to the trials of all four. Then the rest is fitted to all speakers.

Other corpora add speakers: their utterances with a phrase are trained on like those of the challenge, the others teach
voices alone. Neither their own enrollment and trials are used, nor any recording of the challenge's.

Training labels do not tell the gender, and the challenge has no trials across genders: the impostors of a speaker are
the half of the other speakers whose voices are nearest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.sampling import shuffled
from voiceveil.corpus.training_part import training_part
from voiceveil.models.speaker.encoders import encoder as encoder_of
from voiceveil.run.context import RunContext
from voiceveil.tdsv.challenge import Challenge
from voiceveil.tdsv.features import CONTENT, RecordingFeatures, extract_features
from voiceveil.tdsv.fusion import Fusion, Logistic
from voiceveil.tdsv.lists import Label
from voiceveil.tdsv.phrase_models import PhraseClassifier, PhraseMatch, PhraseModel
from voiceveil.tdsv.phrases import FREE_TEXT
from voiceveil.tdsv.speaker_models import fit_voices
from voiceveil.tdsv.system import EnrolledModel, System, TestFeatures

__all__ = ["DEFAULT_BACKEND", "VOICE_ONLY", "AddedTraining", "added_training", "fit_system", "train", "training_corpus"]

#: Phrase of recordings that teach voices alone.
VOICE_ONLY = ""
DEFAULT_BACKEND = "wccn"
_FOLDS = 4
_ROTATIONS = 4  # recordings of a phrase that are tested in turn
_ENROLLED = 3
_NO_FUSION = Fusion(Logistic(np.zeros(2), 0.0), Logistic(np.zeros(2), 0.0))


def train(
    challenge: Challenge,
    *,
    encoder: str = "campplus",
    backend: str = DEFAULT_BACKEND,
    content: str = CONTENT,
    more: Sequence[Corpus] = (),
    context: RunContext | None = None,
) -> System:
    """Train a system for the task of a challenge on its training files.

    Parameters
    ----------
    challenge : Challenge
        The challenge.
    encoder, backend, content : str
        Names of the speaker encoder, of its back-end, and of the content features.
    more : sequence of Corpus
        Other corpora to train on as well, see :func:`added_training`.
    context : RunContext, optional
        Cache, processes and progress.

    Raises
    ------
    InputError
        If there are no training labels, or too few speakers or recordings.
    """
    if not challenge.labels:
        raise InputError("no training labels", where=challenge.root / "docs", fix="add train_labels.txt")
    network = encoder_of(encoder)
    network.check()
    added = added_training(challenge, more)
    labels = [*challenge.labels, *added.labels]
    voice_only = [label.file for label in added.labels if not label.phrase]
    recordings = [*challenge.training(), *added.utterances]
    measured = extract_features(recordings, network, content, voice_only=voice_only, context=context)
    system = fit_system(
        challenge.task or 1,
        labels,
        measured,
        backend=backend,
        names=(encoder, network.fingerprint(), content),
        where=challenge.root / "docs" / "train_labels.txt",
    )
    return system if not more else replace(system, record={**system.record, "corpora": list(added.names)})


@dataclass(frozen=True)
class AddedTraining:
    """Utterances of other corpora with their labels (phrase "": the voice alone), and the names of the corpora."""

    labels: tuple[Label, ...]
    utterances: tuple[Utterance, ...]
    names: tuple[str, ...]


def added_training(challenge: Challenge, corpora: Sequence[Corpus]) -> AddedTraining:
    """Return the training part of other corpora, without any recording of the challenge.

    Speakers and utterances get the number of their corpus, as two corpora may use the same names.

    Raises
    ------
    InputError
        If a corpus has nothing to train on.
    """
    own = {u.path.resolve() for u in challenge.training()}
    for subset in challenge.subsets:
        own |= {u.path.resolve() for u in (*challenge.enrollment(subset), *challenge.tests(subset))}
    labels: list[Label] = []
    utterances: list[Utterance] = []
    for number, corpus in enumerate(corpora, 1):
        part = [u for u in training_part(corpus) if u.speaker is not None and u.path.resolve() not in own]
        if not part:
            fix = "give other recordings than those of the challenge, with speakers"
            raise InputError("nothing to train on", where=corpus.root, fix=fix)
        for utterance in part:
            renamed = replace(utterance, id=f"{number}:{utterance.id}", speaker=f"{number}:{utterance.speaker}")
            utterances.append(renamed)
            labels.append(Label(renamed.id, str(renamed.speaker), utterance.phrase or VOICE_ONLY))
    return AddedTraining(tuple(labels), tuple(utterances), tuple(corpus.name for corpus in corpora))


def training_corpus(challenge: Challenge) -> Corpus:
    """Return the training files of a challenge, for a baseline that is trained on nothing else.

    Raises
    ------
    InputError
        If the challenge has no training labels.
    """
    if not challenge.labels:
        raise InputError("no training labels", where=challenge.root / "docs", fix="add train_labels.txt")
    return Corpus("training files", challenge.training(), root=challenge.root)


def fit_system(
    task: int,
    labels: Sequence[Label],
    measured: Mapping[str, RecordingFeatures],
    *,
    backend: str = DEFAULT_BACKEND,
    names: tuple[str, str, str] = ("", "", ""),
    where: Path | None = None,
) -> System:
    """Fit a system to the features of training files.

    Parameters
    ----------
    task : int
        1 or 2.
    labels : sequence of Label
        Speaker and phrase of each training file; :data:`VOICE_ONLY` where the phrase is not known.
    measured : mapping
        File id -> features.
    backend : str
        Name of the back-end.
    names : tuple of str
        Encoder, its fingerprint, content features.
    where : Path, optional
        File of the labels, for errors.

    Raises
    ------
    InputError
        If there are too few speakers or recordings.
    """
    people = _people(labels)
    if len(people) < 2 * _FOLDS:
        few = f"{len(people)} training speakers are too few: a back-end and its calibration need {2 * _FOLDS}"
        raise InputError(few, where=where, fix="give labels of more speakers")
    with_text = sum(len(utterances.get(FREE_TEXT, ())) > 1 for utterances in people.values())
    with_free = task == 2 and with_text >= 2 * _FOLDS
    order = shuffled(people, 0, "folds")
    scores: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    types: dict[bool, list[str]] = {False: [], True: []}
    for fold in range(_FOLDS):
        held = order[fold::_FOLDS]
        known = [label for label in labels if label.speaker not in held]
        part = _fitted(task, known, measured, backend, names)
        trials = list(_trials({speaker: people[speaker] for speaker in held}, measured))
        for free in (False, True) if with_free else (False,):
            chosen = [trial for trial in trials if trial.free] if free else trials
            types[free] += [trial.type for trial in chosen]
            scores[free] += _scored(part, chosen, measured, free)
    kinds = np.array(types[False])
    missing = [kind for kind in ("TC", "TW", "IC") if not (kinds == kind).any()]
    if missing:
        fault = f"the training files give no trials of type {missing[0]} to calibrate on"
        raise InputError(fault, where=where, fix="give each speaker two phrases with four recordings each")
    with_free = with_free and {"TC", "TW", "IC"} <= set(types[True])
    fusions = [
        Fusion.fit(np.array(scores[free]), np.array(types[free])) for free in ((False, True) if with_free else (False,))
    ]
    fitted = _fitted(task, labels, measured, backend, names)
    counts = {kind: int((kinds == kind).sum()) for kind in ("TC", "TW", "IC")}
    record = {
        "speakers": len({label.speaker for label in labels}),
        "recordings": len(labels),
        "backend": backend,
        "calibration_trials": counts,
    }
    return System(task, *names, fitted.voices, fitted.wording, fusions[0], fusions[1] if with_free else None, record)


def _people(labels: Sequence[Label]) -> dict[str, dict[str, list[str]]]:
    """Return speaker -> phrase -> files, of all whose phrases are known."""
    people: dict[str, dict[str, list[str]]] = {}
    for label in labels:
        if label.phrase == VOICE_ONLY:
            continue
        people.setdefault(label.speaker, {}).setdefault(label.phrase, []).append(label.file)
    return people


def _fitted(
    task: int,
    labels: Sequence[Label],
    measured: Mapping[str, RecordingFeatures],
    backend: str,
    names: tuple[str, str, str],
) -> System:
    """Return a system with voices and wording, not calibrated yet."""
    embeddings = np.stack([measured[label.file].voice for label in labels])
    voices = fit_voices(embeddings, [label.speaker for label in labels], backend)
    spoken = [label for label in labels if label.phrase != VOICE_ONLY]
    contents = [content for label in spoken if (content := measured[label.file].content) is not None]
    phrases = [label.phrase for label in spoken]
    wording: PhraseModel = (PhraseClassifier if task == 1 else PhraseMatch).fit(contents, phrases)
    return System(task, *names, voices, wording, _NO_FUSION, _NO_FUSION, {})


@dataclass(frozen=True)
class _Trial:
    """A trial of training speakers, by files."""

    enroll: tuple[str, ...]
    free: tuple[str, ...]
    phrase: str
    test: str
    type: str


def _trials(
    people: Mapping[str, Mapping[str, list[str]]], measured: Mapping[str, RecordingFeatures]
) -> Iterator[_Trial]:
    """Yield trials: each recording of a phrase is tested in turn, three others enroll; half of the free text tests."""
    near = _nearest(people, measured)
    for speaker, utterances in people.items():
        free = utterances.get(FREE_TEXT, [])
        enrolling, wrong = tuple(free[::2]), free[1::2]
        for phrase, files in utterances.items():
            if phrase == FREE_TEXT or len(files) <= _ENROLLED:
                continue
            for turn in range(min(_ROTATIONS, len(files))):
                enroll = tuple(file for k, file in enumerate(files) if k != turn)[:_ENROLLED]
                tests = [(files[turn], "TC")]
                others = [f[turn] for p, f in utterances.items() if p not in (phrase, FREE_TEXT) and turn < len(f)]
                tests += [(test, "TW") for test in (*others, *wrong)]
                claims = (people[other].get(phrase, ()) for other in near[speaker])
                tests += [(claim[turn], "IC") for claim in claims if turn < len(claim)]
                yield from (_Trial(enroll, enrolling, phrase, test, kind) for test, kind in tests)


def _nearest(
    people: Mapping[str, Mapping[str, list[str]]], measured: Mapping[str, RecordingFeatures]
) -> dict[str, list[str]]:
    """Return for each speaker the half of the other speakers whose mean embeddings are nearest in angle."""
    names = list(people)
    means = np.stack([np.mean([measured[f].voice for fs in people[n].values() for f in fs], axis=0) for n in names])
    means = means - means.mean(axis=0)
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    order: NDArray[np.int64] = np.argsort(-(unit @ unit.T), axis=1)
    half = max(1, len(names) // 2)
    return {
        name: [names[k] for k in row if k != i][:half] for i, (name, row) in enumerate(zip(names, order, strict=True))
    }


def _scored(
    system: System, trials: Sequence[_Trial], measured: Mapping[str, RecordingFeatures], free: bool
) -> list[tuple[float, float]]:
    """Return the scores of voice and wording of each trial; models and tests are processed once."""
    models: dict[tuple[tuple[str, ...], str], EnrolledModel] = {}
    tests: dict[str, TestFeatures] = {}
    scores = []
    for trial in trials:
        key = (trial.enroll, trial.phrase)
        if key not in models:
            extra = [measured[file] for file in trial.free] if free else []
            models[key] = system.enroll([measured[file] for file in trial.enroll], extra, trial.phrase)
        if trial.test not in tests:
            tests[trial.test] = system.analyze(measured[trial.test])
        score = system.score(models[key], tests[trial.test])
        scores.append((score.voice, score.wording))
    return scores
