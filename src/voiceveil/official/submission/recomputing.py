"""The numbers of a submission, computed again from its own scores and transcripts, and from the original lists.

Conventions: rates are fractions, the files hold percent of three decimals, in 2022 of four digits. An EER is that of
the challenge's scripts (SpeechBrain's definition, in 2022 Kaldi's), recomputed from the scores of exactly the official
trials; a WER from the transcripts and the words of the original sets (in 2022 there are none); a UAR is the mean of its
folds, since a submission holds nothing below them. Each stated number must equal the recomputed one to the last digit
that it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from voiceveil import metrics
from voiceveil.attack.checks import check_scores
from voiceveil.core.errors import InputError
from voiceveil.core.files import open_file
from voiceveil.corpus import Corpus
from voiceveil.corpus.score_files import read_key, read_scores
from voiceveil.evaluation.averages import dataset_of
from voiceveil.evaluation.protocol import Protocol, Recognition, dataset_name
from voiceveil.evaluation.results import Figure
from voiceveil.metrics.verification import EerMethod
from voiceveil.metrics.wer import WordErrors, normalize_text, word_errors
from voiceveil.models.asr.text_normalization import plain_words
from voiceveil.official import read_results
from voiceveil.official.exp2024 import read_eer
from voiceveil.official.submission.contents import SubmissionContents
from voiceveil.official.transcripts import parse_wer

__all__ = ["Recomputed", "read_transcripts", "recompute", "stated"]

_LONGEST_LINE = 20_000  # bytes: some 3,000 words; the longest utterance of the challenges has 100
_HALF_DIGIT = 0.0000051  # of a percentage with three decimals, as a fraction
_HALF_FOLD_DIGIT = 0.000011  # a mean of rounded folds
_HALF_DIGIT_2022 = 0.000051  # of a percentage with four digits
Key = tuple[str, ...]


@dataclass
class Recomputed:
    """Recomputed figures with their values, faults (member, reason) and notes."""

    values: dict[Key, float] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: int = 0  # stated numbers


def recompute(
    contents: SubmissionContents, protocol: Protocol, corpora: Mapping[str, Corpus], folder_of: Mapping[str, Path]
) -> Recomputed:
    """Recompute all figures that a submission allows, and compare them with the stated ones.

    ``folder_of`` maps sets, by the names that they have in the archive, to the folders of the originals.
    """
    result = Recomputed()
    _attacks(contents, protocol, {name: folder_of[name] / "trials" for name in corpora}, result)
    for entry in protocol.recognition:
        if all(name in corpora for name in entry.sets):
            for conditions in "oa":
                _words(contents, entry, conditions, corpora, result)
    _folds(contents, result)
    tables = ("results_orig", "results_anon", "result_for_rank", "results.txt", "results_summary.txt")
    for name in sorted(contents.results):
        if name.endswith(".csv") or Path(name).name.startswith(tables):
            _compare(contents, name, result)
    return result


def _attacks(
    contents: SubmissionContents, protocol: Protocol, trials_of: Mapping[str, Path], result: Recomputed
) -> None:
    for entry in protocol.verification:
        for trials in entry.trials:
            if entry.enroll not in trials_of or trials.set not in trials_of:
                continue
            dataset = dataset_name(entry.dataset, entry.subset, trials.gender)
            for model in ("ASV_eval", "ASV_eval^anon"):
                for conditions in ("oo", "oa", "aa"):
                    ends = [contents.suffix if letter == "a" else "" for letter in conditions]
                    folder = contents.attack_folder(model, f"{entry.enroll}{ends[0]}-{trials.set}{ends[1]}")
                    scores, stated = contents.path(f"{folder}/scores"), contents.path(f"{folder}/EER")
                    if scores is None or stated is None:
                        if scores is not None or stated is not None:
                            lacking = "scores" if scores is None else "EER"
                            result.faults.append((f"{folder}/{lacking}", "is missing"))
                        continue
                    rate = _rate(f"{folder}/", scores, trials_of[trials.set], protocol.eer, result)
                    if rate is not None:
                        result.values["eer", dataset, conditions, model] = rate
                        if contents.layout.edition != "vpc2022":  # there it is a text, as in results.txt
                            _compare_rate(f"{folder}/EER", stated, rate, result)


def _rate(folder: str, scores: Path, trials: Path, method: EerMethod, result: Recomputed) -> float | None:
    """Return the EER of a score file; None, and a fault, if it is not one of exactly the official trials."""
    try:
        listed = read_key(trials)
        values = read_scores(scores, listed)
        rate = metrics.eer(values[listed.target], values[~listed.target], method=method)
    except InputError as error:
        result.faults.append((f"{folder}scores", _without_path(error)))
        return None
    for check in check_scores(values[listed.target], values[~listed.target]):
        result.faults.append((f"{folder}scores", f"{check.title}. {check.seen}"))
    return rate


def _compare_rate(name: str, stated: Path, rate: float, result: Recomputed) -> None:
    try:
        stated_rate = read_eer(stated)
    except InputError as error:
        result.faults.append((name, _without_path(error)))
        return
    result.compared += 1
    if abs(stated_rate - rate) > 1e-6:
        result.faults.append((name, f"says {stated_rate:.6f}, the scores give {rate:.6f}"))


def _words(
    contents: SubmissionContents, entry: Recognition, conditions: str, corpora: Mapping[str, Corpus], result: Recomputed
) -> None:
    folder = f"exp/asr/{entry.dataset}_asr{contents.suffix if conditions == 'a' else ''}/"
    text, stated = contents.path(f"{folder}text"), contents.path(f"{folder}wer")
    if text is None:
        return
    refs = {u.id: u.text or "" for name in entry.sets for u in corpora[name]}
    try:
        transcripts = read_transcripts(text, refs)
        tried = [
            word_errors({k: how(v) for k, v in refs.items()}, {k: how(v) for k, v in transcripts.items()})
            for how in (str, normalize_text, plain_words)
        ]
        # as the official script counts, unless it reads its own file again
        single = {k: v.strip() for k, v in transcripts.items()}
        tried.append(word_errors({k: " ".join(v.split()) for k, v in refs.items()}, single, separator=" "))
    except InputError as error:
        result.faults.append((f"{folder}text", _without_path(error)))
        return
    errors = _chosen(tried, folder, stated, result)
    result.values["wer", entry.dataset, conditions, "ASR_eval"] = errors.wer


def read_transcripts(path: Path, spoken: Mapping[str, str]) -> dict[str, str]:
    """Return utterance -> words of a file with one line per utterance.

    Parameters
    ----------
    path : Path
        The file.
    spoken : mapping
        Utterance -> words of the original.

    Raises
    ------
    InputError
        If an utterance is repeated, or has far more words than the original.
    """
    transcripts: dict[str, str] = {}
    left = 4 * sum(map(len, spoken.values())) + (1 << 20)  # bytes
    with open_file(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE + 1), b""), start=1):
            key, _, words = line.decode("utf-8", "replace").rstrip("\r\n").partition(" ")
            left -= len(line)
            if len(line) > _LONGEST_LINE or left < 0:
                fault, fix = "far more words than were said", "write the words of one utterance per line"
            elif not key or key in transcripts:
                fault, fix = f"{key or 'an empty line'}: not one line per utterance", "write each utterance once"
            else:
                transcripts[key] = words
                continue
            raise InputError(fault, where=path, line=number, fix=fix)
    return transcripts


def _chosen(tried: list[WordErrors], folder: str, stated: Path | None, result: Recomputed) -> WordErrors:
    """Return the word errors with the text normalization that gives the stated ones; add a fault if none does."""
    if stated is None:
        result.faults.append((f"{folder}wer", "is missing"))
        return tried[0]
    try:
        _, edits, words = parse_wer(stated)
    except InputError as error:
        result.faults.append((f"{folder}wer", _without_path(error)))
        return tried[0]
    result.compared += 1
    for errors in tried:
        if (errors.edits, errors.words) == (edits, words):
            return errors
    recomputed, given = f"{edits} errors in {words} words", f"{tried[0].edits} in {tried[0].words}"
    result.faults.append((f"{folder}wer", f"says {recomputed}, the transcripts give {given}"))
    return tried[0]


def _folds(contents: SubmissionContents, result: Recomputed) -> None:
    name = f"exp/ser/results_folds{contents.suffix}.csv"
    path = contents.path(name)
    if path is None:
        return
    try:
        for figure in read_results(path).figures:
            result.values[_key(figure)] = figure.value
    except InputError as error:
        result.faults.append((name, _without_path(error)))


def _compare(contents: SubmissionContents, name: str, result: Recomputed) -> None:
    """Compare all figures of a table or summary with the recomputed ones."""
    path = contents.path(name)
    assert path is not None  # noqa: S101 -- the caller went through what is there
    try:
        figures = read_results(path).figures
    except InputError as error:
        result.faults.append((name, _without_path(error)))
        return
    alone = []
    for figure in figures:
        value = result.values.get(_key(_by_folder(figure, name)))
        if value is None:
            alone.append(str(figure))
            continue
        result.compared += 1
        tolerance = _HALF_FOLD_DIGIT if figure.metric == "uar" else _HALF_DIGIT
        if abs(value - figure.value) > (_HALF_DIGIT_2022 if contents.layout.edition == "vpc2022" else tolerance):
            source = {"eer": "scores", "wer": "transcripts"}.get(figure.metric, "folds")
            label = f"{figure.metric.upper()} {100 * figure.value:.3f}%"
            place = " ".join(filter(None, [dataset_of(figure), figure.condition]))
            result.faults.append((name, f"says {label} for {place}, the {source} give {100 * value:.3f}%"))
    if alone:
        result.notes.append(f"{name}: {len(alone)} figure(s) could not be recomputed, e.g. {alone[0]}")


def _by_folder(figure: Figure, name: str) -> Figure:
    """Return an EER of a ``results.txt`` of 2022 with the attacker that its folder stands for."""
    if figure.metric != "eer" or not name.endswith("/results.txt"):
        return figure
    return replace(figure, attacker="ASV_eval" if ".orig/" in name else "ASV_eval^anon")


def _key(figure: Figure) -> Key:
    return (figure.metric, dataset_of(figure), figure.condition, figure.attacker or figure.model)


def _without_path(error: InputError) -> str:
    """Return the reason of an error with its line, but without the temporary folder of the file."""
    return f"line {error.line}: {error.what}" if error.line else error.what


def stated(contents: SubmissionContents) -> Iterator[Figure]:
    """Yield the figures of the summary, by which the challenge ranks; none if it cannot be read."""
    path = contents.path(contents.summary)
    if path is not None:
        try:
            yield from read_results(path).figures
        except InputError:
            return
