"""Attack anonymized speech: measure how well an attacker recognizes the speakers.

DATA holds Kaldi directories in the challenges' layout: NAME_enrolls and NAME_trials_PART are the original speech, the
same names with the suffix of --anon the anonymized one. The table has an equal error rate (EER) with its 95% interval
over speakers for each set, condition and attacker: 50% is perfect privacy, 0% is none. Beside it the EER of the worst
speaker, the share of speakers below 20%, and that of utterances whose speaker is identified among those enrolled.
Conditions: oo = unprotected, oa = original enrollment (ignorant, or inverting the anonymization), aa = the attacker
anonymizes the enrollment too.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from voiceveil.cli.options import (
    add_attackers,
    add_cache,
    add_device,
    add_executor,
    add_former_name,
    add_jobs,
    add_json,
    add_out,
    add_overwrite,
    add_progress,
    add_seed,
    add_train,
    add_trial_options,
    chosen_jobs,
)
from voiceveil.cli.sanity import print_checks

if TYPE_CHECKING:
    from voiceveil.evaluation.attack_rules import AttackRules

HELP = "attack anonymized speech: EER of ignorant, lazy-informed and semi-informed attackers"
EXAMPLES = """\
attackers:
  campplus            a ready-made encoder of original speech: unprotected, ignorant, lazy-informed
  campplus-adapted    the same, adapted to anonymized speech of other speakers (--train): semi-informed
  trained:FOLDER      an encoder of `voiceveil train asv`, trained from scratch (ecapa) or from CAM++
                      (campplus-tuned); trained-adapted:FOLDER learns a back-end for it (--train)
  speechbrain:FOLDER  the 2024 challenge's own encoder, exp/asv_orig or exp/asv_anon<suffix> as its scripts left them
  kaldi:FOLDER        x-vectors and PLDA of Kaldi as the scripts of 2020 and 2022 left them, trained on original
                      speech; kaldi-anonymized:FOLDER: trained on anonymized speech
  moonshine-adapted   statistics of a layer of a speech recognizer, with a back-end learned in the same way (--train);
                      moonshine-adapted:LAYER (1 to 6) or FILE@LAYER (an ONNX file of Moonshine), moonshine-layers: all
  campplus-trunk-adapted   statistics before the last layer of CAM++
  codes               how often each of 256 learned codes of the recognizer's features occurs (--train)
  words-adapted       the words alone: transcripts by a recognizer (words-adapted:RECOGNIZER)
  concat-adapted:A+B  embeddings of several encoders, one after the other
  fusion              the others together: scores weighted by a logistic regression on training speakers (--train)
  mcadams-inversion   estimates McAdams' coefficient of b2, b2-2022, b2-2020 and d1 from the audio, undoes it, and
                      compares with original enrollment by CAM++ (or mcadams-inversion:ENCODER)
  strongest           all of these that learn and can run here, and their fusion
  free                duration, pauses, pitch and file order, without a model
  other names         attackers and encoders of installed packages (CONTRIBUTING.md)

examples:
  voiceveil attack --data data --anon _b2 --jobs 2
  voiceveil attack --data data --anon _b2 --attackers campplus,campplus-adapted --train data/train-clean-360_b2
  voiceveil attack --data data --anon _b2 --attackers campplus-adapted,moonshine-layers,fusion --train data/train_b2
  voiceveil attack --data data --anon _b2 --attackers strongest --train data/train_b2 \\
      --trial-utterances 1,3,5 --trials mixed
  voiceveil attack --data data --anon _b2 --attackers strongest --speakers even --train data/libri_dev_*_b2
  voiceveil attack --data data --anon _b2 --scoring plda --train-original data/train-clean-360
  voiceveil attack --data data --anon _b2 --protocol data/protocol.toml
  voiceveil attack --data data --anon _b2 --sets libri_test --cache attack.sqlite --out scores --json
  voiceveil attack --data data                                          original speech alone
  voiceveil attack --data data --anon _b2 --cache /shared/attack.sqlite --executor ray
"""
AFTER_INTERRUPTION = "; the same command resumes the run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--data", type=Path, required=True, metavar="DATA", help="folder of Kaldi directories")
    parser.add_argument("--anon", metavar="SUFFIX", help="end of the anonymized directories' names, e.g. _b2")
    parser.add_argument(
        "--anon-data", type=Path, metavar="DIR", help="folder of the anonymized directories (default: DATA)"
    )
    add_attackers(parser, default="campplus,free", help="see below")
    add_former_name(parser, "--attacker", "--attackers")
    parser.add_argument(
        "--protocol",
        metavar="NAME|FILE.toml",
        help="take sets, conditions and scoring from a protocol, e.g. vpc2024 (default: all NAME_trials... in DATA)",
    )
    parser.add_argument(
        "--sets", metavar="NAME[,NAME]", help="sets to attack, e.g. libri_dev or libri_dev_trials_f (default: all)"
    )
    add_train(parser, "anonymized speech of other speakers, which attackers learn from")
    add_train(parser, "original speech of other speakers, for --scoring plda", name="--train-original")
    parser.add_argument(
        "--scoring",
        choices=("cosine", "plda"),
        help="of embeddings (default: as in the protocol, else cosine); plda learns from --train-original, or from "
        "--train if the encoder did",
    )
    parser.add_argument(
        "--similar", action="store_true", help="--train is speech of a similar system, not of the one attacked"
    )
    _add_trials(parser)
    add_cache(parser)
    add_out(parser, "folder for score files and attack.json")
    add_overwrite(parser)
    add_jobs(parser)
    add_device(parser)
    add_executor(parser)
    parser.add_argument("--resamples", type=int, default=1000, metavar="N", help="bootstrap resamples (default: 1000)")
    add_seed(parser, "the bootstrap")
    add_progress(parser)
    add_json(parser, "the result, with rates as fractions,")


def _add_trials(parser: argparse.ArgumentParser) -> None:
    """Declare what attackers may use besides the trial lists."""
    parser.add_argument(
        "--from-enrollment",
        action="store_true",
        help="adapted back-ends also learn from the enrollment utterances of the attacked speakers",
    )
    add_trial_options(parser)
    parser.add_argument(
        "--speakers",
        choices=("odd", "even"),
        help="attack only speakers with odd, or even, ids: choose on one half, report on the other; attackers may "
        "learn from the others, who are taken from --train (default: all)",
    )


def run(args: argparse.Namespace) -> int:
    """Attack, and print the table of EERs."""
    from voiceveil.attack import AttackOptions, attack

    rules = _rules(args)
    with chosen_jobs(args) as jobs:
        result = attack(
            args.data,
            anon=args.anon,
            attackers=_listed(args.attackers),
            sets=rules.sets,
            train=args.train,
            out=args.out,
            jobs=jobs,
            device=args.device,
            options=AttackOptions(
                anon_data=args.anon_data,
                conditions=rules.conditions,
                scoring=rules.scoring,
                train_original=args.train_original,
                similar=args.similar,
                from_enrollment=args.from_enrollment,
                trial_utterances=args.trial_utterances,
                mixed=args.trials == "mixed",
                speakers=args.speakers,
                resamples=args.resamples,
                seed=args.seed,
                cache=args.cache,
                overwrite=args.overwrite,
                progress=not (args.quiet or args.json),
            ),
        )
    print(result.to_json() if args.json else result)
    print_checks(result.checks)
    return 0


def _rules(args: argparse.Namespace) -> AttackRules:
    """Return sets, conditions and scoring: those of the protocol, if there is one, and of the options."""
    from voiceveil.evaluation.attack_rules import AttackRules, attack_rules
    from voiceveil.evaluation.protocol import load_protocol

    names = _listed(args.sets or "")
    if args.protocol is None:
        return AttackRules(names or None, scoring=args.scoring or "cosine")
    return attack_rules(load_protocol(args.protocol), args.data, names, args.scoring)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
