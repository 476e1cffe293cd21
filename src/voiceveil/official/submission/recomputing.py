"""The numbers of a submission, computed again from its own scores and transcripts, and from the original lists.

Conventions: rates are fractions, the files hold percent of three decimals. An EER is that of the challenge's scripts
(SpeechBrain's definition), recomputed from the scores of exactly the official trials; a WER from the transcripts and
the words of the original sets; a UAR is the mean of its folds, since a submission holds nothing below them. Each
stated number must equal the recomputed one to the last digit that it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from voiceveil import metrics
from voiceveil.attack.checks import check_scores
from voiceveil.core.errors import InputError
from voiceveil.core.files import open_file
from voiceveil.corpus import Corpus
from voiceveil.corpus.score_files import read_key, read_scores
from voiceveil.evaluation.protocol import Protocol, Recognition
from voiceveil.evaluation.results import Figure
from voiceveil.metrics.wer import WordErrors, normalise_text, word_errors
from voiceveil.models.asr.text_normalization import plain_words
from voiceveil.official import read_results
from voiceveil.official.exp2024 import read_eer
from voiceveil.official.submission.contents import Sorted
from voiceveil.official.transcripts import parse_wer
from voiceveil.official.tree2024 import asv_folder

__all__ = ["Recomputed", "read_transcripts", "recompute", "stated"]

_LONGEST_LINE = 20_000  # bytes: some 3,000 words; the longest utterance of the challenges has 100
_HALF_DIGIT = 0.0000051  # of a percentage with three decimals, as a fraction
_HALF_FOLD_DIGIT = 0.000011  # a mean of rounded folds
Key = tuple[str, ...]


@dataclass
class Recomputed:
    """Figure -> its value; faults (member, what) and notes that came up."""

    values: dict[Key, float] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: int = 0  # stated numbers


def recompute(found: Sorted, protocol: Protocol, corpora: Mapping[str, Corpus], data: Path) -> Recomputed:
    """Recompute all that can be, and compare all that is stated."""
    result = Recomputed()
    _attacks(found, protocol, corpora, data, result)
    for one in protocol.recognition:
        if all(name in corpora for name in one.sets):
            for conditions in "oa":
                _words(found, one, conditions, corpora, result)
    _folds(found, result)
    for name in sorted(found.results):
        if name.endswith(".csv") or Path(name).name.startswith(("results_orig", "results_anon", "result_for_rank")):
            _compare(found, name, result)
    return result


def _attacks(found: Sorted, protocol: Protocol, corpora: Mapping[str, Corpus], data: Path, result: Recomputed) -> None:
    for one in protocol.verification:
        for trials in one.trials:
            if one.enroll not in corpora or trials.set not in corpora:
                continue
            for model in ("ASV_eval", "ASV_eval^anon"):
                for conditions in ("oo", "oa", "aa"):
                    ends = [found.suffix if letter == "a" else "" for letter in conditions]
                    folder = f"exp/{asv_folder(model, found.suffix)}/{one.enroll}{ends[0]}-{trials.set}{ends[1]}"
                    scores, stated = found.path(f"{folder}/scores"), found.path(f"{folder}/EER")
                    if scores is None or stated is None:
                        if scores is not None or stated is not None:
                            lacking = "scores" if scores is None else "EER"
                            result.faults.append((f"{folder}/{lacking}", "is missing"))
                        continue
                    key = ("eer", one.dataset, trials.gender, conditions, model)
                    _attack(f"{folder}/", scores, stated, data / trials.set / "trials", key, result)


def _attack(folder: str, scores: Path, stated: Path, trials: Path, key: Key, result: Recomputed) -> None:
    try:
        listed = read_key(trials)
        values = read_scores(scores, listed)
        rate = metrics.eer(values[listed.target], values[~listed.target], method="speechbrain")
    except InputError as error:
        result.faults.append((f"{folder}scores", _without_path(error)))
        return
    result.values[key] = rate
    for check in check_scores(values[listed.target], values[~listed.target]):
        result.faults.append((f"{folder}scores", f"{check.title}. {check.seen}"))
    try:
        said = read_eer(stated)
    except InputError as error:
        result.faults.append((f"{folder}EER", _without_path(error)))
        return
    result.compared += 1
    if abs(said - rate) > 1e-6:
        result.faults.append((f"{folder}EER", f"says {said:.6f}, the scores give {rate:.6f}"))


def _words(found: Sorted, one: Recognition, conditions: str, corpora: Mapping[str, Corpus], result: Recomputed) -> None:
    folder = f"exp/asr/{one.dataset}_asr{found.suffix if conditions == 'a' else ''}/"
    text, stated = found.path(f"{folder}text"), found.path(f"{folder}wer")
    if text is None:
        return
    refs = {u.id: u.text or "" for name in one.sets for u in corpora[name]}
    try:
        heard = read_transcripts(text, refs)
        tried = [
            word_errors({k: how(v) for k, v in refs.items()}, {k: how(v) for k, v in heard.items()})
            for how in (str, normalise_text, plain_words)
        ]
    except InputError as error:
        result.faults.append((f"{folder}text", _without_path(error)))
        return
    errors = _chosen(tried, folder, stated, result)
    result.values["wer", one.dataset, "", conditions, "ASR_eval"] = errors.wer


def read_transcripts(path: Path, spoken: Mapping[str, str]) -> dict[str, str]:
    """Return utterance -> words of a file with one line an utterance.

    ``spoken``: utterance -> what was said. Far more words than were said are an ``InputError``.
    """
    heard: dict[str, str] = {}
    left = 4 * sum(map(len, spoken.values())) + (1 << 20)  # bytes
    with open_file(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE + 1), b""), start=1):
            key, _, words = line.decode("utf-8", "replace").rstrip("\r\n").partition(" ")
            left -= len(line)
            if len(line) > _LONGEST_LINE or left < 0:
                what, fix = "far more words than were said", "write the words of one utterance a line"
            elif not key or key in heard:
                what, fix = f"{key or 'an empty line'}: not one line an utterance", "write each utterance once"
            else:
                heard[key] = words
                continue
            raise InputError(what, where=path, line=number, fix=fix)
    return heard


def _chosen(tried: list[WordErrors], folder: str, stated: Path | None, result: Recomputed) -> WordErrors:
    """The word errors, normalised in the way that gives the stated ones; a fault if none does."""
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
    said, found = f"{edits} errors in {words} words", f"{tried[0].edits} in {tried[0].words}"
    result.faults.append((f"{folder}wer", f"says {said}, the transcripts give {found}"))
    return tried[0]


def _folds(found: Sorted, result: Recomputed) -> None:
    name = f"exp/ser/results_folds{found.suffix}.csv"
    path = found.path(name)
    if path is None:
        return
    try:
        for figure in read_results(path).figures:
            result.values[_key(figure)] = figure.value
    except InputError as error:
        result.faults.append((name, _without_path(error)))


def _compare(found: Sorted, name: str, result: Recomputed) -> None:
    """Compare all figures of a table or summary."""
    path = found.path(name)
    assert path is not None  # noqa: S101 -- the caller went through what is there
    try:
        figures = read_results(path).figures
    except InputError as error:
        result.faults.append((name, _without_path(error)))
        return
    alone = []
    for figure in figures:
        value = result.values.get(_key(figure))
        if value is None:
            alone.append(str(figure))
            continue
        result.compared += 1
        if abs(value - figure.value) > (_HALF_FOLD_DIGIT if figure.metric == "uar" else _HALF_DIGIT):
            source = {"eer": "scores", "wer": "transcripts"}.get(figure.metric, "folds")
            said = f"{figure.metric.upper()} {100 * figure.value:.3f} %"
            place = " ".join(filter(None, [figure.dataset, figure.gender, figure.condition]))
            result.faults.append((name, f"says {said} for {place}, the {source} give {100 * value:.3f} %"))
    if alone:
        result.notes.append(f"{name}: {len(alone)} figure(s) could not be recomputed, e.g. {alone[0]}")


def _key(figure: Figure) -> Key:
    return (figure.metric, figure.dataset, figure.gender, figure.condition, figure.attacker or figure.model)


def _without_path(error: InputError) -> str:
    """What is wrong, with the line, but without the folder that the file was put into."""
    return f"line {error.line}: {error.what}" if error.line else error.what


def stated(found: Sorted) -> Iterator[Figure]:
    """The figures of ``result_for_rank``, by which the challenge ranks; none if it is missing or cannot be read."""
    path = found.path(f"exp/results_summary/result_for_rank{found.suffix}")
    if path is not None:
        try:
            yield from read_results(path).figures
        except InputError:
            return
