"""Compare pseudo-speaker strategies by their embeddings alone, in minutes: no speech is synthesized.

    python benchmarks/strategies.py DATA pool-farthest a1 k2:epsilon=10 k2:epsilon=100 [--pool evaluation] \\
        [--utterances 12] [--features strategies.sqlite]

DATA has libri_dev_enrolls, libri_dev_trials_f and libri_dev_trials_m with their official trials; all enrollment
utterances and ``--utterances`` of each trial speaker are used. Voices are drawn at speaker level, and independently for
enrollment and trials, as in the challenge. Pseudo-speakers are compared by the cosine of their embeddings, as if the
synthesis carried exactly the embedding that it is given. Real speech also carries what is left of the source in content
and F0: EERs of `voiceveil evaluate` differ. Columns, means over women and men:

* to source, to others: cosine of a pseudo-speaker and the embedding of its own source, of other speakers of its gender
* within, between: cosine of pseudo-speakers of one speaker's trials, and of two speakers of one gender
* EER oa, aa: original or anonymized enrollment, percent, with 95% intervals over speakers
* DeID (percent) and G_VD (dB) of the trials, from the same cosines

``--pool evaluation`` is the pool of K2 in the challenge: the evaluated speakers themselves.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.corpus import Trials, Utterance, open_corpus
from voiceveil.metrics import ScoredTrials, deid, estimate, gvd, similarity_matrix
from voiceveil.metrics.measures import eer
from voiceveil.models.speaker.encoders import encoder, l2_normalized
from voiceveil.models.weights import store
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.stats import Estimate
from voiceveil.stats.intervals import average
from voiceveil.systems.resynthesis.pool import Pool, load_pool
from voiceveil.systems.resynthesis.strategies import Strategy, make_strategy

Array = NDArray[np.float64]
SEED = 2020


class Side:
    """The enrollment or the trial utterances of one gender, with their embeddings (n, d), L2-normalized."""

    def __init__(self, utterances: list[Utterance], vectors: dict[str, NDArray[np.float32]]) -> None:
        self.utterances = utterances
        self.speakers = np.array([u.speaker for u in utterances])
        self.embeddings = np.array([l2_normalized(vectors[u.id]) for u in utterances], dtype=np.float64)

    def pseudo_speakers(self, strategy: Strategy, pool: Pool, role: int) -> Array:
        """Return the embeddings of the pseudo-speakers (n, d), L2-normalized: one generator for each speaker."""
        names = sorted(set(self.speakers))
        return np.array(
            [
                l2_normalized(
                    strategy.draw(
                        embedding.astype(np.float32),
                        utterance.gender or "",
                        pool,
                        np.random.default_rng([SEED, role, names.index(str(utterance.speaker))]),
                    ).embedding
                )
                for utterance, embedding in zip(self.utterances, self.embeddings, strict=True)
            ],
            dtype=np.float64,
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("strategies", nargs="+", help="NAME or NAME:PARAMETER=VALUE,...")
    parser.add_argument("--pool", default="", help="`evaluation`, or of `voiceveil train pool` (default: what ships)")
    parser.add_argument("--utterances", type=int, default=12, help="trial utterances a speaker (%(default)s)")
    parser.add_argument("--features", type=Path, default=Path("strategies.sqlite"), help="keeps the embeddings")
    args = parser.parse_args()
    enrolled = open_corpus(args.data / "libri_dev_enrolls")
    trials = {g: open_corpus(args.data / f"libri_dev_trials_{g}") for g in "fm"}
    chosen = {
        g: [u for group in c.by_speaker.values() for u in _spread(group, args.utterances)] for g, c in trials.items()
    }
    context = RunContext(Cache(args.features), 1, progress=False)
    vectors = context.extract([*enrolled, *chosen["f"], *chosen["m"]], encoder("campplus"))
    sides = {g: (Side([u for u in enrolled if u.gender == g], vectors), Side(chosen[g], vectors)) for g in "fm"}
    pool = load_pool(Path(args.pool) if args.pool not in ("", "evaluation") else store.path("pool"))
    if args.pool == "evaluation":
        pool = _evaluation_pool(pool, sides)
    print(f"{'strategy':28s}  to source  to others  within  between  EER oa             EER aa             DeID   G_VD")
    for spec in args.strategies:
        strategy = make_strategy(spec, {})
        strategy.check(pool)
        rows = [_measure(strategy, pool, *sides[g], trials[g].trials) for g in "fm"]
        cosines = [f"{np.mean([row[k] for row in rows]):.3f}" for k in range(4)]
        rates = [average([row[k] for row in rows]) for k in (4, 5)]
        percent = [f"{100 * r.value:.1f} [{100 * r.low:.1f}, {100 * r.high:.1f}]" for r in rates]
        hidden, distinct = (np.mean([row[k] for row in rows]) for k in (6, 7))
        print(
            f"{spec:28s}  {cosines[0]:9s}  {cosines[1]:9s}  {cosines[2]:6s}  {cosines[3]:7s}  {percent[0]:17s}  "
            f"{percent[1]:17s}  {100 * hidden:5.1f}  {distinct:5.2f}",
            flush=True,
        )


def _measure(strategy: Strategy, pool: Pool, enroll: Side, trial: Side, listed: Trials | None) -> tuple[Any, ...]:
    """Return the columns of a row for one gender: four cosines, two EERs, DeID and G_VD."""
    new_enroll, new_trial = enroll.pseudo_speakers(strategy, pool, 0), trial.pseudo_speakers(strategy, pool, 1)
    same = trial.speakers[:, None] == trial.speakers[None]
    other = ~np.eye(len(same), dtype=bool)
    across, among = trial.embeddings @ new_trial.T, new_trial @ new_trial.T
    m_oo, m_oa, m_aa = (
        similarity_matrix(scores, trial.speakers.tolist())
        for scores in (trial.embeddings @ trial.embeddings.T, across, among)
    )
    return (
        float(np.diag(across).mean()),
        float(across[~same].mean()),
        float(among[same & other].mean()),
        float(among[~same].mean()),
        _eer(enroll, enroll.embeddings, trial, new_trial, listed),
        _eer(enroll, new_enroll, trial, new_trial, listed),
        deid(m_oo, m_oa),
        gvd(m_oo, m_aa),
    )


def _eer(enroll: Side, enrollment: Array, trial: Side, tests: Array, listed: Trials | None) -> Estimate:
    """Return the EER over the listed trials whose utterances were chosen; a speaker's model is the mean embedding."""
    assert listed is not None
    models = {name: l2_normalized(enrollment[enroll.speakers == name].mean(axis=0)) for name in set(enroll.speakers)}
    row = {u.id: k for k, u in enumerate(trial.utterances)}
    rows = [
        (float(models[speaker] @ tests[row[name]]), bool(target), speaker, str(trial.speakers[row[name]]))
        for speaker, name, target in zip(listed.enroll, listed.utterance, listed.target, strict=True)
        if name in row
    ]
    return estimate(ScoredTrials.of_speakers(*map(list, zip(*rows, strict=True))), eer("kaldi"), seed=SEED)


def _evaluation_pool(shipped: Pool, sides: dict[str, tuple[Side, Side]]) -> Pool:
    """Return a pool of all evaluated speakers: mean embeddings over enrollment and trials; F0 is not used here."""
    ids, genders, means = [], [], []
    for gender, both in sides.items():
        speakers = np.concatenate([side.speakers for side in both])
        embeddings = np.concatenate([side.embeddings for side in both])
        for name in sorted(set(speakers)):
            ids.append(str(name))
            genders.append(gender)
            means.append(embeddings[speakers == name].mean(axis=0))
    return replace(
        shipped,
        ids=tuple(ids),
        genders=np.array(genders),
        embeddings=np.array(means, dtype=np.float32),
        log_f0=np.zeros(len(ids), dtype=np.float32),
        ratings=None,
    )


def _spread(utterances: Sequence[Utterance], count: int) -> list[Utterance]:
    """Return ``count`` utterances of a speaker at equal distances."""
    listed = sorted(utterances, key=lambda u: u.id)
    return listed[:: max(1, len(listed) // count)][:count]


if __name__ == "__main__":
    main()
