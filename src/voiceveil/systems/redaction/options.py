"""Options of redaction: what is removed, how it is found, and what is heard instead."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from voiceveil.core.errors import InputError
from voiceveil.core.files import read_text, resolved
from voiceveil.core.registry import did_you_mean
from voiceveil.systems.redaction.spans import Replacement
from voiceveil.systems.redaction.transcript import FORMATS, Format

__all__ = ["GUARD", "RedactionOptions", "RedactionRequest", "check_kinds", "redaction_options"]

#: Seconds around a word that are removed with it.
GUARD = 0.25
_WIDEST = 5.0  # seconds of guard
_LARGEST_TEXT = 16 << 20  # bytes of a transcript
_ALLOWED = ("words", "names", "numbers", "numbers=all")


@dataclass(frozen=True)
class RedactionOptions:
    """Checked options of redaction; made by :func:`redaction_options`.

    Parameters
    ----------
    words
        The user's list of words and phrases; empty: none.
    names
        Folder of a spaCy pipeline; None: names stay.
    numbers
        "some": those that identify, "all", or None.
    recognizer
        Name of the recognizer, as :func:`voiceveil.models.asr.recognition.recognizer` takes it.
    replacement
        What is heard instead.
    guard
        Seconds around a word that are removed with it.
    text
        What is said, for a single recording; None: the text of the corpus, if it has any.
    transcript
        Format of the transcripts of what is left; None: none is written.
    transcript_file
        The file for it; None: beside each recording.
    listing
        Private file that lists what was removed.
    models
        Digests of recognizer and pipeline, for the ledger.
    given
        Files of the user's that must not be replaced.
    """

    words: tuple[str, ...] = field(default=(), repr=False)
    names: Path | None = None
    numbers: Literal["some", "all"] | None = None
    recognizer: str = "moonshine"
    replacement: Replacement = "tone"
    guard: float = GUARD
    text: str | None = field(default=None, repr=False)
    transcript: Format | None = None
    transcript_file: Path | None = None
    listing: Path | None = None
    models: tuple[tuple[str, str], ...] = ()
    given: tuple[Path, ...] = ()

    def transcript_of(self, target: Path) -> Path:
        """Return the file for the transcript of what is left of the recording ``target``."""
        return self.transcript_file or target.with_suffix(f".{self.transcript}")

    def refuse_given(self, path: Path) -> None:
        """Refuse to write to a file that the user gave: the list of words, the text."""
        if resolved(path) in self.given:
            problem = "the transcript or the list of redactions would replace a file that is given"
            raise InputError(problem, where=path, fix="give another file")

    def record(self) -> dict[str, Any]:
        """Return the options for the ledger, without words: those of the list are part of the digest of each input."""
        return {
            "names": self.names is not None,
            "numbers": self.numbers or "no",
            "words": bool(self.words),
            "with": self.replacement,
            "guard": self.guard,
            "transcript": self.transcript or "no",
            **dict(self.models),
        }

    def secrets(self) -> str:
        """Return what the result depends on and the ledger must not tell, for a keyed digest."""
        return "\0".join((*self.words, "", self.text or ""))


@dataclass(frozen=True)
class RedactionRequest:
    """Options of redaction as a user gives them; :func:`voiceveil.anonymize` explains them."""

    redact: bool | str | Iterable[str] = False
    words: str | Path | Iterable[str] | None = field(default=None, repr=False)
    names_model: str | Path | None = None
    recognizer: str | None = None
    redact_with: str | None = None
    guard: float | None = None
    text: str | Path | None = None
    transcript: str | Path | None = None
    redactions: str | Path | None = None


def redaction_options(request: RedactionRequest) -> RedactionOptions | None:
    """Return the checked options; None if nothing is to be redacted.

    Raises
    ------
    InputError
        Names the first option that is wrong, or the package or model that is missing. No word of the list is repeated.
    """
    if request.redact is False or request.redact is None:
        for option in fields(request)[1:]:
            if getattr(request, option.name) is not None:
                name = f"--{option.name.replace('_', '-')}"
                raise InputError(f"{name} is an option of redaction", fix="give --redact as well")
        return None
    words, text, listing = request.words, request.text, request.redactions
    kinds = _kinds(request.redact, has_words=words is not None)
    if "words" in kinds and words is None:
        raise InputError("words are to be removed, but there is no list of them", fix="give --words FILE")
    if "words" not in kinds and words is not None:
        raise InputError("a list of words is given, but `words` is not among what is removed", fix="--redact words,...")
    if "names" not in kinds and request.names_model is not None:
        raise InputError("a model for names is given, but names are not removed", fix="--redact names,...")
    entries = _entries(words) if words is not None else ()
    names = _pipeline(request.names_model) if "names" in kinds else None
    spec, models = _models(request.recognizer, names)
    files = (path for path in (words, text) if isinstance(path, str | Path))
    options = RedactionOptions(
        words=entries,
        names=names,
        numbers="all" if "numbers=all" in kinds else "some" if "numbers" in kinds else None,
        recognizer=spec,
        replacement=_replacement(request.redact_with),
        guard=_guard(request.guard),
        text=None if text is None else _text(text),
        **_transcript(request.transcript),
        listing=None if listing is None else Path(listing).absolute(),
        models=models,
        given=tuple(map(resolved, files)),
    )
    for path in (options.transcript_file, options.listing):
        if path is not None:
            options.refuse_given(path)
    if options.listing is not None and options.listing == options.transcript_file:
        raise InputError("one file is given for the transcript and for the list", where=options.listing)
    return options


def _kinds(redact: bool | str | Iterable[str], *, has_words: bool) -> set[str]:
    """Return the kinds of what is removed."""
    if redact is True or redact == "all":
        return {"names", "numbers", *(("words",) if has_words else ())}
    listed = redact.split(",") if isinstance(redact, str) else list(redact)  # type: ignore[arg-type]
    return check_kinds(listed)


def check_kinds(listed: Iterable[object]) -> set[str]:
    """Return the kinds that a user lists; an ``InputError`` if one is unknown, or there is none."""
    kinds = {str(kind).strip() for kind in listed}
    for kind in sorted(kinds):
        if kind not in _ALLOWED:
            fix = f"a recording goes before --redact, or write --redact=all; {did_you_mean(kind, list(_ALLOWED))}"
            raise InputError(f"{kind!r} is nothing that can be removed", fix=fix)
    if not kinds:
        raise InputError("nothing is to be removed", fix=f"name some of {', '.join(_ALLOWED)}")
    return kinds


def _entries(words: str | Path | Iterable[str]) -> tuple[str, ...]:
    from voiceveil.systems.redaction.word_list import entry_problem, read_words

    if isinstance(words, str | Path):
        return read_words(Path(words))
    entries = tuple(dict.fromkeys(str(word).strip() for word in words))
    for number, entry in enumerate(entries, 1):
        problem = entry_problem(entry)
        if problem:
            raise InputError(f"{problem} (word {number} of the list)", fix="give words and phrases that can be spoken")
    if not entries:
        raise InputError("the list of words is empty", fix="give at least one word")
    return entries


def _pipeline(names_model: str | Path | None) -> Path:
    from voiceveil.systems.redaction.names import default_pipeline, load_pipeline, pipeline_folder

    folder = pipeline_folder(default_pipeline() if names_model is None else str(names_model))
    load_pipeline(folder)  # an error now is better than one in a worker an hour later
    return folder.absolute()


def _models(recognizer: str | None, names: Path | None) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the name of the recognizer, and digests of the models."""
    from voiceveil.models.asr.pocketsphinx import model_folder
    from voiceveil.models.asr.recognition import recognizer as find_recognizer

    spec = recognizer or "moonshine"
    model = find_recognizer(spec)
    model_folder()  # words are located, and compared by their sound, by PocketSphinx and its dictionary
    digests = [("recognizer", model.fingerprint())]
    if names is not None:
        from voiceveil.systems.redaction.names import pipeline_digest

        digests.append(("names model", pipeline_digest(names)))
    return spec, tuple(digests)


def _replacement(redact_with: str | None) -> Replacement:
    allowed = get_args(Replacement)
    if redact_with is None:
        return "tone"
    if redact_with not in allowed:
        raise InputError(f"words cannot be replaced by {redact_with!r}", fix=did_you_mean(redact_with, list(allowed)))
    return "silence" if redact_with == "silence" else "tone"


def _guard(guard: float | None) -> float:
    if guard is None:
        return GUARD
    if not 0 <= guard <= _WIDEST or math.isnan(guard):
        raise InputError(f"a guard of {guard:g} s", fix=f"give 0 to {_WIDEST:g} seconds")
    return float(guard)


def _text(path: str | Path) -> str:
    text = " ".join(read_text(path, at_most=_LARGEST_TEXT).split())
    if not text:
        raise InputError("there is no text in this file", where=path, fix="leave it out: the recording is transcribed")
    return text


def _transcript(transcript: str | Path | None) -> dict[str, Any]:
    if transcript is None:
        return {}
    if str(transcript) in FORMATS:
        return {"transcript": str(transcript)}
    path = Path(transcript)
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        fix = "give a file that ends in .txt, .srt or .vtt, or txt, srt or vtt for files beside the output"
        raise InputError(f"a transcript cannot be written as {str(transcript)!r}", fix=fix)
    return {"transcript": suffix, "transcript_file": path.absolute()}
