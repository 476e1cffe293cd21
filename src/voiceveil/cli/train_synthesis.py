"""Train a network of resynthesis on one or more corpora of original speech.

The features (content, F0, speaker embedding) are extracted once and kept in --features. The same command resumes
an interrupted training. The output folder then holds model.safetensors and record.json.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voiceveil.cli.options import (
    add_device,
    add_jobs,
    add_json,
    add_out,
    add_progress,
    add_seed,
)
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines
from voiceveil.corpus import Utterance, open_corpus
from voiceveil.training.synthesis_modules import Dimensions, Module, module

if TYPE_CHECKING:
    from voiceveil.run.cache import Cache
    from voiceveil.run.extract import Evaluator
    from voiceveil.training.recognition_data import RecognitionData

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
examples:
  voiceveil train source-filter --data data/train-clean-100 --out exp/decoder --jobs 2
  voiceveil train source-filter --data librispeech:/corpora/train-clean-100 --steps 20000 --out exp/decoder
  voiceveil train source-filter --data data/train-clean-100 --start exp/decoder --listening 1 --peak 5e-4 \\
      --steps 1500 --out exp/decoder2
  voiceveil train intonation --data data/train-clean-100 --out exp/decoder2/intonation
  voiceveil train tdnnf --data data/train-clean-100 data/train-other-500 --size paper --device cuda --out exp/tdnnf
  voiceveil train ctc-attention --data data/train-clean-100 --heard moonshine:2 --teacher moonshine --out exp/m1
  voiceveil train nsf-hifigan --data data/libritts-train-clean-100 --size paper --device cuda --out exp/b1b
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="CORPUS",
        help="corpora of speech, given as for `voiceveil anonymize`",
    )
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
        "--listening",
        type=float,
        default=0.0,
        metavar="W",
        help="source-filter, veil: weight of the content loss by Moonshine (default: 0)",
    )
    parser.add_argument(
        "--exchanged", action="store_true", help="compute that loss on crops converted to other voices of the batch"
    )
    parser.add_argument(
        "--likeness",
        type=float,
        default=0.0,
        metavar="W",
        help="with --exchanged: weight of the speaker loss by CAM++ (default: 0)",
    )
    parser.add_argument(
        "--heard",
        metavar="NAME",
        help="ctc-attention: content features as input, e.g. moonshine:2 (default: none, the input is MFCCs)",
    )
    parser.add_argument(
        "--teacher",
        metavar="NAME",
        help="ctc-attention: content features to imitate, e.g. moonshine (default: none)",
    )
    parser.add_argument(
        "--imitation", type=float, default=4.0, metavar="W", help="weight of the imitation loss (default: 4)"
    )
    parser.add_argument(
        "--masking",
        type=float,
        metavar="W",
        help="ctc-attention-masked: weight of the adversarial speaker loss (default: 1)",
    )
    parser.add_argument(
        "--crop", type=float, metavar="S", help="seconds of a training example (default: that of the network)"
    )
    parser.add_argument(
        "--peak", type=float, metavar="RATE", help="highest learning rate (default: that of the network)"
    )
    parser.add_argument("--steps", type=int, metavar="N", help="default: that of the network")
    parser.add_argument("--batch-size", type=int, metavar="N", help="default: that of the network")
    add_seed(parser, "the training")
    add_device(parser)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of the training (default: 1)")
    add_jobs(parser)
    parser.add_argument(
        "--features",
        type=Path,
        metavar="FILE",
        help="file that keeps the features for later runs (default: features.sqlite in DIR)",
    )
    parser.add_argument(
        "--checkpoint-every", type=float, default=120.0, metavar="S", help="seconds between checkpoints (default: 120)"
    )
    parser.add_argument("--overwrite", action="store_true", help="start again where another training left its results")
    add_progress(parser)
    add_json(parser, "the record of the training")


def run(args: argparse.Namespace) -> int:
    """Train, and tell what came of it."""
    from voiceveil.models.feature_extractors import feature_extractors
    from voiceveil.run.cache import Cache
    from voiceveil.training.ctc_attention_task import CtcAttentionTask
    from voiceveil.training.source_filter_task import SourceFilterTask
    from voiceveil.training.synthesis import train
    from voiceveil.training.synthesis_data import SynthesisData

    chosen = module(args.kind)
    if (args.heard or args.teacher) and not args.kind.startswith("ctc-attention"):
        raise InputError(f"{args.kind} cannot stand on another network", fix="leave --heard and --teacher out")
    plan = chosen.plan(args.size)
    plan = replace(
        plan,
        steps=args.steps or plan.steps,
        batch_size=args.batch_size or plan.batch_size,
        peak=args.peak or plan.peak,
        seed=args.seed,
    )
    corpora = [open_corpus(spec) for spec in args.data]
    args.out.mkdir(parents=True, exist_ok=True)
    utterances = [u for corpus in corpora for u in corpus]
    cache = Cache(args.features or args.out / "features.sqlite")
    data: Any
    if chosen.transcripts:
        data, dimensions, fingerprints = _spoken(args, chosen, utterances, cache)
    else:
        pieces = feature_extractors(content=args.content, pitch=args.pitch, speaker=args.speaker, speeds=chosen.speeds)
        frames = round(100 * args.crop) if args.crop else chosen.frames
        data = SynthesisData(utterances, pieces, cache, frames=frames, seed=args.seed, jobs=args.jobs, quiet=args.quiet)
        dimensions = Dimensions(pieces.content.dimension, data.speaker_dimension)
        fingerprints = pieces.fingerprints()
    task = chosen.task(dimensions, args.size, args.seed, args.device)
    settings: dict[str, Any] = {"module": args.kind, "parts": fingerprints, "data": data.description()}
    if args.crop:
        settings["crop"] = args.crop
    if isinstance(task, CtcAttentionTask) and args.teacher:
        task.imitation = settings["imitation"] = args.imitation
    if isinstance(task, CtcAttentionTask) and task.masking and args.masking:
        task.masking = settings["masking"] = args.masking
    if args.listening:
        if not isinstance(task, SourceFilterTask):
            raise InputError(f"{args.kind} cannot learn by listening", fix="leave --listening out")
        task.listening = settings["listening"] = args.listening
        task.exchanged = settings["exchanged"] = args.exchanged
        if args.likeness:
            if not args.exchanged or args.speaker != "campplus":
                raise InputError("--likeness is of exchanged voices of CAM++", fix="add --exchanged, drop --speaker")
            task.likeness = settings["likeness"] = args.likeness
    record = train(
        task,
        data,
        plan,
        args.out,
        settings=settings,
        start=args.start,
        threads=args.threads,
        checkpoint_every=args.checkpoint_every,
        overwrite=args.overwrite,
        quiet=args.quiet,
    )
    if args.json:
        print(json.dumps(record))
    else:
        print_lines(
            f"{args.kind}, {record['parameters'] / 1e6:.2f} million parameters, {plan.steps} steps in "
            f"{record['training_seconds'] / 60:.1f} min, validation loss {record['validation']:.4f}",
            f"weights: {args.out / 'model.safetensors'}",
        )
    return 0


def _spoken(
    args: argparse.Namespace, chosen: Module, utterances: list[Utterance], cache: Cache
) -> tuple[RecognitionData, Dimensions, dict[str, str]]:
    """What a recognizer learns from, its dimensions, and the fingerprints of the parts."""
    from voiceveil.models.content.features import content_features
    from voiceveil.models.speaker.encoders import encoder
    from voiceveil.training.recognition_data import ALPHABET, RecognitionData

    voice = encoder(args.speaker) if chosen.voices else None
    heard, teacher = (content_features(name) if name else None for name in (args.heard, args.teacher))
    data = RecognitionData(
        utterances, voice, cache, seed=args.seed, heard=heard, teacher=teacher, jobs=args.jobs, quiet=args.quiet
    )
    outputs = len(ALPHABET) + 1
    taught = teacher.dimension if teacher else 0
    dimensions = Dimensions(outputs, data.speaker_dimension, heard.dimension if heard else 0, taught)
    named: dict[str, Evaluator[Any] | None] = {"speaker": voice, "heard": heard, "teacher": teacher}
    fingerprints = {name: part.fingerprint() for name, part in named.items() if part}
    return data, dimensions, {**fingerprints, **({"hears": args.heard} if args.heard else {})}
