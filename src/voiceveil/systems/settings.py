"""The settings of a run: everything that the bytes of its result depend on, except the input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import WRITABLE_SUFFIXES, Encoding
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.corpus import Utterance
from voiceveil.systems.contract import Anonymizer, system
from voiceveil.systems.conversation.options import Channels, ConversationOptions, conversation_options
from voiceveil.systems.keys import Key, Level, keyed_rng, speaker_of
from voiceveil.systems.parameters import present_parameters
from voiceveil.systems.redaction.options import RedactionOptions, RedactionRequest, redaction_options
from voiceveil.systems.release import Release

__all__ = ["Draws", "RunKeywords", "RunOptions", "Settings", "make_settings"]

Draws = Literal["keyed", "official"]


@dataclass(frozen=True)
class RunOptions:
    """Options of a run; :func:`voiceveil.anonymize` explains them."""

    level: Level = "utterance"
    seed: int | None = None
    key_file: str | Path | None = None
    key_namespace: str | None = None
    key: Key | None = None
    draws: Draws = "keyed"
    rate: int | None = None
    format: str | None = None
    encoding: Encoding | None = None
    keep_timing: bool | None = None
    suffix: str | None = None
    overwrite: bool | Literal["changed"] = False
    publish: str | Path | Release | None = None
    feature_cache: str | Path | None = None
    role: str | None = None
    speaker_embeddings: Callable[[], Mapping[str, NDArray[np.float32]]] | None = None
    speakers: int | str | None = None
    turns: str | Path | Sequence[tuple[str, float, float]] | None = None
    hide: str | Sequence[str] = ()
    keep: str | Sequence[str] = ()
    channels: Channels = "mix"
    margin: float | None = None
    redact: bool | str | Sequence[str] = False
    words: str | Path | Sequence[str] | None = None
    names_model: str | Path | None = None
    recognizer: str | None = None
    redact_with: str | None = None
    guard: float | None = None
    text: str | Path | None = None
    transcript: str | Path | None = None
    redactions: str | Path | None = None
    quiet: bool = True


class RunKeywords(TypedDict, total=False):
    """Fields of :class:`RunOptions` as keyword arguments."""

    level: Level
    seed: int | None
    key_file: str | Path | None
    key_namespace: str | None
    key: Key | None
    draws: Draws
    rate: int | None
    format: str | None
    encoding: Encoding | None
    keep_timing: bool | None
    suffix: str | None
    overwrite: bool | Literal["changed"]
    publish: str | Path | Release | None
    feature_cache: str | Path | None
    role: str | None
    speaker_embeddings: Callable[[], Mapping[str, NDArray[np.float32]]] | None
    speakers: int | str | None
    turns: str | Path | Sequence[tuple[str, float, float]] | None
    hide: str | Sequence[str]
    keep: str | Sequence[str]
    channels: Channels
    margin: float | None
    redact: bool | str | Sequence[str]
    words: str | Path | Sequence[str] | None
    names_model: str | Path | None
    recognizer: str | None
    redact_with: str | None
    guard: float | None
    text: str | Path | None
    transcript: str | Path | None
    redactions: str | Path | None
    quiet: bool


@dataclass(frozen=True)
class Settings:
    """Checked settings of a run, made by :func:`make_settings`.

    ``rate`` in Hz, ``format`` (a suffix without its dot) and ``encoding`` are those of each input where they are None.
    ``keep_timing`` is None for "where there is a picture".
    """

    system: Anonymizer
    level: Level
    draws: Draws
    key: Key
    rate: int | None
    format: str | None
    encoding: Encoding | None
    models: dict[str, str]
    keep_timing: bool | None = None
    like_input: bool = False  # whether the output has the channels of the input, and what else is left open
    features: Path | None = None  # a file for features of recordings; the output does not depend on it
    role: str | None = None  # of all utterances in the draws; None: as the corpus has it
    conversation: ConversationOptions | None = None  # where several people speak in a recording
    redaction: RedactionOptions | None = None  # which words are removed

    @property
    def resumable(self) -> bool:
        """Return whether an interrupted run draws the same pseudo-speakers when it is resumed."""
        return self.draws == "official" or self.key.repeatable or self.level == "utterance"

    def in_corpus(self, name: str) -> Settings:
        """Return the settings for a corpus, whose name is part of the draws of a key file; see :class:`Key`."""
        return replace(self, key=self.key.in_corpus(name))

    def with_formats(self, *, like_input: bool) -> Settings:
        """Return the settings with formats where none were chosen.

        ``like_input``: the formats of the input; else 16-bit WAV files of one channel at the rate of the system.
        """
        if like_input:
            return replace(self, like_input=True)
        return replace(
            self,
            rate=self.system.rate if self.rate is None else self.rate,
            format=self.format or "wav",
            encoding=self.encoding or "int16",
        )

    def record(self) -> dict[str, Any]:
        """Return the settings for the ledger; keys are told apart by fingerprints, which do not reveal them."""
        return {
            "voiceveil": version("voiceveil"),
            "system": self.system.name,
            "parameters": self.system.parameters(),
            "level": self.level,
            "draws": self.draws,
            "key": self.key.fingerprint() if self.draws == "keyed" else "official",
            "rate": self.rate or "input",
            "format": self.format or "input",
            "encoding": self.encoding or "input",
            **({} if self.keep_timing is None else {"keep_timing": self.keep_timing}),
            **({"models": self.models} if self.models else {}),
            **({"key_namespace": self.key.namespace_fingerprint()} if self.key.namespace else {}),
            **({"role": self.role} if self.role is not None else {}),
            **({"conversation": self.conversation.record()} if self.conversation is not None else {}),
            **({"redaction": self.redaction.record()} if self.redaction is not None else {}),
        }

    def renamed(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Return recorded parameters of this system under their present names."""
        return present_parameters(type(self.system), recorded)

    def rng(self, index: int, utterance: Utterance) -> np.random.Generator:
        """Return the random generator of the ``index``-th utterance of a corpus."""
        if self.level == "speaker":
            speaker_of(utterance)  # known, whatever the draws are
        if self.draws == "official":
            return self.system.official_rng(index, utterance, self.level)
        return keyed_rng(self.key, self.level, utterance if self.role is None else replace(utterance, role=self.role))


def make_settings(chosen: str | Anonymizer, options: RunOptions) -> Settings:
    """Return the settings of a run of system ``chosen``.

    Raises
    ------
    InputError
        Names the first option that is wrong.
    """
    _check_choices(options)
    _check_key_options(options)
    rate = options.rate
    if rate is not None and not (_is_whole(rate) and 1000 <= rate <= 384000):
        raise InputError(f"cannot write audio at {rate} Hz", fix="give a whole rate between 1000 and 384000")
    conversation = _conversation(options)
    redaction = _redaction(options)
    level = options.level if conversation is None else "speaker"  # one voice throughout a recording
    anonymizer = (system(chosen) if isinstance(chosen, str) else chosen).for_level(level)
    if options.keep_timing or conversation is not None or redaction is not None:
        anonymizer = anonymizer.with_timing_kept()
    return Settings(
        system=anonymizer,
        level=options.level,
        draws=options.draws,
        key=_key(options),
        rate=rate,
        format=None if options.format is None else options.format.lower(),
        encoding=options.encoding,
        keep_timing=options.keep_timing,
        models=anonymizer.models(),
        features=None if options.feature_cache is None else Path(options.feature_cache).absolute(),
        role=options.role,
        conversation=conversation,
        redaction=redaction,
    )


def _redaction(options: RunOptions) -> RedactionOptions | None:
    """Return the options of redaction; refuse those of a run that do not go with them."""
    request = RedactionRequest(**{entry.name: getattr(options, entry.name) for entry in fields(RedactionRequest)})
    redaction = redaction_options(request)
    if redaction is not None and options.keep_timing is False:
        raise InputError("redaction keeps the timing of a recording", fix="leave out --no-keep-timing")
    return redaction


def _conversation(options: RunOptions) -> ConversationOptions | None:
    """Return the options of conversations; refuse those of a run that do not go with them."""
    conversation = conversation_options(
        speakers=options.speakers,
        turns=options.turns,
        hide=options.hide,
        keep=options.keep,
        channels=options.channels,
        margin=options.margin,
    )
    if conversation is None:
        return None
    if options.keep_timing is False:
        raise InputError("conversations keep their timing", fix="leave out --no-keep-timing")
    if options.draws == "official":
        raise InputError("there are no official draws for conversations", fix="leave out --draws official")
    return conversation


def _check_choices(options: RunOptions) -> None:
    """Refuse a value that is not among those allowed."""
    formats = tuple(sorted(suffix[1:] for suffix in WRITABLE_SUFFIXES))
    for name, value, allowed in (
        ("level", options.level, get_args(Level)),
        ("draws", options.draws, get_args(Draws)),
        ("format", options.format and options.format.lower(), (None, *formats)),
        ("encoding", options.encoding, (None, *get_args(Encoding))),
    ):
        if value not in allowed:
            raise InputError(f"unknown {name} {value!r}", fix=did_you_mean(str(value), list(filter(None, allowed))))


def _check_key_options(options: RunOptions) -> None:
    """Refuse seeds, key files and namespaces that do not go together."""
    has_seed, has_file = options.seed is not None, options.key_file is not None
    if has_seed and not _is_whole(options.seed):
        raise InputError(f"the seed must be a whole number, not {options.seed!r}")
    if has_seed and has_file:
        raise InputError("both a seed and a key file are given", fix="give one of them")
    if options.draws == "official" and (has_seed or has_file):
        raise InputError("official draws take neither a seed nor a key file", fix="leave out --seed and --key-file")
    if options.key_namespace is not None and not (has_seed or has_file):
        raise InputError("a key namespace needs a key", fix="give a key file or a seed as well")


def _key(options: RunOptions) -> Key:
    """Return the key of the key file or the seed, or else ``options.key``, or else a fresh one."""
    if options.key_file is not None:
        return Key.from_file(Path(options.key_file), namespace=options.key_namespace)
    if options.seed is not None:
        return Key.from_seed(options.seed, namespace=options.key_namespace or "")
    return options.key or Key.fresh()


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
