"""UAR, pitch correlation and in 2022 the WER of a submission, as its official files state them.

A submission holds nothing that these could be computed from but its audio, which only a verification analyzes: until
then they are as little proven as the scores. The UAR is the mean over the folds of
``exp/ser/results_folds<suffix>.csv`` (2024, 2026); pitch correlations stand in ``results_summary.txt`` (2022), as do
the WERs of archives without transcripts, which those of 2022 are. An archive without these files has no such figures; a
system without a UAR is not ranked by UAR, and one without pitch correlations not at all where the challenge asks for a
minimum.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from voiceveil.apps.board.contest import Contest
from voiceveil.core.errors import InputError
from voiceveil.evaluation.averages import counting_figures, dataset_of
from voiceveil.evaluation.protocol import Recognition
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official import read_results

__all__ = ["STATED", "needs_pitch", "stated_figures", "stated_wer"]

#: Pattern of the names of the files that are read.
STATED = r"results_folds[^/]*\.csv|results_summary\.txt"
_FOLDS = re.compile(r"(.*/)?ser/results_folds[^/]*\.csv")
_SUMMARY = re.compile(r"(.*/)?results_summary\.txt")


def needs_pitch(contest: Contest) -> bool:
    """Return whether systems are ranked by pitch correlation, or need a minimum of it."""
    return "pitch_correlation" in contest.ranking.by or contest.ranking.minimum_pitch_correlation is not None


def stated_figures(contest: Contest, files: Mapping[str, Path]) -> tuple[Figure, ...]:
    """Return the UARs and pitch correlations of anonymized speech that the files of an archive state.

    Parameters
    ----------
    contest
        Its rules say which are needed.
    files
        Name of a member -> its file.

    Raises
    ------
    InputError
        If a file cannot be read, or has figures of some of the sets alone.
    """
    uar = _stated(contest, files, _FOLDS, "uar") if "uar" in contest.ranking.by else ()
    pitch = _stated(contest, files, _SUMMARY, "pitch_correlation") if needs_pitch(contest) else ()
    return (*uar, *pitch)


def stated_wer(contest: Contest, part: Recognition, files: Mapping[str, Path]) -> Figure | None:
    """Return the WER of a dataset, anonymized, in ``results_summary.txt``; None if it is not there."""
    name = _only_file(files, _SUMMARY, "wer")
    if name is None:
        return None
    results = _read(name, files)
    figures = counting_figures(results, "wer", contest.rules, split=part.split, condition="a", dataset=part.dataset)
    return replace(figures[0], model="as stated", detail={}) if figures else None


def _only_file(files: Mapping[str, Path], pattern: re.Pattern[str], metric: str) -> str | None:
    """Return the name of the one member that states a metric; None if there is none."""
    names = [name for name in files if pattern.fullmatch(name)]
    if len(names) > 1:
        raise InputError(f"{len(names)} files that state the {metric}", where=names[0], fix="pack one of them")
    return names[0] if names else None


def _read(name: str, files: Mapping[str, Path]) -> Results:
    try:
        return read_results(files[name])
    except InputError as error:
        raise InputError(error.what, where=name, line=error.line, fix=error.fix) from error


def _stated(contest: Contest, files: Mapping[str, Path], pattern: re.Pattern[str], metric: str) -> tuple[Figure, ...]:
    name = _only_file(files, pattern, metric)
    if name is None:
        return ()
    figures = _read(name, files).find(metric, split=contest.split)
    expected = contest.rules.weights(metric, contest.split)
    by_dataset = {dataset_of(figure): figure for figure in figures if figure.condition != "o"}
    if metric == "pitch_correlation" and not set(by_dataset) & set(expected):
        return ()
    missing = [dataset for dataset in expected if dataset not in by_dataset]
    if missing:
        raise InputError(f"no {metric} of {missing[0]}, anonymized", where=name, fix="evaluate all sets")
    return tuple(replace(by_dataset[dataset], model="as stated", detail={}) for dataset in expected)
