"""The settings of a run: everything that the bytes of its result depend on, except the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from voiceveil.audio import Encoding
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.corpus import Utterance
from voiceveil.systems.contract import Anonymizer, system
from voiceveil.systems.keys import Key, Level, keyed_rng, speaker_of
from voiceveil.systems.parameters import present_parameters

__all__ = ["Draws", "Format", "Settings", "make_settings"]

Draws = Literal["keyed", "official"]
Format = Literal["wav", "flac"]


@dataclass(frozen=True)
class Settings:
    """Checked settings of a run, made by :func:`make_settings`."""

    system: Anonymizer
    level: Level
    draws: Draws
    key: Key
    rate: int
    format: Format
    encoding: Encoding
    models: dict[str, str]
    features: Path | None = None  # a file for features of recordings; the output does not depend on it

    @property
    def resumable(self) -> bool:
        """Whether a later run draws the same pseudo-speaker for a speaker whose utterances are partly done."""
        return self.draws == "official" or self.key.repeatable or self.level == "utterance"

    def in_corpus(self, name: str) -> Settings:
        """Return the settings for a corpus, whose name is part of the draws of a key file; see :class:`Key`."""
        return replace(self, key=self.key.in_corpus(name))

    def record(self) -> dict[str, Any]:
        """Return the settings for the ledger; keys are told apart by fingerprints, which do not reveal them."""
        return {
            "voiceveil": version("voiceveil"),
            "system": self.system.name,
            "parameters": self.system.parameters(),
            "level": self.level,
            "draws": self.draws,
            "key": self.key.fingerprint() if self.draws == "keyed" else "official",
            "rate": self.rate,
            "format": self.format,
            "encoding": self.encoding,
            **({"models": self.models} if self.models else {}),
            **({"key_namespace": self.key.namespace_fingerprint()} if self.key.namespace else {}),
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
        return keyed_rng(self.key, self.level, utterance)


def make_settings(
    chosen: str | Anonymizer,
    *,
    level: Level,
    draws: Draws,
    seed: int | None,
    key_file: str | Path | None,
    key_namespace: str | None = None,
    key: Key | None = None,
    rate: int | None,
    format: Format,
    encoding: Encoding,
) -> Settings:
    """Check every setting; an ``InputError`` names the first that is wrong.

    ``key`` is used where neither a seed nor a key file is given (default: a fresh one).
    """
    for name, value, known in (
        ("level", level, get_args(Level)),
        ("draws", draws, get_args(Draws)),
        ("format", format, get_args(Format)),
        ("encoding", encoding, get_args(Encoding)),
    ):
        if value not in known:
            raise InputError(f"unknown {name} {value!r}", fix=did_you_mean(str(value), list(known)))
    if rate is not None and not (_is_whole(rate) and 1000 <= rate <= 384000):
        raise InputError(f"cannot write audio at {rate} Hz", fix="give a whole rate between 1000 and 384000")
    if seed is not None and not _is_whole(seed):
        raise InputError(f"the seed must be a whole number, not {seed!r}")
    if seed is not None and key_file is not None:
        raise InputError("both a seed and a key file are given", fix="give one of them")
    if draws == "official" and (seed is not None or key_file is not None):
        raise InputError("official draws take neither a seed nor a key file", fix="leave out --seed and --key-file")
    if key_namespace is not None and seed is None and key_file is None:
        raise InputError("a key namespace needs a key", fix="give a key file or a seed as well")
    if key_file is not None:
        key = Key.from_file(Path(key_file), namespace=key_namespace)
    elif seed is not None:
        key = Key.from_seed(seed, namespace=key_namespace or "")
    elif key is None:
        key = Key.fresh()
    made = (system(chosen) if isinstance(chosen, str) else chosen).for_level(level)
    return Settings(made, level, draws, key, made.rate if rate is None else rate, format, encoding, made.models())


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
