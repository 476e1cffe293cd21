"""Train a speaker encoder on the speakers of one or more corpora.

For a semi-informed attacker the corpus is a training set that was anonymized with the system under attack: say so with
--trained-on anonymized. The same command resumes an interrupted training. The output folder then holds
model.safetensors and record.json; use it as `trained:FOLDER` wherever a speaker encoder is asked for. The official
recipe of ecapa writes the folder of the 2024 challenge instead: `speechbrain:FOLDER`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from voiceveil.cli.options import add_out
from voiceveil.cli.train_options import add_augmentation, add_data, add_run, augmentation, training_run
from voiceveil.core.terminal import clock, print_lines
from voiceveil.corpus.training_part import open_training_corpus
from voiceveil.training.asv import AsvSettings, kind_of_speech, train_asv
from voiceveil.training.asv_recipes import RECIPES

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "train a speaker encoder: ECAPA-TDNN, x-vector, ResNet34; or fine-tune CAM++"
EXAMPLES = """\
examples:
  voiceveil train asv --model ecapa --data data/train-clean-360 --out exp/asv_orig
  voiceveil train asv --model ecapa --data data/train-clean-360_b2 --trained-on anonymized --out exp/asv_anon_b2
  voiceveil train asv --model ecapa --recipe official --data data/train-clean-360 --out exp/asv_official --device cuda
  voiceveil train asv --model campplus-tuned --data data/train-clean-360_b2 --trained-on anonymized --out exp/tuned_b2
  voiceveil train asv --model xvector --data librispeech:/corpora/train-clean-100 more/speech --out exp/xvector
  voiceveil train asv --model xvector --data data/train --augment all --noise musan --rirs RIRS_NOISES --out exp/xvector
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    models = sorted({model for model, _ in RECIPES})
    add_data(parser)
    add_out(parser, "folder for model.safetensors and record.json", required=True)
    parser.add_argument("--model", choices=models, default="ecapa", help="architecture (default: ecapa)")
    parser.add_argument(
        "--recipe",
        choices=["fixed", "official"],
        default="fixed",
        help="official: as the challenge trains it, with a learning rate that never peaks; of ecapa it writes the "
        "folder of the challenge, for speechbrain:FOLDER (default: fixed)",
    )
    parser.add_argument(
        "--trained-on",
        choices=["original", "anonymized", "similar"],
        help="what the data are: original speech, that of the system to attack, or of one like it (default: original; "
        "must be said of data that `voiceveil anonymize` wrote)",
    )
    parser.add_argument("--epochs", type=int, metavar="N", help="passes over the speech (default: the recipe's)")
    parser.add_argument("--batch-size", type=int, metavar="N", help="chunks in a batch (default: the recipe's)")
    parser.add_argument(
        "--seconds-per-chunk", type=float, metavar="S", help="length of a chunk (default: the recipe's)"
    )
    parser.add_argument("--channels", type=int, metavar="N", help="width of the network (default: the published one)")
    parser.add_argument(
        "--validation-speakers", type=int, metavar="N", help="speakers held out to measure the EER (default: a tenth)"
    )
    add_augmentation(parser)
    add_run(parser)
    parser.add_argument(
        "--features",
        type=Path,
        metavar="DIR",
        help="folder that keeps the features for later runs (default: they are removed at the end)",
    )


def run(args: argparse.Namespace) -> int:
    """Train, and print the size, the data, the accuracy and the EER."""
    corpora = [open_training_corpus(spec) for spec in args.data]
    settings = AsvSettings(
        model=args.model,
        recipe=args.recipe,
        epochs=args.epochs,
        batch_size=args.batch_size,
        seconds_per_chunk=args.seconds_per_chunk,
        channels=args.channels,
        validation_speakers=args.validation_speakers,
        trained_on=args.trained_on or kind_of_speech(corpora),
        augmentation=augmentation(args, args.seed),
        seed=args.seed,
    )
    record = train_asv(corpora, args.out, settings, training_run(args))
    print_lines(*([json.dumps(record)] if args.json else _lines(record, args.out)))
    return 0


def _lines(record: dict[str, Any], out: Path) -> list[str]:
    """Return the lines that summarize a record."""
    settings = record["settings"]
    lines = [
        f"{settings['model']}, {record['parameters'] / 1e6:.2f} million parameters, recipe "
        f"{settings['recipe']['name']}, {record['steps']} steps",
        f"trained on {record['speakers']} speakers, {record['utterances']} utterances, "
        f"{clock(3600 * record['hours'])} (h:mm:ss) of {record['data']} speech",
    ]
    if "augmentation" in settings:
        lines[-1] += f", with copies: {', '.join(settings['augmentation']['kinds'])}"
    official = record.get("encoder") == "speechbrain"
    if official and record["accuracy"] is not None:
        lines.append(
            f"epoch {record['best_epoch']}, the last: {record['accuracy']:.1%} of the development chunks are recognized"
        )
    elif not official:
        lines.append(
            f"epoch {record['best_epoch']} is kept: {record['accuracy']:.1%} of the training chunks are recognized"
        )
    if official:
        lines.append("validation EER unknown: the official recipe trains on all speakers")
    elif record["validation_eer"] is None:
        lines.append("validation EER unknown: too few speakers to hold some out")
    else:
        lines.append(
            f"EER {record['validation_eer']:.1%} on {record['validation_utterances']} utterances of "
            f"{record['validation_speakers']} speakers that were not trained on"
        )
    if not record["peak_reached"]:
        lines.append(
            f"WARNING: the learning rate got to {record['highest_learning_rate']:.3g} and never came down from a peak: "
            "a weak attacker overstates privacy"
        )
    return [*lines, f"encoder: {record.get('encoder', 'trained')}:{out}"]
