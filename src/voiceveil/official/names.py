"""Names of the challenge's sets, and the fields of a figure that they imply.

Conventions: ``libri_dev_enrolls``, ``vctk_test_trials_f_common``, ``libri_dev_asr``, ``IEMOCAP_dev``, and in 2026
``libri_dev_trials_mixed``, whose figures have the gender ""; an anonymized
set has a suffix, ``_anon`` in 2020 and 2022. An attack is named by both sets,
``ASV-libri_dev_enrolls_anon-libri_dev_trials_f_anon``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from voiceveil.evaluation.results import Figure

__all__ = [
    "CONDITIONS_OF",
    "LABEL_OF",
    "attack_fields",
    "attack_name",
    "speech_fields",
    "speech_name",
    "trial_fields",
    "trial_name",
]

#: Words for original and anonymized in the result files of 2024.
CONDITIONS_OF: Mapping[str, str] = {"original": "o", "anon": "a"}
LABEL_OF: Mapping[str, str] = {letter: word for word, letter in CONDITIONS_OF.items()}

_SET = r"([A-Za-z0-9]+)_(dev|test)"
_TRIALS = re.compile(rf"{_SET}_trials_([fm]|mixed)(?:_(common|all))?", re.ASCII)
_ATTACK = re.compile(rf"{_SET}_enrolls(_anon)?-{_SET}_trials_([fm]|mixed)(?:_(common|all))?(_anon)?", re.ASCII)
_SPEECH = re.compile(rf"{_SET}_asr(_anon)?", re.ASCII)


def trial_fields(name: str) -> dict[str, str] | None:
    """Return dataset, split, gender and subset of a trial set's name, or None if it is no such name.

    >>> trial_fields("vctk_dev_trials_m_common")
    {'dataset': 'vctk_dev', 'split': 'dev', 'gender': 'm', 'subset': 'common'}
    """
    match = _TRIALS.fullmatch(name)
    if match is None:
        return None
    corpus, split, gender, subset = match.groups()
    gender = gender.removesuffix("mixed")
    return {"dataset": f"{corpus}_{split}", "split": split, "gender": gender, "subset": subset or ""}


def trial_name(figure: Figure) -> str:
    """Return the trial set of a figure: the inverse of :func:`trial_fields`."""
    return f"{figure.dataset}_trials_{figure.gender or 'mixed'}" + (f"_{figure.subset}" if figure.subset else "")


def attack_fields(name: str) -> dict[str, str] | None:
    """Return the fields of an attack's name, with the condition; None if it is no such name.

    >>> attack_fields("libri_test_enrolls-libri_test_trials_f_anon")["condition"]
    'oa'
    """
    match = _ATTACK.fullmatch(name)
    if match is None or match[1] != match[4] or match[2] != match[5]:
        return None
    gender = match[6].removesuffix("mixed")
    fields = {"dataset": f"{match[1]}_{match[2]}", "split": match[2], "gender": gender, "subset": match[7] or ""}
    return fields | {"condition": ("a" if match[3] else "o") + ("a" if match[8] else "o")}


def attack_name(figure: Figure, suffix: str = "_anon") -> str:
    """Return the name of the attack of a figure: the inverse of :func:`attack_fields`."""
    enroll, trial = (suffix if letter == "a" else "" for letter in figure.condition)
    return f"{figure.dataset}_enrolls{enroll}-{trial_name(figure)}{trial}"


def speech_fields(name: str) -> dict[str, str] | None:
    """Return the fields of a transcribed set's name, ``libri_dev_asr_anon``, or None if it is no such name."""
    match = _SPEECH.fullmatch(name)
    if match is None:
        return None
    return {"dataset": f"{match[1]}_{match[2]}", "split": match[2], "condition": "a" if match[3] else "o"}


def speech_name(figure: Figure, suffix: str = "_anon") -> str:
    """Return the transcribed set of a figure: the inverse of :func:`speech_fields`."""
    return f"{figure.dataset}_asr" + (suffix if figure.condition == "a" else "")
