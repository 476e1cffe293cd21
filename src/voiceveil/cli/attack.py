"""Attack anonymized speech: how often can a listener with a machine tell who speaks?

DATA holds Kaldi directories in the challenges' layout: NAME_enrolls and NAME_trials_PART are the original speech, the
same names with the suffix of --anon the anonymized one. The table has an equal error rate (EER) with its 95 % interval
over speakers for each set, condition and attacker: 50 % is perfect privacy, 0 % is none. Conditions: oo = unprotected,
oa = original enrollment (ignorant, or inverting the anonymization), aa = the attacker anonymizes the enrollment too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voiceveil.cli.executors import add_executor_arguments, chosen_jobs
from voiceveil.cli.options import add_overwrite
from voiceveil.cli.sanity import print_checks
from voiceveil.core.checks import check_lines
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import refuse_overlap
from voiceveil.core.registry import did_you_mean
from voiceveil.core.terminal import escaped
from voiceveil.run.outputs import recorded, refuse_inputs

if TYPE_CHECKING:
    from voiceveil.attack import AttackResult, Health

HELP = "attack anonymized speech: EER of ignorant, lazy-informed and semi-informed attackers"
EXAMPLES = """\
attackers:
  campplus            a ready-made encoder of original speech: unprotected, ignorant, lazy-informed
  campplus-adapted    the same, adapted to anonymized speech of other speakers (--train): semi-informed
  trained:FOLDER      an encoder that `voiceveil train asv` has made, from nothing (ecapa) or from CAM++
                      (campplus-tuned); trained-adapted:FOLDER learns a back-end behind it (--train)
  moonshine-adapted   what a recogniser hears, with a back-end that is learned in the same way (--train)
  mcadams-inversion   estimates McAdams' coefficient of b2, b2-2022, b2-2020 and d1 from the audio, undoes it, and
                      compares with original enrollment by CAM++ (or mcadams-inversion:ENCODER)
  free                duration, pauses, pitch and file order: what needs no model

examples:
  voiceveil attack --data data --anon _b2 --jobs 2
  voiceveil attack --data data --anon _b2 --attacker campplus,campplus-adapted --train data/train-clean-360_b2
  voiceveil attack --data data --anon _b2 --scoring plda --train-original data/train-clean-360
  voiceveil attack --data data --anon _b2 --protocol data/protocol.toml
  voiceveil attack --data data --anon _b2 --sets libri_test --cache attack.sqlite --out scores --json
  voiceveil attack --data data                                          original speech alone
  voiceveil attack --data data --anon _b2 --cache /shared/attack.sqlite --executor ray
"""
AFTER_INTERRUPTION = "; the same command goes on where it stopped"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--data", type=Path, required=True, metavar="DATA", help="folder of Kaldi directories")
    parser.add_argument("--anon", metavar="SUFFIX", help="end of the anonymized directories' names, e.g. _b2")
    parser.add_argument("--anon-data", type=Path, metavar="DIR", help="where they are (default: in DATA)")
    parser.add_argument(
        "--attacker", default="campplus,free", metavar="NAME[,NAME]", help="see below (default: %(default)s)"
    )
    parser.add_argument(
        "--protocol",
        metavar="NAME|FILE.toml",
        help="take sets, conditions and scoring from a protocol, e.g. vpc2024 (default: all NAME_trials... in DATA)",
    )
    parser.add_argument("--sets", metavar="NAME[,NAME]", help="e.g. libri_dev or libri_dev_trials_f (default: all)")
    parser.add_argument(
        "--train", action="append", default=[], metavar="CORPUS", help="anonymized speech of other speakers; repeatable"
    )
    parser.add_argument(
        "--train-original", action="append", default=[], metavar="CORPUS", help="the same, not anonymized; repeatable"
    )
    parser.add_argument(
        "--scoring",
        choices=("cosine", "plda"),
        help="of embeddings (default: as in the protocol, else cosine); plda learns from --train-original, or from "
        "--train if the encoder did",
    )
    parser.add_argument(
        "--similar", action="store_true", help="--train is speech of a similar system, not of the one attacked"
    )
    parser.add_argument(
        "--cache", type=Path, metavar="FILE", help="keeps embeddings (biometric data!) for the next run"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="for score files and attack.json")
    add_overwrite(parser)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    add_executor_arguments(parser)
    parser.add_argument("--resamples", type=int, default=1000, metavar="N", help="of the bootstrap (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the bootstrap (%(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="print JSON; rates are fractions there")


def run(args: argparse.Namespace) -> int:
    """Attack, print, write."""
    from voiceveil import attack

    names = _listed(args.attacker)
    if not names:
        raise InputError("--attacker names nobody", fix="give e.g. --attacker campplus")
    with chosen_jobs(args) as jobs, _results_folder(args):
        result = attack.run(
            args.data,
            anon=args.anon,
            attackers=names,
            **_rules(args),
            train=args.train,
            train_original=args.train_original,
            similar=args.similar,
            anon_data=args.anon_data,
            cache=args.cache,
            out=args.out,
            jobs=jobs,
            resamples=args.resamples,
            seed=args.seed,
            quiet=args.quiet or args.json,
        )
        text = json.dumps(result.as_dict(), indent=1)
        if args.out is not None:
            _write(args.out / "attack.json", text)
    print(text if args.json else table(result))
    print_checks(result.checks)
    return 0


def _rules(args: argparse.Namespace) -> dict[str, Any]:
    """Return sets, conditions and scoring: as the protocol says, if there is one, and as the options say."""
    names = _listed(args.sets or "")
    if args.protocol is None:
        return {"sets": names or None, "scoring": args.scoring or "cosine"}
    from voiceveil.evaluation.protocol import load_protocol

    protocol = load_protocol(args.protocol)
    pairs = {
        trials.set: part.enroll
        for part in protocol.verification
        for trials in part.trials
        if (args.data / trials.set / "trials").is_file()
    }
    if not pairs:
        raise InputError(f"no trial set of {protocol.name} is here", where=args.data, fix="give another --protocol")
    unknown = [name for name in names if not any(_is_named(trial_set, name) for trial_set in pairs)]
    if unknown:
        raise InputError(
            f"--sets: {protocol.name} has no set {unknown[0]!r}", fix=did_you_mean(unknown[0], list(pairs))
        )
    if names:
        pairs = {key: enroll for key, enroll in pairs.items() if any(_is_named(key, name) for name in names)}
    return {"sets": pairs, "conditions": protocol.conditions, "scoring": args.scoring or protocol.scoring}


def _is_named(trial_set: str, name: str) -> bool:
    """Return whether ``name`` is that of the set, or a beginning of it (``libri_dev``)."""
    return trial_set == name or trial_set.startswith(f"{name}_")


@contextmanager
def _results_folder(args: argparse.Namespace) -> Iterator[None]:
    """Keep the data out of the folder for the results, and replace no file there but its own."""
    if args.out is None:
        yield
        return
    homes = {args.data, args.anon_data or args.data}
    sets = [table.parent for home in homes for table in home.glob("*/wav.scp")]
    refuse_overlap(args.out, sets)
    refuse_inputs(args.out, [*args.train, *args.train_original])
    targets = [args.out / "attack.json", *args.out.glob("*/*.scores")]
    with recorded(args.out, {"verb": "attack"}, lambda: targets, overwrite=args.overwrite):
        yield


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _write(path: Path, text: str) -> None:
    from voiceveil.core.atomic_files import atomic_path

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def table(result: AttackResult) -> str:
    """The rows, the health of each attacker, the result."""
    head = ("attacker", "knowledge", "", "scores", "set", "", "EER [95 %]")
    cells = [
        (r.attacker, r.knowledge, r.condition, r.backend, r.set, r.gender, str(r.eer).replace(" %", "", 1) + " %")
        for r in result.rows
    ]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *cells)
    ]
    lines += ["", "attackers' health"]
    lines += [line for one in result.health for line in _health(one)]
    best = result.strongest
    if best is not None:
        lines += ["", f"strongest attacker: {best[0]} ({best[1]}), EER {result.mean(*best)} over the sets"]
    if result.checks:
        lines += ["", *check_lines(result.checks)]
    return "\n".join(map(escaped, lines))


def _health(one: Health) -> list[str]:
    """One line of figures, and one a warning."""
    parts = []
    if one.original_eer is not None:
        parts.append(f"original speech {one.original_eer:.1%} EER")
    if one.choice:
        parts.append(f"back-end {one.choice}")
    if one.validation_eer is not None:
        than = "" if one.unadapted_eer is None else f" (unadapted {one.unadapted_eer:.1%})"
        parts.append(f"held-out speakers {one.validation_eer:.1%} EER{than}")
    if one.accuracy is not None:
        parts.append(f"training accuracy {one.accuracy:.1%}")
    if one.peak_reached is not None:
        parts.append(f"learning rate {'reached' if one.peak_reached else 'did not reach'} its peak")
    parts.append(f"shuffled control {one.control_eer:.1%}")
    return [f"  {one.attacker}: {'; '.join(parts)}", *(f"    warning: {text}" for text in one.warnings)]
