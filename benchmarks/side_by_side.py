"""Systems side by side on the official LibriSpeech development sets: privacy, words, naturalness, pitch, speed.

    python benchmarks/side_by_side.py DATA --scratch DIR [--systems b2 b1b veil,privacy=1] [--utterances 100]

DATA holds ``libri_dev_enrolls``, ``libri_dev_trials_f``, ``libri_dev_trials_m``, the training speech ``libri_train``
and ``libri_pool``, and ``emodb`` if emotions are to be measured too. A system is a name of `voiceveil systems`, with
parameters after commas.

All sets are anonymized whole, at the utterance level with a fixed seed, and attacked as `voiceveil evaluate` does; G_VD
is of the whole sets of trials too. WER, DNSMOS and pitch correlation are measured on some utterances of each set of
trials, the same for all systems and spread over the speakers; PocketSphinx, which is slow, hears a part of these. All
that is found is kept in DIR: a killed run goes on where it stopped. DIR/SYSTEM.json is what `voiceveil rank`
takes, for the plane of privacy and utility. Intervals are over speakers, 95 %. Speed is the
processor time of one process, with all models that a system uses, once they are loaded.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

import voiceveil as vv
from voiceveil import models as utility
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, open_corpus
from voiceveil.evaluation.evaluate import Evaluation, evaluate, prepare
from voiceveil.evaluation.inventory import Inventory
from voiceveil.evaluation.protocol import Protocol, load_protocol
from voiceveil.evaluation.results import Figure, Results
from voiceveil.evaluation.tasks import TaskContext, TaskOptions, TaskSetup
from voiceveil.evaluation.tasks.words import Words
from voiceveil.metrics import WordErrors
from voiceveil.metrics.similarity import diagonal_dominance
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.stats import Estimate, average, ratio
from voiceveil.stats.intervals import difference_interval
from voiceveil.systems import Anonymizer
from voiceveil.systems.resolve import find_system

SEED = 2024
ATTACKERS = ("campplus", "campplus-adapted", "moonshine-adapted")
#: Row of the table -> attacker, what it knows.
ATTACKS = {
    "EER, unprotected, f / m": ("campplus", "unprotected"),
    "EER, ignorant, f / m": ("campplus", "ignorant"),
    "EER, lazy-informed, f / m": ("campplus", "lazy-informed"),
    "EER, semi-informed (adapted), f / m": ("campplus-adapted", "semi-informed"),
    "EER, semi-informed (recogniser), f / m": ("moonshine-adapted", "semi-informed"),
}
#: Recogniser -> its rows of the table.
WORDS = {
    "moonshine": ("WER, Moonshine tiny", "times the original's (Moonshine)"),
    "pocketsphinx": ("WER, PocketSphinx", "times the original's (PocketSphinx)"),
}
EMOTIONS, NATURALNESS, PITCH = "UAR of four emotions", "DNSMOS, overall", "pitch correlation"
GVD, SPEED = "G_VD in dB, f / m", "real-time factor a core"
ROWS = (*ATTACKS, *(row for rows in WORDS.values() for row in rows), EMOTIONS, NATURALNESS, PITCH, GVD, SPEED)
Column = dict[str, str]
#: Of the original speech, and of the anonymized.
Columns = tuple[Column, Column]


def development(data: Path) -> Protocol:
    """The challenge of 2024 without its test sets, and with emotions where there is speech for them."""
    whole = load_protocol("vpc2024")
    emotional = (data / "emodb").is_dir()
    return replace(
        whole,
        metrics=("eer", "gvd", "uar") if emotional else ("eer", "gvd"),
        emotion=whole.emotion[:1] if emotional else (),
        verification=tuple(one for one in whole.verification if one.split == "dev"),
        recognition=tuple(one for one in whole.recognition if one.split == "dev"),
        ranking=None,
    )


def chosen(corpus: Corpus, count: int) -> set[str]:
    """The ids of so many utterances, as many of each speaker; fewer are always among more."""
    rng = np.random.default_rng(SEED)
    ranked = [
        (rank, float(rng.random()), utterances[i].id)
        for _, utterances in sorted(corpus.by_speaker.items(), key=lambda item: str(item[0]))
        for rank, i in enumerate(rng.permutation(len(utterances)))
    ]
    return {name for *_, name in sorted(ranked)[:count]}


def part(corpora: Mapping[str, Corpus], keep: Mapping[str, set[str]]) -> dict[str, Corpus]:
    """The sets of trials with the utterances to keep alone."""

    def kept(corpus: Corpus, ids: set[str]) -> Corpus:
        return corpus.filter(lambda utterance: utterance.id in ids)

    return {name: kept(corpora[name], ids) for name, ids in keep.items()}


def attacks(results: Results) -> Columns:
    """The EERs: of the original speech, and of the anonymized."""
    found = {
        row: _genders(results.find("eer", attacker=attacker, knowledge=knowledge))
        for row, (attacker, knowledge) in ATTACKS.items()
    }
    first = next(iter(ATTACKS))
    return {first: found[first]}, {row: text for row, text in found.items() if row != first}


def _genders(figures: Sequence[Figure]) -> str:
    values = [Estimate(f.value, f.low or 0.0, f.high or 0.0, unit="%") for f in figures]
    return " / ".join(map(str, values)) or "–"


def emotions(results: Results) -> Columns:
    """UAR before and after; none where there is no such speech."""
    sides = [[f for f in results.find("uar") if f.condition == side] for side in "oa"]
    before, after = ({EMOTIONS: _genders(figures)} if figures else {} for figures in sides)
    return before, after


def distinctiveness(results: Results) -> Column:
    """G_VD in dB; its interval from weights of the speakers, as a bootstrap draws them."""
    cells = []
    for figure in results.find("deid"):
        oo, aa = (np.array(figure.detail["matrices"][side]) for side in ("oo", "aa"))
        n = len(oo)
        draws = np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), size=1000)
        drawn = [w for w in draws if np.count_nonzero(w) > 1]
        gains = [10 * np.log10(diagonal_dominance(aa, w) / diagonal_dominance(oo, w)) for w in drawn]
        value = 10 * np.log10(diagonal_dominance(aa) / diagonal_dominance(oo))
        found = difference_interval(float(value), np.array(gains), n)
        cells.append(str(Estimate(found.value, found.low, found.high)))
    return {GVD: " / ".join(cells)}


def words(
    figures: Sequence[Figure], heard: Mapping[tuple[str, str], WordErrors], small: Inventory, recognizer: str
) -> Columns:
    """WER before and after, and how many times as many errors there are."""
    rate, times = WORDS[recognizer]
    before, after = ({rate: _genders([f for f in figures if f.condition == side])} for side in "oa")
    errors = {side: heard["libri_dev", side] for side in "oa"}
    wrong = {side: one.counts[:, :3].sum(axis=1) for side, one in errors.items()}
    speaker = {u.id: u.speaker or u.id for corpus in small.corpora.values() for u in corpus}
    if wrong["o"].sum() > 0:  # the words are the same on both sides, and the ratio of rates is that of errors
        by = [speaker[name] for name in errors["o"].utterances]
        after[times] = str(replace(ratio(wrong["a"], wrong["o"], by), unit=""))
    return before, after


def naturalness(small: Inventory, anonymized: Mapping[str, Corpus], run: RunContext) -> Columns:
    """DNSMOS overall, 1 to 5."""
    sides = [[u for name in small.corpora for u in corpora[name]] for corpora in (small.corpora, anonymized)]
    rated = [utility.evaluate_naturalness(side, **run.options()).ovr for side in sides]
    before, after = ({NATURALNESS: str(rating)} for rating in rated)
    return before, after


def pitch(small: Inventory, anonymized: Mapping[str, Corpus], run: RunContext) -> Column:
    """The mean correlation as it is published, over both sets of trials."""
    sets = [(small.corpora[name], anonymized[name]) for name in small.corpora]
    found = [utility.evaluate_pitch(*pair, method="published", **run.options()).rho for pair in sets]
    return {PITCH: str(average(found))}


def speed(system: Anonymizer, utterances: Sequence[Utterance]) -> Column:
    """Processor seconds for a second of audio, in this process."""
    waves = [vv.load(u.path, rate=system.rate) for u in utterances]
    rng = np.random.default_rng(SEED)
    system.convert(waves[0], rng)  # loads the models
    start = time.process_time()
    for wave in waves:
        system.convert(wave, rng)
    factor = (time.process_time() - start) / sum(wave.duration for wave in waves)
    return {SPEED: f"{factor:.3f} ({1 / factor:.0f} x real time)"}


def usefulness(evaluation: Evaluation, args: argparse.Namespace, cache: Cache) -> tuple[Columns, list[Figure]]:
    """Words by both recognisers, naturalness and pitch, on some utterances; and the figures of the first recogniser."""
    inventory = evaluation.inventory
    whole = {
        name: open_corpus(evaluation.out / "data" / f"{name}{evaluation.suffix}") for name in trial_sets(inventory)
    }
    before: Column = {}
    after: Column = {}
    figures: list[Figure] = []
    for recogniser, count in (("moonshine", args.utterances), ("pocketsphinx", min(args.second, args.utterances))):
        if count == 0:
            continue
        keep = {name: chosen(inventory.corpora[name], count) for name in whole}
        small, anonymized = replace(inventory, corpora=part(inventory.corpora, keep)), part(whole, keep)
        say(f"{recogniser}: {sum(map(len, keep.values()))} utterances")
        run = RunContext(cache, args.jobs, args.quiet)
        setup = TaskSetup(small, evaluation.data, TaskOptions(recognizers=(recogniser,)))
        out = evaluation.out
        result = Words().run(TaskContext(setup, anonymized, run, out, evaluation.suffix, anon_data=out / "data"))
        figures = figures or list(result.figures)
        steps = [words(result.figures, result.word_errors, small, recogniser)]
        if recogniser == "moonshine":
            say("naturalness and pitch of the same")
            steps += [naturalness(small, anonymized, run), ({}, pitch(small, anonymized, run))]
        for of_original, of_system in steps:
            before |= of_original
            after |= of_system
    return (before, after), figures


def trial_sets(inventory: Inventory) -> list[str]:
    return [trials.set for one in inventory.verification for trials in one.trials]


def folder_of(spec: str, args: argparse.Namespace) -> Path:
    """Where a system is evaluated."""
    return Path(args.scratch) / spec.replace("/", "_")


def results_of(spec: str, args: argparse.Namespace) -> Path:
    """The figures of a system, for its ranking."""
    folder = folder_of(spec, args)
    return folder.parent / f"{folder.name}.json"


def measure(spec: str, args: argparse.Namespace) -> Columns:
    """All of one system; returns the column of the original speech and that of the system."""
    name, *settings = spec.split(",")
    system = find_system(name, settings)
    system.models()  # what is missing is said now
    folder = folder_of(spec, args)
    evaluation = prepare(args.data, folder, protocol=development(args.data), system=system)
    evaluation = replace(
        evaluation, feature_cache=args.scratch / "features.sqlite"
    )  # of the originals, for all systems
    cache_file = args.scratch / "cache.sqlite"
    results = evaluate(
        evaluation,
        attackers=ATTACKERS,
        jobs=args.jobs,
        seed=args.seed,
        cache_file=cache_file,
        details=False,
        quiet=args.quiet,
        say=say,
    )
    before, after = attacks(results)
    heard, felt = emotions(results)
    before, after = {**before, **heard}, {**after, **felt}
    cache = Cache(cache_file)
    try:
        (of_original, of_system), figures = usefulness(evaluation, args, cache)
    finally:
        cache.close()
    replace(results, system=spec, figures=(*results.figures, *figures)).save(results_of(spec, args), overwrite=True)
    timed = evaluation.inventory.corpora[trial_sets(evaluation.inventory)[0]].utterances[: args.timed]
    after = {**after, **of_system, **distinctiveness(results), **speed(system, timed)}
    for row, text in after.items():
        print(f"{spec:16} {row:42} {text}", flush=True)
    for health in results.info.get("health", []):
        for warning in health["warnings"]:
            print(f"{spec:16} warning: {health['attacker']}: {warning}", flush=True)
    return {**before, **of_original}, after


def table(columns: Mapping[str, Column]) -> str:
    """Markdown: a row a measure, a column a system."""
    rows = [row for row in ROWS if any(row in column for column in columns.values())]
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {row} | " + " | ".join(column.get(row, "") for column in columns.values()) + " |" for row in rows]
    return "\n".join(lines)


def say(line: str) -> None:
    """Progress, beside the results."""
    print(line, file=sys.stderr, flush=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What :func:`measure` needs to know."""
    parser.add_argument("data", type=Path)
    parser.add_argument("--scratch", type=Path, required=True, help="for anonymized speech and all results")
    parser.add_argument("--utterances", type=int, default=100, help="of each set of trials, for WER, DNSMOS, pitch")
    parser.add_argument("--second", type=int, default=30, help="of these, for PocketSphinx; 0: none")
    parser.add_argument("--timed", type=int, default=20, help="utterances for the real-time factor")
    parser.add_argument("--seed", type=int, default=SEED, help="of the pseudo-speakers; each needs a DIR of its own")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quiet", action="store_true", help="no progress")


def main() -> None:
    """Measure system after system and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--systems", nargs="+", default=["b2", "b1b", "b1a"], metavar="NAME[,PARAMETER=VALUE]")
    args = parser.parse_args()
    args.scratch.mkdir(parents=True, exist_ok=True)
    columns: dict[str, Column] = {"original": {}}
    for spec in args.systems:
        try:
            before, columns[spec] = measure(spec, args)
        except InputError as error:
            print(f"{spec}: left out: {error}", flush=True)
            continue
        columns["original"] |= before
    caption = (
        f"LibriSpeech dev-clean, official trials; WER, DNSMOS and pitch of {args.utterances} utterances of each set, "
        f"PocketSphinx of {min(args.second, args.utterances)}; 95 % intervals over speakers."
    )
    text = f"{caption}\n\n{table(columns)}"
    (args.scratch / "table.md").write_text(text + "\n")
    print(f"\n{text}")


if __name__ == "__main__":
    main()
