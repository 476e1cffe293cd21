"""Train a network of resynthesis on one or more corpora of original speech.

The features (content, F0, speaker embedding) are extracted once and kept in --features. The same command resumes
an interrupted training. The output folder then holds model.safetensors and record.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from voiceveil.cli.options import add_former_name, add_out
from voiceveil.cli.train_options import add_data, add_features, add_run, opened_utterances, training_run
from voiceveil.core.terminal import clock, print_lines
from voiceveil.training.network_settings import NetworkSettings, PerceptualLoss, TeacherSettings

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
examples:
  voiceveil train source-filter --data data/train-clean-100 --out exp/decoder --jobs 2
  voiceveil train source-filter --data librispeech:/corpora/train-clean-100 --steps 20000 --out exp/decoder
  voiceveil train source-filter --data data/train-clean-100 --start exp/decoder --content-loss 1 \\
      --learning-rate 5e-4 --steps 1500 --out exp/decoder2
  voiceveil train intonation --data data/train-clean-100 --out exp/decoder2/intonation
  voiceveil train tdnnf --data data/train-clean-100 data/train-other-500 --size paper --device cuda --out exp/tdnnf
  voiceveil train ctc-attention --data data/train-clean-100 --input-features moonshine:2 --teacher moonshine \\
      --out exp/m1
  voiceveil train nsf-hifigan --data data/libritts-train-clean-100 --size paper --device cuda --out exp/b1b
"""
#: Former name -> present name of options that were renamed in 0.1.
_FORMER_NAMES = {
    "--listening": "--content-loss",
    "--exchanged": "--swap-voices",
    "--likeness": "--speaker-loss",
    "--heard": "--input-features",
    "--imitation": "--teacher-loss",
    "--masking": "--adversary-loss",
    "--peak": "--learning-rate",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_data(parser)
    add_out(parser, "folder for model.safetensors and record.json", required=True)
    parser.add_argument(
        "--size", choices=["small", "paper"], default="small", help="size of the network (default: small)"
    )
    parser.add_argument("--content", default="moonshine", metavar="NAME", help="content features (default: moonshine)")
    parser.add_argument("--pitch", default="swift", metavar="NAME", help="pitch tracker (default: swift)")
    parser.add_argument("--speaker", default="campplus", metavar="NAME", help="speaker encoder (default: campplus)")
    parser.add_argument(
        "--start",
        type=Path,
        metavar="DIR",
        help="start from the weights of an earlier training (default: random weights)",
    )
    parser.add_argument(
        "--crop", type=float, metavar="S", help="seconds of a training example (default: that of the network)"
    )
    parser.add_argument(
        "--learning-rate", type=float, metavar="X", help="highest learning rate (default: that of the network)"
    )
    parser.add_argument("--steps", type=int, metavar="N", help="updates of the weights (default: that of the network)")
    parser.add_argument(
        "--batch-size", type=int, metavar="N", help="examples in an update (default: that of the network)"
    )
    add_run(parser)
    add_features(parser)
    _add_losses(parser)
    for former, present in _FORMER_NAMES.items():
        add_former_name(parser, former, present)


def _add_losses(parser: argparse.ArgumentParser) -> None:
    """Declare the losses that other networks compute, each for some networks only."""
    decoder = parser.add_argument_group("source-filter, veil")
    decoder.add_argument(
        "--content-loss",
        type=float,
        default=0.0,
        metavar="W",
        help="weight of the distance between Moonshine's features of synthesized and recorded speech (default: 0)",
    )
    decoder.add_argument(
        "--swap-voices",
        action="store_true",
        help="compute that loss on crops that are synthesized with the voice of another crop of the batch",
    )
    decoder.add_argument(
        "--speaker-loss",
        type=float,
        default=0.0,
        metavar="W",
        help="with --swap-voices: weight of the cosine distance between CAM++ embeddings of synthesized speech and of "
        "the target voice (default: 0)",
    )
    recognizer = parser.add_argument_group("ctc-attention, ctc-attention-masked")
    recognizer.add_argument(
        "--input-features",
        metavar="NAME",
        help="content features as input, e.g. moonshine:2 (default: none, the input is MFCCs)",
    )
    recognizer.add_argument(
        "--teacher", metavar="NAME", help="content features to imitate, e.g. moonshine (default: none)"
    )
    recognizer.add_argument(
        "--teacher-loss", type=float, default=4.0, metavar="W", help="weight of the imitation (default: 4)"
    )
    recognizer.add_argument(
        "--adversary-loss",
        type=float,
        metavar="W",
        help="ctc-attention-masked: weight of hiding the speaker from the adversary (default: 1)",
    )


def run(args: argparse.Namespace) -> int:
    """Train, and print the size, duration and loss."""
    from voiceveil.training.network_training import train_network

    settings = NetworkSettings(
        network=args.kind,
        size=args.size,
        content=args.content,
        pitch=args.pitch,
        speaker=args.speaker,
        steps=args.steps,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        crop=args.crop,
        seed=args.seed,
        perceptual=PerceptualLoss(args.content_loss, args.swap_voices, args.speaker_loss),
        recognizer=TeacherSettings(args.input_features, args.teacher, args.teacher_loss, args.adversary_loss),
    )
    record = train_network(opened_utterances(args), args.out, settings, training_run(args), start=args.start)
    if args.json:
        print(json.dumps(record))
    else:
        print_lines(
            f"{args.kind}, {record['parameters'] / 1e6:.2f} million parameters, "
            f"{record['settings']['plan']['steps']} steps in {clock(record['training_seconds'])} (h:mm:ss), "
            f"validation loss {record['validation']:.4f}",
            f"weights: {args.out / 'model.safetensors'}",
        )
    return 0
