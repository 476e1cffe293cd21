"""The risk assessment: at the paper's size on synthetic embeddings, and on real speech.

python benchmarks/risk.py scale [--speakers N[,N]] [--jobs 2]
    the three rows and columns of the paper's Figure 1 for four attackers, in a world of 22,024 and 4,949 speakers
    and 1.2 million utterances, made in blocks; prints time and peak memory. Several N: how both grow.

python benchmarks/risk.py paper
    the extrapolation on the paper's own points: fitted up to N' = 2,720, compared at 5,420, 10,820 and 21,920

python benchmarks/risk.py design SPEECH OUT
    sets A and B, ten utterances each, of every speaker of libri_dev, libri_train and libri_pool with 20 or more

python benchmarks/risk.py real SPEECH OUT SYSTEM=FOLDER[,SIMILAR_FOLDER] ... [--cache FILE]
    the table of docs/how-to/risk.md: FOLDER holds NAME_SUFFIX directories of anonymized speech, as `voiceveil evaluate`
    writes them; a semi-informed attacker has learned from SIMILAR_FOLDER
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from voiceveil.corpus import Corpus, open_corpus
from voiceveil.corpus.legal_sets import design_legal_sets
from voiceveil.corpus.sampling import shuffled_utterances
from voiceveil.corpus.trial_design import write_design
from voiceveil.risk import Assessment, AttackPart, RiskAttack, RiskPlan, assess, read_split
from voiceveil.risk.paper_points import predict_paper
from voiceveil.testing.embeddings import EmbeddingWorld

#: Attacker -> how much of a speaker its embeddings tell; about the paper's Linkability at L = 1.
STRENGTHS = {"original": 0.5, "ignorant": 0.12, "semi-informed": 0.2, "informed": 0.45}
SIZES = (20, 30, 45, 69)
SETS = ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m", "libri_train", "libri_pool")


def world_of(speakers: int) -> EmbeddingWorld:
    """The paper's world, scaled to so many speakers."""
    whole = EmbeddingWorld()
    share = speakers / whole.speakers
    return EmbeddingWorld(
        speakers,
        round(whole.speakers_b * share),
        round(whole.utterances * share),
        round(whole.utterances_b * share),
    )


def peak() -> float:
    """The most memory that this process has had so far, GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def scale(speakers: int, jobs: int) -> None:
    """One attacker after the other, so that one world at a time is in memory."""
    started, used = time.perf_counter(), time.process_time()
    world = world_of(speakers)
    points = 0
    for name, strength in STRENGTHS.items():
        begun, spent = time.perf_counter(), time.process_time()
        a, b = world.draw(strength)
        made = time.perf_counter() - begun
        found = assess([RiskAttack(name, (AttackPart(a, b),))], RiskPlan(), jobs=jobs)
        points += sum(len(curve.sizes) for curve in found.curves)
        for curve in found.curves:
            print(
                f"  {name:<14}{curve.metric:<14}L={curve.length:<3} N={curve.sizes[0]}: {curve.value[0]:.3f} "
                f"[{curve.low[0]:.3f}, {curve.high[0]:.3f}], N={curve.sizes[-1]}: {curve.value[-1]:.4f} "
                f"[{curve.low[-1]:.4f}, {curve.high[-1]:.4f}], chance {curve.chance[-1]:.4f}",
                flush=True,
            )
        print(
            f"  {name}: world {made:.0f} s, all {time.perf_counter() - begun:.0f} s, "
            f"{time.process_time() - spent:.0f} processor seconds, peak {peak():.2f} GB",
            flush=True,
        )
        del a, b, found
    wall, processor = time.perf_counter() - started, time.process_time() - used
    print(
        f"N = {speakers}, B = {world.speakers_b}, {world.utterances + world.utterances_b:,} utterances, "
        f"{points} points: "
        f"{wall:.0f} s, {processor:.0f} processor seconds, peak so far {peak():.2f} GB",
        flush=True,
    )


def paper() -> None:
    """Extrapolated and measured Linkability of the paper's curves, and the errors in points."""
    points = predict_paper()
    for point in points:
        guess = point.predicted
        print(
            f"{guess.attacker:13} L = {guess.length:2} N' = {guess.speakers:6,}: {guess.value:6.1%} "
            f"[{guess.low:.1%}, {guess.high:.1%}], paper {point.measured:6.1%}, error {100 * point.error:+.2f} points"
        )
    errors = [100 * abs(point.error) for point in points]
    covered = sum(point.covered for point in points)
    print(f"mean {sum(errors) / len(errors):.2f}, largest {max(errors):.2f} points")
    print(f"{covered} of {len(points)} intervals hold")


def design(speech: Path, out: Path) -> None:
    """The split, written down."""
    everything = Corpus("libri", tuple(u for name in SETS for u in open_corpus(str(speech / name))), None, "kaldi")
    kept = {
        u.id
        for said in everything.by_speaker.values()
        if len(said) >= 20
        for u in shuffled_utterances(said, 0, "release")[:20]
    }
    chosen = everything.filter(lambda u: u.id in kept)
    made = design_legal_sets(chosen, name="libri", a=10, b=10, unit="utterances", seed=0)
    for path in write_design(made, out):
        print(path)


def real(speech: Path, out: Path, systems: list[str], cache: Path | None, jobs: int, only: list[str]) -> None:
    """Each system by the attackers that there is speech for."""
    from voiceveil.report.risk import write_risk_report
    from voiceveil.risk.audio import Recordings, attacks_from_audio
    from voiceveil.run.cache import Cache
    from voiceveil.run.context import RunContext

    original = tuple(open_corpus(str(speech / name)) for name in SETS)
    gender = {u.id: u.gender or "" for corpus in original for u in corpus}
    split = read_split(out / "protocol.toml")
    context = RunContext(Cache(cache), jobs=jobs)
    for number, text in enumerate(systems):
        system, _, folders = text.partition("=")
        folder, _, similar = folders.partition(",")
        anonymized = anonymized_sets(Path(folder))
        like = anonymized_sets(Path(similar)) if similar else ()
        recordings = Recordings(split, original, anonymized, anonymized, like)
        wanted = {"ignorant": "campplus", "informed": "campplus-adapted"}
        if like:
            wanted["semi-informed"] = "campplus-adapted"
        if number == 0:
            wanted = {"original": "campplus", **wanted}
        wanted = {name: by for name, by in wanted.items() if not only or name in only}
        attacks = attacks_from_audio(recordings, wanted, context, {"gender": gender})
        found = assess(attacks, RiskPlan(lengths=(1, 3), sizes=SIZES), jobs=jobs)
        write_risk_report(found, out / f"risk_{system}.html", title=f"{system}: re-identification risk")
        print("\n".join(rows(system, found)), flush=True)


def anonymized_sets(folder: Path) -> tuple[Corpus, ...]:
    """NAME or NAME_SUFFIX directories of all sets."""
    found = []
    for name in SETS:
        paths = [path for path in sorted(folder.iterdir()) if path.name == name or path.name.startswith(f"{name}_")]
        if not paths:
            sys.exit(f"{folder}: no {name}")
        found.append(open_corpus(str(paths[0])))
    return tuple(found)


def rows(system: str, found: Assessment) -> list[str]:
    """Lines of a Markdown table: the smallest and the largest N."""
    lines = []
    for curve in found.curves:
        cells = [
            f"{100 * curve.value[at]:.1f}% [{100 * curve.low[at]:.1f}, {100 * curve.high[at]:.1f}] "
            f"(N = {curve.sizes[at]})"
            for at in (0, -1)
        ]
        name = "original" if curve.attacker == "original" else system
        attacker = "–" if curve.attacker == "original" else curve.attacker
        lines.append(f"| {name} | {attacker} | {curve.metric} | {curve.length} | {' | '.join(cells)} |")
    for one in found.inferences:
        name = "original" if one.attacker == "original" else system
        cell = f"{100 * one.value:.1f}% [{100 * one.low:.1f}, {100 * one.high:.1f}]"
        lines.append(f"| {name} | {one.attacker} | inference of {one.attribute} | {one.length} | {cell} | |")
    lines += [f"warning: {text}" for text in found.warnings]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("paper")
    sized = actions.add_parser("scale")
    sized.add_argument("--speakers", default="2000,22024")
    designed = actions.add_parser("design")
    measured = actions.add_parser("real")
    for one in (designed, measured):
        one.add_argument("speech", type=Path)
        one.add_argument("out", type=Path)
    measured.add_argument("systems", nargs="+")
    measured.add_argument("--cache", type=Path)
    measured.add_argument("--attackers", default="", help="only these, e.g. original,ignorant")
    for one in (sized, measured):
        one.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    if args.action == "scale":
        for text in args.speakers.split(","):
            scale(int(text), args.jobs)
    elif args.action == "paper":
        paper()
    elif args.action == "design":
        design(args.speech, args.out)
    else:
        only = [name for name in args.attackers.split(",") if name]
        real(args.speech, args.out, args.systems, args.cache, args.jobs, only)


if __name__ == "__main__":
    main()
