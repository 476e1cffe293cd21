"""Checks of an attack's input and scores: signs that its figures must not be believed.

Scores: they are constant, tied, or worse than chance. Data: enrollment and trials, or training and test, share
utterances or speakers. Audio: it is silent, noise, unchanged, repeated, or under the id of another utterance. Each
function returns the checks that failed; :mod:`voiceveil.core.checks` explains their names.

Conventions: rates are fractions; a higher score says "the same speaker". Copies of whole files are found among all
utterances by their digests. Checks that need samples look at the first 10 s of 48 utterances, chosen by their ids
alone.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil import metrics
from voiceveil.attack.sets import TrialSet
from voiceveil.audio import MixedDownWarning, Samples, info, load
from voiceveil.core.checks import Check, failed
from voiceveil.corpus import Corpus, Utterance
from voiceveil.dsp.degenerate import RATE, band_levels, is_noise, is_silent, level_correlation, same_signal
from voiceveil.metrics import ScoredTrials, estimate, tally
from voiceveil.metrics.measures import eer as eer_measure
from voiceveil.run.cache import Cache

__all__ = [
    "audio_content",
    "check_audio",
    "check_scores",
    "check_sets",
    "check_shared_utterances",
    "check_training",
    "check_training_speakers",
    "check_trials",
]

_TIED = 0.5  # share of the most frequent score
_STEP = 1e-6  # of the largest score: smaller differences are rounding
_ABOVE = 0.55  # EER above which its interval is computed
_SAMPLE = 48  # utterances whose samples are compared
_SECONDS = 10.0  # of each utterance
_SHORTEST = 2.0  # seconds from which on the envelope over time identifies an utterance
_OWN = 0.7  # likeness of envelopes below which an utterance does not follow its original
_OTHER = 0.8  # likeness of envelopes above which it follows another original
_SUSPECTS, _CANDIDATES = 12, 64  # utterances that do not follow their original; originals of like length for each

#: Audio of an utterance: digest of its file, start and duration in seconds.
Content = tuple[str, float, float | None]


def check_scores(target: ArrayLike, nontarget: ArrayLike, *, low: float | None = None, where: str = "") -> list[Check]:
    """Return the failed checks of verification scores: ``constant-scores``, ``tied-scores``, ``eer-above-half``.

    Parameters
    ----------
    target, nontarget : array of shape (n,) and (m,)
        Scores, at least one of each class, without NaN.
    low : float, optional
        Lower end of the 95% interval of the EER by the counting definition (``metrics.eer`` with ``"speechbrain"``:
        the convex hull never exceeds one half). Without it trials are assumed to be independent.
    where : str
        Attacker and set, for the sentence.
    """
    tar, non = tally.check_scores(target, nontarget)
    scores = np.concatenate([tar, non])
    step = _STEP * np.abs(scores[np.isfinite(scores)]).max(initial=0.0)
    values, counts = np.unique(np.round(scores / step) * step if step else scores, return_counts=True)
    most, value = int(counts.max()), float(values[counts.argmax()])
    if most == len(scores):
        return [failed("constant-scores", f"All {most:,} scores are {value:.4g}{_at(where)}.")]
    checks = []
    if most > _TIED * len(scores):
        share = f"{most:,} of {len(scores):,} scores ({most / len(scores):.0%})"
        checks.append(failed("tied-scores", f"{share} are {value:.4g}{_at(where)}."))
    rate = metrics.eer(tar, non, method="speechbrain")
    if rate > _ABOVE:
        if low is None:  # as of a half total error rate: Bengio & Mariethoz 2004
            low = rate - 1.96 * float(np.sqrt(rate * (1 - rate) * (1 / len(tar) + 1 / len(non)))) / 2
        if low > 0.5:
            sentence = f"The EER is {rate:.1%}, at least {low:.1%}, over {len(tar):,} target trials{_at(where)}."
            checks.append(failed("eer-above-half", sentence))
    return checks


def check_trials(trials: ScoredTrials, *, where: str = "", resamples: int = 300, seed: int = 0) -> list[Check]:
    """Return the failed checks of scored trials; see :func:`check_scores`.

    Parameters
    ----------
    trials
        The trials with their scores.
    where
        Attacker, condition and set, for the message.
    resamples, seed
        Of the bootstrap over speakers, by which the EER is compared with one half.
    """
    classes = trials.classes()
    low = None
    if metrics.eer(*classes, method="speechbrain") > _ABOVE:
        low = estimate(trials, eer_measure("speechbrain"), resamples=resamples, seed=seed).low
    return check_scores(*classes, low=low, where=where)


def check_training_speakers(attacker: str, trained: Iterable[str], tested: Set[str]) -> list[Check]:
    """Return ``training-speakers-in-test`` if an encoder was trained on speakers of the test.

    Parameters
    ----------
    attacker : str
        Name of the attacker, for the sentence.
    trained, tested : iterable and set of str
        Ids of the speakers.
    """
    both = sorted(tested & set(trained))
    if not both:
        return []
    shared = f"{len(both):,} of {len(tested):,} test speakers, e.g. {both[0]}"
    return [failed("training-speakers-in-test", f"The encoder of {attacker} was trained on {shared}.")]


def check_shared_utterances(enrolled: Mapping[str, Any], tried: Mapping[str, Any], *, where: str = "") -> list[Check]:
    """Return ``shared-utterances`` if an utterance is both enrolled and tried: by its id, or by equal content.

    Parameters
    ----------
    enrolled, tried : mapping
        Utterance id -> hashable content: a digest of the audio, or an embedding as bytes; None if it is not known.
    where : str
        Name of the set, for the sentence.
    """
    ids = sorted(enrolled.keys() & tried.keys())
    by_content = {content: key for key, content in enrolled.items() if content is not None}
    equal = sorted(key for key, content in tried.items() if content in by_content and key not in ids)
    checks = []
    if ids:
        sentence = f"{len(ids):,} of {len(tried):,} trial utterances are enrolled, e.g. {ids[0]}{_at(where)}."
        checks.append(failed("shared-utterances", sentence))
    if equal:
        first = f"{equal[0]} is {by_content[tried[equal[0]]]}"
        share = f"{len(equal):,} of {len(tried):,} trial utterances"
        sentence = f"{share} have the content of an enrolled one, e.g. {first}{_at(where)}."
        checks.append(failed("shared-utterances", sentence))
    return checks


def check_sets(sets: Sequence[TrialSet], training: Sequence[Corpus], cache: Cache) -> list[Check]:
    """Return the failed checks of the sets of an attack and of the training speech."""
    checks: list[Check] = []
    attacked: dict[str, Utterance] = {}
    originals: dict[str, Utterance] = {}
    contents: list[dict[str, Content]] = []
    for trial_set in sets:
        enrolled, tried = (_contents(side, cache) for side in trial_set.speech("oo"))
        checks += check_shared_utterances(enrolled, tried, where=trial_set.name)
        contents += [enrolled, tried]
        sides = trial_set.speech("oo")
        if trial_set.anonymized is not None:
            originals |= {u.id: u for side in sides for u in side}
            sides = trial_set.speech("aa")
            contents += [_contents(side, cache) for side in sides]
        attacked |= {u.id: u for side in sides for u in side}
    test_ids = {key for side in contents for key in side}
    test_contents = {content for side in contents for content in side.values()}
    checks += check_audio(attacked, originals, cache)
    return [*checks, *check_training(training, test_ids, test_contents, cache)]


def check_training(training: Iterable[Corpus], ids: Set[str], contents: Set[Content], cache: Cache) -> list[Check]:
    """Return ``training-speakers-in-test`` if training speech is among the test data, by its id or its content."""
    checks = []
    for corpus in training:
        shared = [u for u in corpus if u.id in ids or audio_content(u, cache) in contents]
        if shared:
            share = f"{len(shared):,} of {len(corpus):,} training utterances of {corpus.name}"
            checks.append(failed("training-speakers-in-test", f"{share} are in the test data, e.g. {shared[0].id}."))
    return checks


def audio_content(utterance: Utterance, cache: Cache) -> Content:
    """Return the digest of an utterance's file, and its start and duration in the file in seconds."""
    return cache.digest(utterance.path), utterance.start, utterance.duration


def check_audio(
    attacked: Mapping[str, Utterance], originals: Mapping[str, Utterance], cache: Cache, *, where: str = ""
) -> list[Check]:
    """Return the failed checks of audio.

    They are ``identical-audio``, ``silent-audio``, ``noise-audio``, ``repeated-audio`` and ``swapped-audio``.

    Parameters
    ----------
    attacked : mapping
        Utterance id -> the speech that is attacked: anonymized, or original if there is no other.
    originals : mapping
        Utterance id -> the original speech, if it is known. An utterance whose original is silent, noise or a copy
        itself is not counted.
    cache : Cache
        Knows the digests of files.
    where : str
        Name of the set, for the sentences.
    """
    chosen = sorted(attacked, key=lambda key: hashlib.sha256(key.encode()).digest())[:_SAMPLE]
    pairs = {key: (_read(attacked[key]), _read(originals[key]) if key in originals else None) for key in chosen}
    silent = [key for key, pair in pairs.items() if _is_new(*pair, is_silent)]
    noise = [key for key, pair in pairs.items() if key not in silent and _is_new(*pair, is_noise)]
    sounding = {key: pair for key, pair in pairs.items() if key not in silent and key not in noise}
    copied = [key for key, (speech, own) in sounding.items() if own is not None and same_signal(own, speech)]
    checks = [
        failed(
            name, f"{len(keys):,} of {len(pairs):,} utterances that were looked at {fault}, e.g. {keys[0]}{_at(where)}."
        )
        for name, keys, fault in (
            ("identical-audio", copied, "equal the original (gain, shift, direction and codec aside)"),
            ("silent-audio", silent, "are silent"),
            ("noise-audio", noise, "are noise or a steady sound"),
        )
        if keys
    ]
    repeated = _describe_copies(attacked, originals, cache) or _describe_repeats(sounding)
    if repeated:
        checks.append(failed("repeated-audio", f"{repeated}{_at(where)}."))
        return checks  # a copy would be taken for another utterance
    swapped = _describe_swaps({key: pair for key, pair in sounding.items() if key not in copied}, attacked, originals)
    return [*checks, *([failed("swapped-audio", f"{swapped}{_at(where)}.")] if swapped else [])]


def _at(where: str) -> str:
    return f" ({where})" if where else ""


def _contents(utterances: Iterable[Utterance], cache: Cache) -> dict[str, Content]:
    return {u.id: audio_content(u, cache) for u in utterances}


def _is_new(speech: Samples, original: Samples | None, has_fault: Callable[[Samples], bool]) -> bool:
    """Return whether speech has a fault that its original does not have."""
    return has_fault(speech) and (original is None or not has_fault(original))


def _describe_copies(attacked: Mapping[str, Utterance], originals: Mapping[str, Utterance], cache: Cache) -> str:
    """Return a description of equal files among all utterances, or ""."""
    copies: dict[Content, list[str]] = {}
    for key, utterance in attacked.items():
        copies.setdefault(audio_content(utterance, cache), []).append(key)
    group = max(copies.values(), key=lambda keys: _count_originals(keys, originals, cache), default=[])
    count = _count_originals(group, originals, cache)
    if count < 2:
        return ""
    return f"{count:,} of {len(attacked):,} utterances have one and the same audio, e.g. {group[0]} and {group[1]}"


def _count_originals(keys: Sequence[str], originals: Mapping[str, Utterance], cache: Cache) -> int:
    """Return the number of different originals of some utterances; an unknown original counts as different."""
    if len(keys) < 2:
        return len(keys)
    return len({audio_content(originals[key], cache) if key in originals else key for key in keys})


def _describe_repeats(pairs: Mapping[str, tuple[Samples, Samples | None]]) -> str:
    """Return a description of neighbors in the sample with equal signals, or ""."""
    alike = [
        f"{a} and {b}"
        for (a, (speech, original)), (b, (next_speech, next_original)) in pairwise(pairs.items())
        if same_signal(speech, next_speech)
        and (original is None or next_original is None or not same_signal(original, next_original))
    ]
    if not alike:
        return ""
    compared = f"{len(alike):,} of {len(pairs) - 1:,} pairs of utterances that were compared"
    return f"{compared} sound the same, e.g. {alike[0]}"


def _describe_swaps(
    pairs: Mapping[str, tuple[Samples, Samples | None]],
    attacked: Mapping[str, Utterance],
    originals: Mapping[str, Utterance],
) -> str:
    """Return a description of utterances that follow another original than their own, or "".

    Only utterances that do not follow their own original are compared with others, those of the most similar length.
    """
    suspects: dict[str, NDArray[np.float64]] = {}
    for key, (speech, own) in pairs.items():
        if own is not None and min(len(speech), len(own)) >= _SHORTEST * RATE and len(suspects) < _SUSPECTS:
            levels = band_levels(speech)
            if level_correlation(levels, band_levels(own)) < _OWN:
                suspects[key] = levels
    if not suspects:
        return ""
    lengths = {key: _length(utterance) for key, utterance in originals.items()}
    levels_of: dict[str, NDArray[np.float64]] = {}
    swaps = {}
    for key, levels in suspects.items():
        length = _length(attacked[key])
        others = sorted(lengths.keys() - {key}, key=lambda k: (abs(lengths[k] - length), k))
        for other in others[:_CANDIDATES]:
            if other not in levels_of:
                levels_of[other] = band_levels(_read(originals[other]))
            if level_correlation(levels, levels_of[other]) > _OTHER:
                swaps[key] = other
                break
    if not swaps:
        return ""
    key, other = next(iter(swaps.items()))
    compared = f"{len(swaps):,} of {len(suspects):,} utterances that do not follow their original in time"
    return f"{compared} follow that of another one, e.g. {key} follows {other}"


def _length(utterance: Utterance) -> float:
    """Return the duration in seconds."""
    return utterance.duration or info(utterance.path).duration - utterance.start


def _read(utterance: Utterance) -> Samples:
    """Return the first ten seconds, of shape (n,) at ``RATE`` Hz."""
    seconds = min(_length(utterance), _SECONDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixedDownWarning)  # the attackers warn about it
        return load(utterance.path, rate=RATE, start=utterance.start, duration=seconds).samples
