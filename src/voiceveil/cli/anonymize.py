"""Anonymize audio and video files, folders, Kaldi directories, manifests or named corpora.

The output has the layout of the input; files and folders of files keep their formats. An interrupted run is resumed by
the same command. Recordings that cannot be read are reported, the others are anonymized, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voiceveil.audio import AUDIO_SUFFIXES, is_writable
from voiceveil.cli.anonymize_options import CONVERSATION, REDACTION, add_conversation, add_redaction
from voiceveil.cli.options import (
    add_device,
    add_executor,
    add_jobs,
    add_json,
    add_key,
    add_out,
    add_overwrite,
    add_progress,
    add_system_parameters,
    chosen_jobs,
)
from voiceveil.cli.parser import UsageError
from voiceveil.cli.pipes import PIPE, piped
from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.terminal import print_lines
from voiceveil.corpus import Corpus
from voiceveil.corpus.folder import read_files
from voiceveil.corpus.readers import find_reader
from voiceveil.systems import Anonymizer, Summary, anonymize
from voiceveil.systems.contract import default_system, find_system
from voiceveil.systems.release import FIELDS, Release

if TYPE_CHECKING:
    from voiceveil.api.comparing import RecordingComparison

EXAMPLES = """\
examples:
  voiceveil anonymize interview.mp4                                 writes interview.anonymized.mp4
  voiceveil anonymize interview.m4a hidden.wav --check
  voiceveil anonymize *.m4a -o hidden/
  voiceveil anonymize - - < interview.m4a > hidden.m4a
  voiceveil anonymize interview.mp4 --speakers auto                 a voice of its own for each speaker
  voiceveil anonymize interview.mp4 --speakers 2 --hide speaker-2   the first to speak is copied
  voiceveil anonymize interview.mp4 --turns turns.csv --keep Anna   see docs/how-to/interview.md
  voiceveil anonymize call.wav --channels separate
  voiceveil anonymize interview.mp4 --redact                        names and numbers become a tone
  voiceveil anonymize interview.mp4 --redact words --words list.txt --transcript rest.srt
  voiceveil anonymize recordings/ hidden/ --jobs 4
  voiceveil anonymize recordings/ hidden/ --set privacy=1 --level speaker --key-file secret.key
  voiceveil anonymize recordings/ hidden/ --system b2 --set alpha=0.6,0.8
  voiceveil anonymize data/libri_dev_trials_f data --seed 1         writes data/libri_dev_trials_f_veil
  voiceveil anonymize data/libri_dev_trials_f data --system b2 --draws official --set edges=official
  voiceveil anonymize librispeech:/corpora/LibriSpeech/dev-clean out --system d1
  voiceveil anonymize recordings/ hidden/ --system b1b --weights exp/decoder --set gender=random
  voiceveil anonymize recordings/ hidden/ --publish release       see docs/guide/anonymize.md, "Before you publish"
  voiceveil anonymize list.jsonl /shared/hidden --executor ray          on a Ray cluster, see docs/how-to/cluster.md
"""
_ANONYMIZED = ".anonymized"
AFTER_INTERRUPTION = "; the same command resumes the run (at speaker level only with --seed or --key-file)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "%(prog)s IN [IN ...] -o OUT [options]\n       %(prog)s IN [OUT] [options]"
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="IN",
        help="audio or video files, folders, Kaldi directories, .csv/.jsonl manifests, NAME:PATH for a named corpus, "
        "or - for the standard input",
    )
    text = "output folder; for one file also a file name, whose suffix decides the format, or - for the standard output"
    add_out(parser, f"{text} (default for files: NAME.anonymized.SUFFIX beside each)", metavar="OUT")
    parser.add_argument(
        "--system",
        metavar="NAME",
        help="see `voiceveil systems`, or MODULE:CLASS (default: veil, or b2 if torch is not installed)",
    )
    add_system_parameters(parser)
    parser.add_argument("--weights", metavar="DIR", help="trained weights of the system: short for --set weights=DIR")
    parser.add_argument(
        "--level",
        choices=["utterance", "speaker"],
        default="utterance",
        help="draw a pseudo-speaker for each utterance, or for each speaker and role (default: utterance)",
    )
    add_jobs(parser)
    add_device(parser)
    add_executor(parser)
    add_key(parser, corpus="the name of IN without its folder")
    parser.add_argument(
        "--draws",
        choices=["keyed", "official"],
        default="keyed",
        help="official: the random sequences of the challenge's own scripts (default: keyed)",
    )
    _add_output(parser)
    parser.add_argument(
        "--check", action="store_true", help="compare the result with the original, as `voiceveil compare` does"
    )
    add_progress(parser)
    add_json(parser, "the summary")


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Declare format, names and release of the output."""
    audio = parser.add_argument_group("audio")
    usual = "default: that of the input; for corpora with tables"
    audio.add_argument("--rate", type=int, metavar="HZ", help=f"sampling rate of the output ({usual}, the system's)")
    formats = "wav, flac, mp3, m4a, mp4, mkv, ..."
    audio.add_argument("--format", metavar="NAME", help=f"file format of the output: {formats} ({usual}, wav)")
    audio.add_argument("--encoding", choices=["int16", "int24"], help=f"depth of PCM ({usual}, int16)")
    audio.add_argument(
        "--keep-timing",
        action=argparse.BooleanOptionalAction,
        help="change neither tempo nor rhythm (default: for videos and conversations)",
    )
    parser.add_argument(
        "--feature-cache",
        type=Path,
        metavar="FILE",
        help="keep features of the recordings for other systems (embeddings among them: biometric data!)",
    )
    parser.add_argument("--suffix", help="end of the name of an output Kaldi directory (default: _SYSTEM)")
    add_overwrite(parser, "start again where another run left its results, replace existing files (never the input)")
    add_conversation(parser)
    add_redaction(parser)
    release = parser.add_argument_group("release")
    release.add_argument(
        "--publish",
        type=Path,
        metavar="DIR",
        help="also write a release folder: neutral names in shuffled order, fixed times, no record of the run",
    )
    release.add_argument(
        "--publish-map",
        type=Path,
        metavar="FILE",
        help="private map from new names to original ids (default: DIR.private-map.csv beside DIR)",
    )
    release.add_argument(
        "--publish-fields",
        metavar="LIST",
        help=f"metadata in the release, of {','.join(FIELDS)}; '' for none (default: text; at speaker level also "
        "speaker, as a pseudonym)",
    )


def run(args: argparse.Namespace) -> int:
    """Anonymize every input; return 1 if an utterance failed."""
    inputs, out = _inputs_and_output(args)
    if args.check and PIPE in (str(out), *inputs):
        raise UsageError("--check needs files to compare", fix="give file names instead of -")
    system = _system(args)
    publish = _release(args)
    if out is None:
        return _run_beside(inputs, system, args)
    with piped(inputs, out, args.format) as (paths, output):
        sources = list(_sources(paths, output))
        if publish is not None and len(sources) > 1:
            raise InputError("--publish takes one input, or several audio files", fix="run the command once for each")
        failed = False
        with chosen_jobs(args) as jobs:
            for target_number, (source, target) in enumerate(sources, 1):
                summary = anonymize(source, target, system=system, jobs=jobs, publish=publish, **_options(args))
                last = target_number == len(sources)
                _print_summary(summary, system, args, to_stderr=str(out) == PIPE, source=source, last=last)
                failed = failed or bool(summary.failures)
    return int(failed)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of :func:`voiceveil.anonymize` that the arguments give."""
    names = ("level", "seed", "key_file", "key_namespace", "draws", "rate", "format", "encoding", "keep_timing",
             "suffix", "overwrite", "feature_cache", "device", "quiet", *CONVERSATION, *REDACTION)  # fmt: skip
    return {name: getattr(args, name) for name in names}


def _run_beside(inputs: Sequence[str], system: Anonymizer, args: argparse.Namespace) -> int:
    """Anonymize files into files beside them; one that fails does not stop the others."""
    if args.publish is not None:
        raise UsageError("--publish needs an output", fix="add -o OUT")
    if len(inputs) > 1:
        for name in ("text", "redactions"):
            if getattr(args, name) is not None:
                raise UsageError(f"--{name} names one file, but there are several recordings", fix="add -o FOLDER")
    failed = False
    for path in map(Path, inputs):
        if len(inputs) > 1 and path.stem.endswith(_ANONYMIZED):
            print_lines(f"voiceveil: passed over, as it is a result: {path}", file=sys.stderr)
            continue
        try:
            summary = anonymize(path, beside(path, args.format), system=system, **_options(args))
        except OutputError:
            raise
        except InputError as error:
            if len(inputs) == 1:
                raise
            print_lines(f"voiceveil: failed: {error}", file=sys.stderr)
            failed = True
        else:
            _print_summary(summary, system, args, source=str(path))
    return int(failed)


def beside(path: Path, format: str | None = None) -> Path:
    """Return the default output for a file: ``interview.anonymized.mp4`` for ``interview.mp4``."""
    suffix = f".{format}" if format else path.suffix if is_writable(path) else ".wav"
    return path.with_name(f"{path.stem}{_ANONYMIZED}{suffix}")


def _inputs_and_output(args: argparse.Namespace) -> tuple[list[str], Path | None]:
    """Return the inputs, and the output: --out, or the second of two paths, or None for files beside the inputs."""
    inputs: list[str] = list(args.inputs)
    if args.out is not None:
        return inputs, args.out
    if len(inputs) == 2:
        if not args.overwrite and all(Path(path).is_file() for path in inputs):
            fix = "to anonymize both, give -o FOLDER; to replace the second, --overwrite"
            raise InputError("this file exists, and the second of two paths is the output", where=inputs[1], fix=fix)
        return inputs[:1], Path(inputs[1])
    if inputs == [PIPE]:
        return inputs, Path(PIPE)
    if any(not is_recording(path) and (Path(path).exists() or ":" in path) for path in inputs):
        message = "no output is given" if len(inputs) == 1 else f"{len(inputs)} paths are given, but no output"
        raise UsageError(message, fix="add -o OUT")
    return inputs, None


def is_recording(path: str) -> bool:
    """Return whether a path is a file with the suffix of a recording."""
    return Path(path).is_file() and Path(path).suffix.lower() in AUDIO_SUFFIXES


def _sources(inputs: Sequence[str], out: Path) -> Iterator[tuple[str | Corpus, Path]]:
    """Yield what to anonymize and where to: several audio files together, anything else one after the other."""
    if len(inputs) == 1:
        yield inputs[0], out
        return
    if out.suffix.lower() in AUDIO_SUFFIXES and not out.is_dir():
        raise InputError("several inputs need an output folder, not a file", where=out, fix="give -o FOLDER")
    files = [Path(path) for path in inputs if is_recording(path)]
    if files:
        yield read_files(files), out
    for path in inputs:
        if Path(path) not in files:
            kind, _ = find_reader(path)
            yield path, out / Path(path).resolve().name if kind == "folder" else out


def _system(args: argparse.Namespace) -> Anonymizer:
    """Return the system that the arguments ask for."""
    settings = args.set if args.weights is None else [*args.set, f"weights={args.weights}"]
    if args.system is not None:
        return find_system(args.system, settings)
    system, warning = default_system(settings)
    if warning:
        print_lines(f"voiceveil: warning: {warning}", file=sys.stderr)
    return system


def _release(args: argparse.Namespace) -> Release | None:
    """Return the release that the arguments ask for."""
    if args.publish is None:
        if args.publish_map is not None or args.publish_fields is not None:
            raise InputError("--publish-map and --publish-fields describe a release", fix="give --publish DIR as well")
        return None
    fields = (
        None if args.publish_fields is None else tuple(filter(None, map(str.strip, args.publish_fields.split(","))))
    )
    return Release(args.publish, args.publish_map, fields)


def _print_summary(
    summary: Summary,
    system: Anonymizer,
    args: argparse.Namespace,
    *,
    source: str | Corpus,
    to_stderr: bool = False,
    last: bool = True,
) -> None:
    """Print the summary of a run, the comparison with the originals, and what to do before publishing.

    Of several runs the last one has the advice for all, unless a run has advice of its own.
    """
    seeded = args.seed is not None or args.draws == "official"
    advice = _advice(summary, system, key_file=args.key_file, seeded=seeded, asked=args.publish is not None)
    stream = sys.stderr if to_stderr else sys.stdout
    from voiceveil.api.expectations import expectation, warnings_for

    expected = [f"expect: {expectation(system)}", *(f"warning: {line}" for line in warnings_for(source, system))]
    check = _comparison(source, summary, args)
    summary = replace(summary, turns=None) if to_stderr else summary  # a pipe carries the recording alone
    if args.json:
        compared = {} if check is None else {"check": check.as_dict()}
        print(
            json.dumps({**asdict(summary), **compared, "expect": expected, "before_publishing": advice}, default=str),
            file=stream,
        )
    else:
        lines = [*str(summary).splitlines(), *(expected if last else expected[1:])]
        lines += [] if check is None else str(check).splitlines()
        lines += advice if last or summary.published or summary.left_over else []
        print_lines(*([] if to_stderr and args.quiet else lines), file=stream)


def _comparison(source: str | Corpus, summary: Summary, args: argparse.Namespace) -> RecordingComparison | None:
    """Return the comparison of a run's result with the originals; None without --check, or without a result."""
    if not args.check or not (summary.done or summary.already_done):
        return None
    from voiceveil.api.comparing import compare

    return compare(source, summary.output, jobs=args.jobs, progress=not (args.quiet or args.json))


def _advice(summary: Summary, system: Anonymizer, *, key_file: Path | None, seeded: bool, asked: bool) -> list[str]:
    """Return what to do before publishing, a line each; ``asked``: a release was asked for."""
    release = summary.published
    private = [f"  keep {key_file} secret: whoever has the key can repeat the draws"] if key_file else []
    if summary.conversations.copied:
        private.append("  listen to all of it: what was taken for the speech of somebody kept is there in clear")
    if seeded:
        private.append("  anybody can repeat these draws: leave out --seed and --draws official for publication")
    if release is None:
        if summary.output.is_dir():
            private.insert(0, f"  remove {summary.output / '.voiceveil'}: the record of the run, with ids and digests")
        if summary.left_over:
            private.append(f"  remove the {len(summary.left_over)} file(s) whose recordings are no longer in the input")
        none = ["nothing was published: no recording could be anonymized"] if asked else []
        return [
            *none,
            f"before you publish {summary.output}:",
            *private,
            "  recordings and speakers still have the names and the order of the input, and texts and labels are kept",
            "  --publish DIR writes a release folder without them, see docs/guide/anonymize.md",
        ]
    if "text" in release.fields:
        private.append("  read the texts: the words can identify the speaker (--publish-fields '' leaves them out)")
    if summary.keeps_length:
        private.append(
            f"  {system.name} keeps the length of each recording: whoever knows the original lengths can match them"
        )
    fields = f" and their {', '.join(release.fields)}" if release.fields else ""
    return [
        f"release: {release.folder}: {release.recordings} recording(s){fields}",
        f"private map: {release.map_file}: links new names to originals; keep it apart from the release or delete it",
        "before you publish the release:",
        *private,
        "  listen to it: the voice is hidden, not what is said",
    ]
