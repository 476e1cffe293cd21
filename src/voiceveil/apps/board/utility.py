"""UAR and pitch correlation of a submission, computed from its audio when it is verified.

Conventions: the UAR is of all utterances of the emotion sets, by the contest's ``emotion_model``, which learns from the
original speech of DATA; pitch correlations are of the sampled trial utterances. Both have a 95% interval over
speakers or utterances, as in an evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from voiceveil import models
from voiceveil.apps.board.contest import Contest, load_rules
from voiceveil.apps.board.lists import emotion_sets, open_set, parts_of
from voiceveil.apps.board.stated import needs_pitch
from voiceveil.corpus import Corpus
from voiceveil.evaluation.protocol import Emotion
from voiceveil.evaluation.results import Figure
from voiceveil.evaluation.tasks.emotion import FUNCTIONALS
from voiceveil.models.emotion.evaluation import EmotionRecognizer
from voiceveil.run.context import RunContext

__all__ = ["check_emotion_model", "emotion_figures", "pitch_figures"]

_TRACKER = "autocorrelation"


def check_emotion_model(contest: Contest) -> None:
    """Raise an ``InputError`` if the emotion model, or the labels that it learns from, cannot be used."""
    if emotion_sets(contest):
        for part in contest.rules.emotion:
            models.emotion_folds(_original(contest, part))
        if contest.emotion_model != FUNCTIONALS:
            models.pretrained_recognizer(contest.emotion_model)


def emotion_figures(contest: Contest, audio: Mapping[str, Corpus], context: RunContext) -> list[Figure]:
    """Return the UAR of each emotion set of the contest; none if it does not verify emotions."""
    figures = []
    for part in contest.rules.emotion if emotion_sets(contest) else ():
        original = _original(contest, part)
        folds = models.emotion_folds(original)
        if contest.emotion_model == FUNCTIONALS:
            recognizer: EmotionRecognizer = models.train_emotion_recognizer(original, folds, context)
        else:
            recognizer = models.pretrained_recognizer(contest.emotion_model)
        uar = models.evaluate_emotion(audio[part.set], folds, recognizer, context).uar
        figures.append(
            Figure(
                "uar", uar.value, part.dataset, uar.low, uar.high, part.split, condition="a",
                model=contest.emotion_model,
            )
        )  # fmt: skip
    return figures


def _original(contest: Contest, part: Emotion) -> Corpus:
    """Return the original speech of all sets of an emotion corpus, of every split that DATA holds.

    Folds need it: a model of IEMOCAP learns from the speakers of both splits (evaluation plan of 2024, Table 2).
    """
    corpus = part.dataset.removesuffix(f"_{part.split}")
    names = [
        other.set for other in load_rules(contest.protocol).emotion
        if other.dataset.removesuffix(f"_{other.split}") == corpus and (contest.data / other.set / "wav.scp").is_file()
    ]  # fmt: skip
    utterances = {u.id: u for name in names for u in open_set(contest.data / name)}
    return replace(open_set(contest.data / part.set), utterances=tuple(utterances.values()), trials=None)


def pitch_figures(
    contest: Contest, audio: Mapping[str, Corpus], sample: Mapping[str, frozenset[str]], context: RunContext
) -> list[Figure]:
    """Return the pitch correlation of each trial set, over its sampled utterances; none if the rules ask for none."""
    figures = []
    for part in parts_of(contest)[0] if needs_pitch(contest) else ():
        for trials in part.trials:
            name = trials.set
            speech = audio[name]
            chosen = replace(speech, utterances=tuple(u for u in speech if u.id in sample[name]), trials=None)
            rho = models.evaluate_pitch(open_set(contest.data / name), chosen, context, tracker=_TRACKER).rho
            figures.append(
                Figure(
                    "pitch_correlation", rho.value, part.dataset, rho.low, rho.high, part.split, trials.gender,
                    part.subset, "oa", model=_TRACKER,
                )
            )  # fmt: skip
    return figures
