"""Check that the parts of a protocol fit together, and that its metrics, roles and sets are possible."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.metrics.catalog import METRICS, MetricInfo, metric_info

if TYPE_CHECKING:
    from voiceveil.evaluation.protocol import Emotion, Protocol, Recognition

__all__ = ["check_protocol", "known_metric", "official_set", "protocol_metric"]

_NAME = re.compile(r"[^\s/\\.][^\s/\\]*")
_ROLES = ("enroll", "trial", "train", "emotion")


def check_protocol(protocol: Protocol) -> None:
    """Raise an ``InputError`` for the first problem of a protocol."""
    for problem, fix in _problems(protocol):
        raise InputError(problem, fix=fix)


def _problems(protocol: Protocol) -> Iterator[tuple[str, str]]:
    """Yield each problem of a protocol, and how to fix it."""
    if not _NAME.fullmatch(protocol.name):
        yield (
            f"name is {protocol.name!r}",
            "it names a folder: leave out blanks and slashes, and do not begin it with a dot",
        )
    for role in protocol.levels:
        if role not in _ROLES:
            yield f"levels has the unknown role {role!r}", did_you_mean(role, list(_ROLES))
    yield from _metric_problems(protocol)
    yield from _set_problems(protocol)
    if protocol.official is not None:
        yield from _official_problems(protocol)


def protocol_metric(name: str) -> MetricInfo:
    """Return a metric of the catalog or of a task.

    Raises
    ------
    InputError
        If neither knows it.
    """
    if name not in METRICS:
        from voiceveil.evaluation.tasks import all_tasks  # here: tasks use protocols

        all_tasks()  # registers the tasks' own metrics
    return metric_info(name)


def known_metric(name: str) -> MetricInfo | None:
    """Return a metric as :func:`protocol_metric` does; None if it is not known, as one of official files may be."""
    try:
        return protocol_metric(name)
    except InputError:
        return None


def _metric_problems(protocol: Protocol) -> Iterator[tuple[str, str]]:
    if not protocol.metrics:
        yield "metrics is empty", 'name what to measure, e.g. metrics = ["eer", "wer"]'
    for metric in protocol.metrics:
        part = protocol_metric(metric).part
        if not getattr(protocol, part):
            table = f"[{part}]" if part == "legal" else f"[[{part}]]"
            yield f"metrics has {metric!r}, but there is no {table}", f"add {table} with its sets, or remove it"
    if not protocol.conditions and protocol.verification:
        yield "conditions is empty", 'give some of "oo", "oa" and "aa"'
    rules = protocol.ranking
    for metric in () if rules is None else rules.by:
        if metric not in protocol.metrics:
            yield f"ranking.by has {metric!r}, which is not in metrics", did_you_mean(metric, list(protocol.metrics))
    if rules is not None and ("eer" not in protocol.metrics or "aa" not in protocol.conditions):
        yield "[ranking] needs the EER of condition aa", 'add "eer" to metrics and "aa" to conditions'
    minimum = None if rules is None else rules.minimum_pitch_correlation
    if minimum is not None and "pitch_correlation" not in protocol.metrics:
        yield "ranking.minimum_pitch_correlation needs the pitch correlation", "add it to metrics"


def _set_problems(protocol: Protocol) -> Iterator[tuple[str, str]]:
    legal = () if protocol.legal is None else (protocol.legal.a, protocol.legal.b)
    for name in (*protocol.roles(), *protocol.stand_ins.train, *protocol.stand_ins.emotion, *legal):
        if "/" in name or "\\" in name or name.startswith(".") or not name:
            yield f"the set {name!r} cannot be the name of a folder", "use the name of a Kaldi directory in the data"
    roles = protocol.roles()
    for name, role in protocol.named_sets():
        if roles[name] != role:
            yield f"the set {name!r} has two roles: {roles[name]} and {role}", "name a set for one role only"
    weights = [trials.weight for verification in protocol.verification for trials in verification.trials]
    weights += [entry.weight for entry in protocol.recognition] + [entry.weight for entry in protocol.emotion]
    for weight in weights:
        if not weight > 0:
            yield f"a weight is {weight:g}", "weights are positive numbers; remove a set that is not to count"
    for entry in protocol.recognition:
        if entry.sample is not None and entry.sample < 1:
            yield f"the sample of {entry.dataset!r} is {entry.sample}", "give 1 or more utterances, or leave it out"
    for verification in protocol.verification:
        if not verification.trials:
            yield f"the verification of {verification.dataset!r} has no trials", "list them: trials = [{ set = ... }]"
    for part in ("verification", "recognition", "emotion"):
        datasets = list(_datasets(protocol, part))
        for split, dataset in datasets:
            if datasets.count((split, dataset)) > 1:
                yield f"{part} has {dataset!r} of split {split!r} twice", "give them different datasets or subsets"


def official_set(name: str) -> str:
    """Return the name that a set has in the challenge's own files.

    The trials of June 2026 have the name of those of September there.

    >>> official_set("libri_dev_trials_pooled")
    'libri_dev_trials_mixed'
    """
    return name.replace("_trials_pooled", "_trials_mixed")


def _official_problems(protocol: Protocol) -> Iterator[tuple[str, str]]:
    """Yield the names of sets that the challenges' own result files cannot have."""
    for part in protocol.verification:
        for trials in part.trials:
            suffix = f"_{part.subset}" if part.subset else ""
            named = {
                part.enroll: f"{part.dataset}_enrolls",
                trials.set: f"{part.dataset}_trials_{trials.gender or 'mixed'}{suffix}",
            }
            for name, official in named.items():
                if official_set(name) != official:
                    yield (
                        f"[official] needs sets with the names of the challenges, not {name!r}",
                        f"call it {official!r}",
                    )
    datasets = [(part.dataset, part.split) for part in protocol.verification]
    datasets += [(part.dataset, part.split) for part in protocol.recognition]
    datasets += [(part.dataset, part.split) for part in protocol.emotion]
    for dataset, split in datasets:
        if not dataset.endswith(f"_{split}"):
            fix = "call a dataset CORPUS_SPLIT, e.g. libri_test"
            yield f"[official] needs datasets with the names of the challenges, not {dataset!r}", fix


def _datasets(protocol: Protocol, part: str) -> Iterator[tuple[str, str]]:
    """Yield the split and the name of each dataset, which tell figures apart."""
    if part == "verification":
        for verification in protocol.verification:
            for trials in verification.trials:
                yield verification.split, f"{verification.dataset} {verification.subset} {trials.gender}"
    else:
        entries: Sequence[Recognition | Emotion] = getattr(protocol, part)
        for entry in entries:
            yield entry.split, entry.dataset
