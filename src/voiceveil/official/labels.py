"""Official names of evaluators: which of our models appears under which name in the challenges' files.

The challenges' files have two attackers, ``ASV_eval``, trained on original speech, and ``ASV_eval^anon``, trained on
anonymized speech, one emotion recognizer, and one speech recognizer, ``ASR_eval``; in 2022 that of anonymized speech is
``ASR_eval^anon``. Our evaluators are other models with other figures. :func:`labels_of` assigns the names,
:func:`as_published` returns the figures that the files show, and :func:`note_text` the note beside the files. An
attacker that was not trained on anonymized speech is never ``ASV_eval^anon``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from voiceveil.evaluation.protocol import Official
from voiceveil.evaluation.results import Figure, Results

__all__ = ["Labels", "as_published", "labels_of", "note_text", "stand_ins"]

_OF_ORIGINAL = ("unprotected", "ignorant", "lazy-informed")
_SPLITS = ("dev", "test")


@dataclass(frozen=True)
class Labels:
    """The attacker or recognizer with each official name; "" if there is none."""

    original: str  # ASV_eval
    anonymized: str  # ASV_eval^anon
    words: str  # ASR_eval
    emotions: str  # SER_eval
    anonymized_words: str = ""  # ASR_eval^anon: of anonymized speech, if it is another one than ASR_eval

    def as_dict(self) -> dict[str, str]:
        """Return official name -> our attacker or recognizer."""
        names = {
            "ASV_eval": self.original,
            "ASV_eval^anon": self.anonymized,
            "ASR_eval": self.words,
            "SER_eval": self.emotions,
        }
        return {**names, "ASR_eval^anon": self.anonymized_words} if self.anonymized_words else names

    def shows(self, figure: Figure) -> bool:
        """Return True if a WER or UAR is by the recognizer whose figures the official files have."""
        if figure.metric == "uar":
            return figure.model == self.emotions
        return figure.model == ((figure.condition == "a" and self.anonymized_words) or self.words)


def labels_of(results: Results, official: Official) -> Labels:
    """Return the evaluator for each official name.

    ``ASV_eval^anon`` is the strongest semi-informed attacker; one with the challenge's own encoder comes first, then
    one with an encoder of the same kind. ``ASV_eval`` is an attacker with a model of original speech, if possible with
    the same encoder.
    """
    preferred = (*official.evaluators.get("asv", ()), official.family)
    eers = results.find("eer")
    encoder = {f.attacker: f.encoder for f in eers}
    semi = {f.attacker for f in eers if f.knowledge == "semi-informed"}
    plain = list(dict.fromkeys(f.attacker for f in eers if f.knowledge in _OF_ORIGINAL))

    def otherness(name: str) -> int:
        return preferred.index(encoder[name]) if encoder[name] in preferred else len(preferred)

    def weakness(name: str) -> tuple[int, float]:
        rates = [f.value for f in eers if f.condition == "aa" and f.attacker == name]
        return otherness(name), math.fsum(rates) / max(len(rates), 1)

    strongest = min(sorted(semi), key=weakness, default="")
    wanted = encoder.get(strongest)
    original = min(plain, key=lambda name: (encoder[name] != wanted, otherness(name)), default="")
    words, emotions = (next((f.model for f in results.find(metric)), "") for metric in ("wer", "uar"))
    of_anonymized = next((f.model for f in results.find("wer", condition="a")), words)
    return Labels(original, strongest, words, emotions, of_anonymized if of_anonymized != words else "")


def stand_ins(names: Mapping[str, str], official: Official) -> list[str]:
    """Return which of the official names belong to models that are not the challenge's own evaluators.

    ``names``: official name -> our evaluator, as :meth:`Labels.as_dict` returns it.

    >>> own = Official("vpc2024", evaluators={"asr": ("speechbrain",)})
    >>> stand_ins({"ASR_eval": "speechbrain:exp/asr", "SER_eval": "functionals"}, own)
    ['SER_eval: functionals']
    """
    kinds = {"ASV_eval": "asv", "ASV_eval^anon": "asv", "ASR_eval": "asr", "ASR_eval^anon": "asr", "SER_eval": "ser"}
    return [
        f"{name}: {model}"
        for name, model in names.items()
        if model and model.partition(":")[0] not in official.evaluators.get(kinds.get(name, ""), ())
    ]


def as_published(results: Results, labels: Labels) -> Results:
    """Return the figures of the official files, with the official names, and EERs as the challenge computes them."""
    return replace(results, figures=tuple(_published(results, labels)))


def _published(results: Results, labels: Labels) -> Iterator[Figure]:
    for figure in results.figures:
        if figure.split not in _SPLITS:  # a set of the user's own, which no file of the challenge has a row for
            continue
        if figure.metric in ("wer", "uar"):  # of several recognizers the files have the first
            if labels.shows(figure):
                yield _decoded_by(figure, labels)
            continue
        if not figure.attacker:
            yield figure
            continue
        if figure.knowledge == "semi-informed" and figure.attacker == labels.anonymized:
            named = replace(figure, attacker="ASV_eval^anon")
        elif figure.knowledge in _OF_ORIGINAL and figure.attacker == labels.original:
            named = replace(figure, attacker="ASV_eval")
        else:
            continue
        if figure.metric == "eer" and "official" in figure.detail:
            yield replace(named, metric="eer_rocch")
            named = replace(named, value=figure.detail["official"]["eer"])
        yield named


def _decoded_by(figure: Figure, labels: Labels) -> Figure:
    """Return a WER or UAR; one by ``ASR_eval^anon`` with the folder that tells it in the challenge's files."""
    if figure.metric != "wer" or figure.condition != "a" or not labels.anonymized_words:
        return figure
    folder = f"asr_eval_anon/{figure.model.replace(' ', '-')}/wer"
    return replace(figure, detail={**figure.detail, "decoded": folder})


def note_text(results: Results, labels: Labels, title: str, official: Official) -> str:
    """Return the note that lies beside the official files: what their layout has no place for.

    ``title`` and ``official`` are those of the protocol.
    """
    evaluators = {
        "ASV_eval": official.asv,
        "ASV_eval^anon": official.asv,
        "ASR_eval": official.asr,
        "ASR_eval^anon": official.asr,
        "SER_eval": official.ser,
    }
    method = next((f.detail["official"]["method"] for f in results.find("eer") if "official" in f.detail), "")
    lines = [
        f"The files here have the layout of the {title}, which has no place for the following.",
        "They were written by VoiceVeil; figures of evaluators other than the challenge's own do not compare with its.",
        "",
    ]
    for name, evaluator in labels.as_dict().items():
        official_model = evaluators[name]
        if evaluator and not stand_ins({name: evaluator}, official):
            lines.append(f"{name}: {evaluator}; the challenge's own, as far as that folder is")
        elif evaluator:
            lines.append(f"{name}: {evaluator}" + (f"; in the challenge: {official_model}" if official_model else ""))
        elif name == "ASV_eval^anon" and official.layout != "vpc2020":
            lines.append("ASV_eval^anon: nobody. No attacker has learned from anonymized speech, so that the EERs of")
            lines.append("the semi-informed attacker, by which the challenge ranks, are not here.")
    lines += [
        "",
        f"EER: by the definition of the challenge's scripts ({method}). results.json has the EER of the convex hull",
        "(ROCCH) with a 95% interval over speakers, of these and of all other attackers.",
    ]
    if official.layout in ("vpc2020", "vpc2022") and not results.find("cllr"):
        lines.append("Cllr: left out, since the scores are no log-likelihood ratios; min Cllr is in results.json.")
    own = sorted({f.dataset for f in results.figures if f.split not in _SPLITS})
    if own:
        lines.append(f"Not in these files, but in results.json: {', '.join(own)}, which the challenge does not know.")
    notes = results.info.get("notes", [])
    lines += ["", "Of the data:", *(f"- {note}" for note in notes)] if notes else []
    return "".join(f"{line}\n" for line in lines)
