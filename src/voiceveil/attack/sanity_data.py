"""Checks of what is attacked: is there speech in the anonymized audio, and has the attacker heard the test data before?

Copies of whole files are found among all utterances, by their digests. What needs samples is looked for in a bounded
sample of utterances that depends on nothing but their ids.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.sanity import check_shared
from voiceveil.attack.sets import TrialSet
from voiceveil.audio import MixedDownWarning, Samples, info, load
from voiceveil.core.checks import Check, failed
from voiceveil.corpus import Corpus, Utterance
from voiceveil.dsp.degenerate import RATE, band_levels, course_likeness, is_noise, is_silent, same_signal
from voiceveil.run.cache import Cache

__all__ = ["check_audio", "check_sets", "check_training"]

_SAMPLE = 48  # utterances whose samples are looked at
_SECONDS = 10.0  # of each
_SHORTEST = 2.0  # seconds whose course over time tells one utterance from others
_OWN, _OTHER = (
    0.7,
    0.8,
)  # likeness of the courses: less than the first is another utterance, more than the second the same
_SUSPECTS, _CANDIDATES = 12, 64  # utterances that do not follow their original; originals of like length for each

Content = tuple[str, float, float | None]


def check_sets(sets: Sequence[TrialSet], training: Sequence[Corpus], cache: Cache) -> list[Check]:
    """Return the failed checks of the sets of an attack and of the speech that attackers learn from."""
    found: list[Check] = []
    attacked: dict[str, Utterance] = {}
    originals: dict[str, Utterance] = {}
    known: list[dict[str, Content]] = []
    for trial_set in sets:
        enrolled, tried = (_contents(side, cache) for side in trial_set.speech("oo"))
        found += check_shared(enrolled, tried, where=trial_set.name)
        known += [enrolled, tried]
        sides = trial_set.speech("oo")
        if trial_set.anonymized is not None:
            originals |= {u.id: u for side in sides for u in side}
            sides = trial_set.speech("aa")
            known += [_contents(side, cache) for side in sides]
        attacked |= {u.id: u for side in sides for u in side}
    ids, contents = {key for part in known for key in part}, {content for part in known for content in part.values()}
    return [*found, *check_audio(attacked, originals, cache), *check_training(training, ids, contents, cache)]


def check_training(training: Iterable[Corpus], ids: Set[str], contents: Set[Content], cache: Cache) -> list[Check]:
    """Return ``training-speakers-in-test`` if training speech is among the test data, by its id or its content."""
    found = []
    for corpus in training:
        heard = [u for u in corpus if u.id in ids or content_of(u, cache) in contents]
        if heard:
            what = f"{len(heard):,} of {len(corpus):,} training utterances of {corpus.name}"
            found.append(failed("training-speakers-in-test", f"{what} are in the test data, e.g. {heard[0].id}."))
    return found


def content_of(utterance: Utterance, cache: Cache) -> Content:
    """Return what stands for the audio of an utterance: the digest of its file, and its part of it."""
    return cache.digest(utterance.path), utterance.start, utterance.duration


def _contents(utterances: Iterable[Utterance], cache: Cache) -> dict[str, Content]:
    return {u.id: content_of(u, cache) for u in utterances}


def check_audio(
    attacked: Mapping[str, Utterance], originals: Mapping[str, Utterance], cache: Cache, *, where: str = ""
) -> list[Check]:
    """Return the failed checks of audio.

    They are ``identical-audio``, ``silent-audio``, ``noise-audio``, ``repeated-audio`` and ``swapped-audio``.

    Parameters
    ----------
    attacked
        Utterance id -> the speech that is attacked: anonymized, or original where there is none.
    originals
        Utterance id -> the original speech, where it is known. Utterances whose original is silent, noise or a copy
        too are not counted.
    cache
        Knows the digests of files.
    where
        The name of the set, for the sentences.
    """
    chosen = sorted(attacked, key=lambda key: hashlib.sha256(key.encode()).digest())[:_SAMPLE]
    pairs = {key: (_read(attacked[key]), _read(originals[key]) if key in originals else None) for key in chosen}
    silent = [key for key, pair in pairs.items() if _lost(*pair, is_silent)]
    noise = [key for key, pair in pairs.items() if key not in silent and _lost(*pair, is_noise)]
    sounding = {key: pair for key, pair in pairs.items() if key not in silent and key not in noise}
    copied = [key for key, (one, other) in sounding.items() if other is not None and same_signal(other, one)]
    name = f" ({where})" if where else ""
    found = [
        failed(check, f"{len(keys):,} of {len(pairs):,} utterances that were looked at {what}, e.g. {keys[0]}{name}.")
        for check, keys, what in (
            ("identical-audio", copied, "equal the original (gain, shift, direction and codec aside)"),
            ("silent-audio", silent, "are silent"),
            ("noise-audio", noise, "are noise or a steady sound"),
        )
        if keys
    ]
    repeated = _copies(attacked, originals, cache) or _alike(sounding)
    if repeated:
        found.append(failed("repeated-audio", f"{repeated}{name}."))
        return found  # a copy is no utterance of another's
    swapped = _swapped({key: pair for key, pair in sounding.items() if key not in copied}, attacked, originals)
    return [*found, *([failed("swapped-audio", f"{swapped}{name}.")] if swapped else [])]


def _lost(one: Samples, other: Samples | None, fault: Callable[[Samples], bool]) -> bool:
    """Return whether the first has a fault that the second, its original, has not."""
    return fault(one) and (other is None or not fault(other))


def _copies(attacked: Mapping[str, Utterance], originals: Mapping[str, Utterance], cache: Cache) -> str:
    """Compare the files of all utterances; return what was seen, or nothing."""
    copies: dict[Content, list[str]] = {}
    for key, utterance in attacked.items():
        copies.setdefault(content_of(utterance, cache), []).append(key)
    group = max(copies.values(), key=lambda keys: _different(keys, originals, cache), default=[])
    count = _different(group, originals, cache)
    if count < 2:
        return ""
    return f"{count:,} of {len(attacked):,} utterances have one and the same audio, e.g. {group[0]} and {group[1]}"


def _alike(pairs: Mapping[str, tuple[Samples, Samples | None]]) -> str:
    """Compare the samples of neighbors in the sample; return what was seen, or nothing."""
    alike = [
        f"{a} and {b}"
        for (a, (one, before)), (b, (other, after)) in pairwise(pairs.items())
        if same_signal(one, other) and (before is None or after is None or not same_signal(before, after))
    ]
    if not alike:
        return ""
    return (
        f"{len(alike):,} of {len(pairs) - 1:,} pairs of utterances that were compared sound the same, e.g. {alike[0]}"
    )


def _swapped(
    pairs: Mapping[str, tuple[Samples, Samples | None]],
    attacked: Mapping[str, Utterance],
    originals: Mapping[str, Utterance],
) -> str:
    """Look for utterances that follow another original than their own; return what was seen, or nothing.

    Only those that do not follow their own are compared with others: the originals whose lengths are nearest.
    """
    suspects: dict[str, NDArray[np.float64]] = {}
    for key, (one, own) in pairs.items():
        if own is not None and min(len(one), len(own)) >= _SHORTEST * RATE and len(suspects) < _SUSPECTS:
            levels = band_levels(one)
            if course_likeness(levels, band_levels(own)) < _OWN:
                suspects[key] = levels
    if not suspects:
        return ""
    lengths = {key: _length(utterance) for key, utterance in originals.items()}
    read: dict[str, NDArray[np.float64]] = {}
    found = {}
    for key, levels in suspects.items():
        length = _length(attacked[key])
        others = sorted(lengths.keys() - {key}, key=lambda k: (abs(lengths[k] - length), k))
        for other in others[:_CANDIDATES]:
            if other not in read:
                read[other] = band_levels(_read(originals[other]))
            if course_likeness(levels, read[other]) > _OTHER:
                found[key] = other
                break
    if not found:
        return ""
    key, other = next(iter(found.items()))
    compared = f"{len(found):,} of {len(suspects):,} utterances that do not follow their original in time"
    return f"{compared} follow that of another one, e.g. {key} follows {other}"


def _different(keys: Sequence[str], originals: Mapping[str, Utterance], cache: Cache) -> int:
    """Return how many of these utterances have different originals; all of them, where the originals are not known."""
    if len(keys) < 2:
        return len(keys)
    return len({content_of(originals[key], cache) if key in originals else key for key in keys})


def _length(utterance: Utterance) -> float:
    """Return the length in seconds."""
    return utterance.duration or info(utterance.path).duration - utterance.start


def _read(utterance: Utterance) -> Samples:
    """Return the first ten seconds, of shape (n,) at ``RATE`` Hz."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixedDownWarning)  # the attackers say it
        return load(
            utterance.path, rate=RATE, start=utterance.start, duration=min(_length(utterance), _SECONDS)
        ).samples
