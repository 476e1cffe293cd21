"""The options of the actions of `voiceveil tdsv`."""

from __future__ import annotations

import argparse
from pathlib import Path

from voiceveil.cli.options import (
    add_cache,
    add_device,
    add_former_name,
    add_jobs,
    add_json,
    add_out,
    add_overwrite,
    add_progress,
    add_seed,
)
from voiceveil.cli.options import add_train as add_train_data
from voiceveil.cli.train_options import add_augmentation

__all__ = ["add_evaluate", "add_make", "add_score", "add_submit", "add_train"]


def add_make(make: argparse.ArgumentParser) -> None:
    """Add the options of `tdsv make`."""
    make.add_argument(
        "corpus", metavar="CORPUS", help="corpus with speaker and phrase labels, given as for `voiceveil anonymize`"
    )
    make.add_argument("out", type=Path, metavar="OUT", help="folder for the challenge")
    make.add_argument("--task", type=int, choices=(1, 2), required=True, help="task of the challenge")
    make.add_argument(
        "--join", metavar="N-M", help="build a passphrase of N to M phrases of the corpus, e.g. 4-6 digits"
    )
    make.add_argument(
        "--phrases", type=int, default=10, metavar="N", help="number of passphrases (default: %(default)s)"
    )
    make.add_argument(
        "--known",
        type=int,
        default=6,
        metavar="N",
        help="passphrases that also occur in the training of task 2 (default: 6)",
    )
    make.add_argument(
        "--tests", type=int, default=3, metavar="N", help="test utterances of each speaker and phrase (default: 3)"
    )
    _add_amounts(make)
    make.add_argument("--language", default="", metavar="NAME", help="language of the corpus, written into the keys")
    add_seed(make, "all draws")
    _add_running(make)


def _add_amounts(make: argparse.ArgumentParser) -> None:
    """Add the numbers of recordings and trials of `tdsv make`."""
    make.add_argument(
        "--repetitions",
        type=int,
        default=4,
        metavar="N",
        help="training utterances of each speaker and phrase (default: %(default)s)",
    )
    make.add_argument(
        "--free",
        type=int,
        default=4,
        metavar="N",
        help="free-text utterances of each training speaker (default: %(default)s)",
    )
    make.add_argument(
        "--most",
        type=int,
        default=200,
        metavar="N",
        help="largest number of trials of each type for a model (default: %(default)s)",
    )
    make.add_argument(
        "--impostor-wrong",
        type=int,
        default=0,
        metavar="N",
        help="impostor-wrong trials for each model (default: %(default)s)",
    )


def add_train(train: argparse.ArgumentParser) -> None:
    """Add the options of `tdsv train`."""
    train.add_argument("challenge", type=Path, metavar="DIR", help="folder of the challenge")
    train.add_argument("out", type=Path, metavar="SYSTEM", help="the file to write, e.g. system.npz")
    train.add_argument(
        "--encoder",
        default="campplus",
        metavar="NAME",
        help="speaker encoder: campplus (default); ecapa, the challenge's baseline, trained on the training files into "
        "SYSTEM-ecapa; or ecapa:FOLDER, trained by `voiceveil train asv` on more speech",
    )
    train.add_argument("--epochs", type=int, metavar="N", help="epochs of --encoder ecapa (default: 10)")
    train.add_argument(
        "--channels", type=int, metavar="N", help="channels of --encoder ecapa (default: the published 1024)"
    )
    add_augmentation(train)
    train.add_argument(
        "--backend", default="wccn", metavar="NAME", help="cosine, centered, wccn, lda, plda (default: wccn)"
    )
    add_train_data(train, "other corpora to train on as well; of deepmine:DIR its training files alone")
    train.add_argument(
        "--content", default="moonshine:3", metavar="NAME", help="content features (default: moonshine:3)"
    )
    add_overwrite(train)
    add_cache(train, "embeddings and content features")
    add_device(train)
    _add_running(train)


def add_score(score: argparse.ArgumentParser) -> None:
    """Add the options of `tdsv score`."""
    score.add_argument("system", type=Path, metavar="SYSTEM", help="file that `tdsv train` wrote")
    score.add_argument("challenge", type=Path, metavar="DIR", help="folder of the challenge")
    add_out(score, "the answer to write, e.g. answer.txt", metavar="FILE", required=True)
    add_overwrite(score)
    score.add_argument("--subset", choices=("dev", "eval"), default="eval", help="trials to score (default: eval)")
    score.add_argument("--no-free-text", action="store_true", help="task 2: enroll voices from the passphrase only")
    score.add_argument("--parts", type=Path, metavar="FILE", help="also write `<voice> <wording> <LLR>` of each trial")
    score.add_argument("--anonymize", metavar="SYSTEM", help="anonymize the test recordings first, e.g. b2, b1b")
    score.add_argument(
        "--anonymized-to", type=Path, metavar="DIR", help="folder for the anonymized recordings, kept for later runs"
    )
    add_seed(score, "the pseudo-speakers", default=None)
    add_cache(score, "embeddings and content features")
    add_device(score)
    _add_running(score)


def add_evaluate(evaluate: argparse.ArgumentParser) -> None:
    """Add the options of `tdsv evaluate`."""
    evaluate.add_argument("answers", nargs="+", metavar="[NAME=]ANSWER", help="one or more answers to the same trials")
    evaluate.add_argument("--trials", type=Path, required=True, metavar="FILE", help="list of the trials")
    evaluate.add_argument("--keys", type=Path, required=True, metavar="FILE", help="keys of the trials")
    evaluate.add_argument(
        "--models", type=Path, metavar="FILE", help="enrollment list: genders and phrases of the keys"
    )
    evaluate.add_argument("--report", type=Path, metavar="FILE", help="write a page, e.g. report.html")
    add_overwrite(evaluate, "replace the page if there is one")
    evaluate.add_argument("--title", default="", help="title of the page")
    evaluate.add_argument(
        "--resamples", type=int, default=1000, metavar="N", help="bootstrap resamples (default: 1000)"
    )
    add_json(evaluate, "the result, with rates as fractions,")


def add_submit(submit: argparse.ArgumentParser) -> None:
    """Add the options of `tdsv submit`."""
    submit.add_argument("answer", nargs="?", type=Path, metavar="ANSWER", help="the answer to pack")
    submit.add_argument("--trials", type=Path, required=True, metavar="FILE", help="the trials that it answers")
    add_out(submit, "the archive to write (default: submission.zip beside the answer)", metavar="ZIP")
    add_former_name(submit, "--to", "--out")
    add_overwrite(submit, "replace the ZIP if there is one")
    submit.add_argument("--check", type=Path, metavar="ZIP", help="check this one instead")


def _add_running(parser: argparse.ArgumentParser) -> None:
    add_jobs(parser)
    add_progress(parser)
