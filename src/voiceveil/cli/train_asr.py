"""Fine-tune a CTC recognizer on a corpus, e.g. on anonymized speech: what a listener who knows the system can achieve.

The same command resumes an interrupted training. The result is used like any other model: `ctc:OUT`.
"""

from __future__ import annotations

import argparse
import json

from voiceveil.cli.options import add_device, add_json, add_out, add_progress, add_seed
from voiceveil.core.terminal import print_lines
from voiceveil.corpus import open_corpus
from voiceveil.training.training_run import TrainingRun

HELP = "fine-tune a CTC recognizer on a corpus with transcripts"
EXAMPLES = """\
examples:
  voiceveil train asr --model models/wav2vec2-base-960h --data data/train-clean-360_b2 --out models/asr_b2
  voiceveil train asr --model facebook/wav2vec2-base-960h --online --data librispeech:/corpora/LibriSpeech/dev-clean \\
      --out models/asr --epochs 3 --dev data/libri_dev_trials_f
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--model", required=True, metavar="PATH", help="folder or hub id of the CTC model to start from"
    )
    parser.add_argument("--data", required=True, metavar="CORPUS", help="training speech with transcripts")
    add_out(parser, "folder for the trained model", required=True)
    parser.add_argument("--dev", metavar="CORPUS", help="corpus to measure the WER on at the end")
    parser.add_argument("--epochs", type=int, default=10, metavar="N", help="passes over the data (default: 10)")
    parser.add_argument(
        "--learning-rate", type=float, default=1e-4, metavar="X", help="highest learning rate (default: 1e-4)"
    )
    parser.add_argument(
        "--batch-seconds", type=float, default=60.0, metavar="S", help="seconds of audio in a step (default: 60)"
    )
    parser.add_argument("--train-front", action="store_true", help="also train the convolutional front end")
    add_seed(parser, "the training")
    add_device(parser)
    parser.add_argument(
        "--checkpoint-every", type=int, default=100, metavar="N", help="steps between checkpoints (default: 100)"
    )
    parser.add_argument("--online", action="store_true", help="allow that the model is downloaded from the hub")
    parser.add_argument("--overwrite", action="store_true", help="start again where another training left its results")
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Train, and print the loss and, with --dev, the WER."""
    from voiceveil.training.asr import CtcRecipe, train_and_measure, trainable_recognizer

    recipe = CtcRecipe(
        args.epochs, args.learning_rate, args.batch_seconds, not args.train_front, args.seed, args.checkpoint_every
    )
    result = train_and_measure(
        trainable_recognizer(args.model, online=args.online),
        open_corpus(args.data),
        args.out,
        recipe,
        TrainingRun(device=args.device, overwrite=args.overwrite, quiet=args.quiet),
        dev=open_corpus(args.dev) if args.dev else None,
    )
    if args.json:
        summary = {"folder": str(result.folder), "steps": len(result.losses), "loss": result.losses[-1]}
        summary |= {"left_out": list(result.left_out), "wer": None if result.wer is None else result.wer.as_dict()}
        print(json.dumps(summary))
        return 0
    if result.left_out:
        print_lines(
            f"{len(result.left_out)} utterance(s) left out, too short for their words: {result.left_out[0]} ..."
        )
    print_lines(f"{len(result.losses)} steps, loss {result.losses[0]:.3f} -> {result.losses[-1]:.3f}")
    if result.wer is not None:
        print_lines(f"WER on {args.dev}: {result.wer}")
    print_lines(f"recognizer: ctc:{result.folder}")
    return 0
