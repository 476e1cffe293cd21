"""Speed of the metrics: each against a plain implementation, in one run, on one core.

    python benchmarks/metrics.py [WORDS...]     # only the rows whose name contains one of the words

A row is a function that returns a :class:`Row`; to add one, write it and put it into ``ROWS``. Compilation (cached
between runs) is not timed. Where the plain implementation would take minutes it is given less work, and its time is
scaled up by the law that its row states.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from numpy.typing import NDArray

from timing import seconds
from voiceveil import metrics, stats
from voiceveil.corpus.score_files import read_key, read_scores
from voiceveil.metrics import ScoredTrials, SinglingOutProtocol, measures, utterance_embeddings
from voiceveil.testing.scores import ScoreWorld

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """Seconds of both, what the plain one is, and how far the two results are apart."""

    name: str
    ours: float
    plain: float
    against: str
    difference: float | None = None


def scores(n: int, share: float = 0.05) -> tuple[Floats, Floats]:
    """As many trials, and as many of them targets, as a subset of a challenge has."""
    rng = np.random.default_rng(0)
    targets = int(n * share)
    return rng.normal(2.0, 1.0, targets), rng.normal(0.0, 1.0, n - targets)


def plain_eer(target: Floats, nontarget: Floats) -> float:
    """One pass over all scores for each threshold, as the definition says and as SpeechBrain does."""
    values = np.unique(np.concatenate([target, nontarget]))
    best, rate = np.inf, 0.0
    for threshold in values:
        frr, far = np.mean(target <= threshold), np.mean(nontarget > threshold)
        if abs(far - frr) < best:
            best, rate = abs(far - frr), (far + frr) / 2
    return float(rate)


def eer_of_a_subset() -> Row:
    target, nontarget = scores(21_650)
    ours, plain = metrics.eer(target, nontarget, method="speechbrain"), plain_eer(target, nontarget)
    return Row(
        "EER, 21,650 trials",
        seconds(lambda: metrics.eer(target, nontarget), 20),
        seconds(lambda: plain_eer(target, nontarget), 1),
        "a pass for each threshold",
        abs(ours - plain),
    )


def eer_of_millions() -> Row:
    target, nontarget = scores(3_500_000)
    some = scores(7_000)
    return Row(
        "EER, 3.5 million trials",
        seconds(lambda: metrics.eer(target, nontarget), 3),
        seconds(lambda: plain_eer(*some), 1) * 500**2,
        "a pass for each threshold (7,000 trials, scaled by the square)",
    )


def plain_pav(labels: Floats) -> Floats:
    """Pool adjacent violators with a stack in Python."""
    blocks: list[list[float]] = []
    for label in labels.tolist():
        blocks.append([label, 1.0])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    return np.concatenate([np.full(int(count), total / count) for total, count in blocks])


def plain_min_cllr(target: Floats, nontarget: Floats) -> float:
    labels = np.concatenate([np.zeros(len(nontarget)), np.ones(len(target))])
    labels = labels[np.argsort(np.concatenate([nontarget, target]), kind="stable")]
    posterior = plain_pav(labels)
    with np.errstate(divide="ignore"):
        llr = np.log(posterior / (1 - posterior)) - np.log(len(target) / len(nontarget))
    return metrics.cllr(llr[labels == 1], llr[labels == 0])


def min_cllr() -> Row:
    target, nontarget = scores(21_650)
    return Row(
        "min Cllr, 21,650 trials",
        seconds(lambda: metrics.min_cllr(target, nontarget), 20),
        seconds(lambda: plain_min_cllr(target, nontarget), 3),
        "pool adjacent violators in Python",
        abs(metrics.min_cllr(target, nontarget) - plain_min_cllr(target, nontarget)),
    )


def zebra() -> Row:
    target, nontarget = scores(21_650)

    def plain() -> float:
        tar, non = metrics.pav_llr(target, nontarget, laplace=False)
        p = np.linspace(0, 1, 1002)[1:-1]
        odds = np.log(p / (1 - p))
        prior = -p * np.log2(p) - (1 - p) * np.log2(1 - p)
        miss = np.array([np.logaddexp(0, -tar - x).mean() for x in odds])
        alarm = np.array([np.logaddexp(0, non + x).mean() for x in odds])
        return float(np.sum(prior - (p * miss + (1 - p) * alarm) / np.log(2)) / 1001)

    ours = metrics.zebra(target, nontarget)
    return Row(
        "ZEBRA, 21,650 trials",
        seconds(lambda: metrics.zebra(target, nontarget), 10),
        seconds(plain, 1),
        "integration over 1,000 priors",
        abs(ours.population - plain()),
    )


def bootstrap() -> Row:
    trials = ScoreWorld(speakers=29, utterances=24).draw(np.random.default_rng(0))
    weights = list(trials.weights(10, seed=0))

    def plain() -> list[float]:
        values = []
        for w in weights:
            times = np.where(trials.target, w[trials.enroll], w[trials.enroll] * w[trials.speaker]).astype(int)
            score, target = np.repeat(trials.score, times), np.repeat(trials.target, times)
            values.append(metrics.eer(score[target], score[~target]))
        return values

    def fresh() -> stats.Estimate:
        again = ScoredTrials(trials.score, trials.target, trials.enroll, trials.speaker)  # sorts anew
        return metrics.estimate(again, "eer", resamples=1000)

    statistic = measures.eer().statistic(*trials.classes())
    ours = [statistic(trials.tally(w)) for w in weights]
    return Row(
        f"EER, 1,000 speaker bootstraps, {len(trials.score):,} trials",
        seconds(fresh, 3),
        seconds(plain, 2) * 100,
        "our EER of the trials of each resample (10 resamples, times 100)",
        float(np.abs(np.subtract(ours, plain())).max()),
    )


def reading() -> Row:
    with tempfile.TemporaryDirectory() as folder:
        key_file, score_file = Path(folder) / "trials", Path(folder) / "scores"
        pairs = [(f"{e:04d}", f"{u % 500:04d}-{u:06d}") for e in range(500) for u in range(700)]
        with key_file.open("w") as key, score_file.open("w") as score:
            for e, u in pairs:
                key.write(f"{e} {u} {'target' if u.startswith(e) else 'nontarget'}\n")
                score.write(f"{e} {u} {hash((e, u)) % 99991 / 99991:.6f}\n")

        def plain() -> dict[tuple[str, ...], float]:
            with key_file.open() as file:
                labels = {tuple(line.split()[:2]): line.split()[2] for line in file}
            with score_file.open() as file:
                return {tuple(line.split()[:2]): float(line.split()[2]) for line in file if labels}

        ours = seconds(lambda: read_scores(score_file, read_key(key_file)), 2) * 10
        return Row(
            "reading trials and scores, 3.5 million lines each",
            ours,
            seconds(plain, 2) * 10,
            "two dictionaries (both 350,000 lines, times 10)",
        )


def similarity() -> Row:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(20), 37)
    voices = 0.5 * rng.normal(size=(20, 20))[who] + rng.normal(size=(740, 20))
    matrix, speakers = voices @ voices.T, [f"s{code:02d}" for code in who]
    rows, columns = np.triu_indices(740, 1)

    def plain() -> Floats:
        same = who[rows] == who[columns]
        llr = np.empty(len(rows))
        llr[same], llr[~same] = metrics.pav_llr(matrix[rows, columns][same], matrix[rows, columns][~same])
        found = np.empty((20, 20))
        for i in range(20):
            for j in range(i, 20):
                mean = llr[(who[rows] == i) & (who[columns] == j)].mean()
                found[i, j] = found[j, i] = 1 / (1 + np.exp(-mean))
        return found

    ours = metrics.similarity_matrix(matrix, speakers)
    return Row(
        "voice similarity matrix, 740 utterances",
        seconds(lambda: metrics.similarity_matrix(matrix, speakers), 5),
        seconds(plain, 1),
        "the pairs of each two speakers selected anew",
        float(np.abs(ours.values - plain()).max()),
    )


def words() -> Row:
    rng = np.random.default_rng(0)
    refs = [" ".join(f"w{k}" for k in rng.integers(5000, size=20)) for _ in range(2600)]
    hyps = [" ".join(word for word in ref.split() if rng.random() > 0.1) for ref in refs]

    def plain() -> int:
        total = 0
        for ref, hyp in zip(refs, hyps, strict=True):
            above = list(range(len(hyp.split()) + 1))
            for i, word in enumerate(ref.split(), 1):
                row = [i]
                for j, other in enumerate(hyp.split(), 1):
                    row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (word != other)))
                above = row
            total += above[-1]
        return total

    return Row(
        "word errors with alignments, 2,600 utterances",
        seconds(lambda: metrics.word_errors(refs, hyps), 3),
        seconds(plain, 1),
        "the edit distance alone, in Python",
        abs(metrics.word_errors(refs, hyps).edits - plain()),
    )


def many_voices(each: int) -> tuple[NDArray[np.float32], list[str], NDArray[np.float32], list[str]]:
    """As many speakers as the legal paper has in its sets A and B; ``each``: utterances of a speaker in A."""
    rng = np.random.default_rng(0)
    center = rng.standard_normal((22_024, 192), dtype=np.float32)
    who = np.repeat(np.arange(22_024), each)
    noise = 4.0 if each > 1 else 0.5
    a = center[who] + np.float32(noise) * rng.standard_normal((len(who), 192), dtype=np.float32)
    b = center[:4949] + 2 * rng.standard_normal((4949, 192), dtype=np.float32)
    return a, [f"s{code:05d}" for code in who], b, [f"s{code:05d}" for code in range(4949)]


def linkability() -> Row:
    enroll, enroll_ids, test, test_ids = many_voices(1)
    found = metrics.linkability(utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids))

    def plain(i: int) -> bool:
        cosines = [test[i] @ e / (np.linalg.norm(test[i]) * np.linalg.norm(e)) for e in enroll]
        return bool(cosines[i] > max(c for j, c in enumerate(cosines) if j != i))

    return Row(
        f"Linkability, 4,949 x 22,024 speakers, {len(found.sizes)} N' at once, exact, with intervals",
        seconds(
            lambda: metrics.linkability(utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids)),
            2,
        ),
        seconds(lambda: [plain(i) for i in range(3)], 1) / 3 * 4949,
        "one cosine at a time, one N', one draw (3 tests, scaled)",
        float(sum(plain(i) != (found.rivals[i] == 0) for i in range(10))),
    )


def singling_out() -> Row:
    test, test_ids, enroll, enroll_ids = many_voices(10)
    unit = (test / np.linalg.norm(test, axis=1, keepdims=True)).reshape(22_024, 10, 192)

    def plain(e: NDArray[np.float32]) -> float:
        isolated = []
        for fold in range(10):
            calibration = np.sort(np.delete(unit, fold, axis=1).reshape(-1, 192) @ e)[::-1]
            isolated.append((unit[:, fold] @ e > calibration[8:10].mean()).sum() == 1)
        return float(np.mean(isolated))

    def ours() -> metrics.SinglingOut:
        return metrics.singling_out(
            utterance_embeddings(test, test_ids),
            utterance_embeddings(enroll, enroll_ids),
            SinglingOutProtocol(most_enrolled=495),
            sizes=[22_024],
        )

    return Row(
        "Singling Out, N = 22,024, 495 enrolled speakers, 10 folds, 5 draws, with chance and intervals",
        seconds(ours, 1),
        seconds(lambda: plain(enroll[0]), 1) * 495 * 5,
        "each fold scored and sorted anew (one speaker, one draw, scaled)",
    )


#: Every row of the table.
ROWS: list[Callable[[], Row]] = [
    eer_of_a_subset,
    eer_of_millions,
    min_cllr,
    zebra,
    bootstrap,
    reading,
    similarity,
    words,
    linkability,
    singling_out,
]


def main() -> None:
    words = sys.argv[1:]
    for row in (make() for make in ROWS if not words or any(word in make.__name__ for word in words)):
        print(f"{row.name}\n  voiceveil {row.ours:.4g} s, plain {row.plain:.4g} s, ratio {row.plain / row.ours:.3g}")
        apart = "" if row.difference is None else f"; results differ by {row.difference:.1g}"
        print(f"  plain: {row.against}{apart}")


if __name__ == "__main__":
    main()
