"""Layout of the output: the same structure as the input, with the audio replaced.

a.m4a                        OUT (a file if it has the suffix of an audio file, else OUT/a.m4a)
folder/spk/a.flac            OUT/spk/a.flac (or as --format says)
data/libri_dev_enrolls       OUT/libri_dev_enrolls_b2/{wav.scp, utt2spk, ..., wav/*.wav}    (a Kaldi directory)
corpus:path                  a Kaldi directory OUT/<corpus><suffix>
list.csv, list.jsonl         OUT/list.csv with the audio in OUT/audio
recordings.jsonl.gz          OUT/recordings.jsonl.gz and OUT/supervisions.jsonl.gz (Lhotse), audio in OUT/audio
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath

from voiceveil.audio import AUDIO_SUFFIXES, is_writable
from voiceveil.core.atomic_files import PART_PREFIX, RECORDS
from voiceveil.core.diskdict import DiskDict
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import folder_of, refuse_no_folder, refuse_overlap, refuse_same_files
from voiceveil.corpus import Corpus, CorpusLike, Trials, Utterance, write_kaldi, write_manifest
from voiceveil.corpus.kaldi import kaldi_files
from voiceveil.corpus.lhotse import lhotse_files, write_lhotse
from voiceveil.corpus.manifest import manifest_files
from voiceveil.corpus.model import UtteranceSource
from voiceveil.run.outputs import ledger_of

__all__ = ["Layout", "plan_layout"]

_MANIFESTS = {"manifest", "lhotse"}


@dataclass(frozen=True)
class Layout:
    """Files of an output.

    Parameters
    ----------
    folder
        Folder of the output.
    target
        Function: utterance -> audio file.
    write_metadata
        Function that writes the metadata of the utterances that :meth:`outputs` returns.
    metadata
        Files that ``write_metadata`` writes, or removes if they would be empty.
    folders
        All folders that audio is written to.
    """

    folder: Path
    target: Callable[[Utterance], Path]
    write_metadata: Callable[[UtteranceSource], None]
    metadata: tuple[Path, ...] = ()
    folders: frozenset[Path] = frozenset()

    def outputs(
        self,
        corpus: CorpusLike,
        seconds: Callable[[str], float],
        text: Callable[[Utterance], str | None] = lambda utterance: utterance.text,
    ) -> UtteranceSource:
        """Return the utterances with the paths of the output.

        Parameters
        ----------
        corpus
            Utterances of the input.
        seconds
            Function: id -> length of the output file. If the input states a length, the output states its own, since a
            system may hide the original one.
        text
            Function: utterance -> text in the output.
        """
        return _Outputs(corpus, self.target, seconds, text)

    @property
    def ledger(self) -> Path:
        """Return the file that records finished utterances and written files."""
        return ledger_of(self.folder)

    def targets(self, corpus: CorpusLike) -> Iterator[Path]:
        """Yield all files that a run on the corpus may write: audio, then metadata."""
        return chain(map(self.target, corpus), self.metadata)


def plan_layout(
    corpus: CorpusLike,
    out: Path,
    *,
    suffix: str,
    extension: str | None,
    manifest_name: str | None = None,
    key_file: Path | None = None,
) -> Layout:
    """Return the layout of the output of a run.

    Parameters
    ----------
    corpus
        The input.
    out
        Output folder; for a single recording also a file.
    suffix
        End of the name of an output Kaldi directory.
    extension
        Suffix of the audio files with its dot (None: the suffixes of the input).
    manifest_name
        Name of the manifest, if the input is one.
    key_file
        Secret key file of the run.

    Raises
    ------
    InputError
        If the output would replace the input or the key file, or two utterances would become one file.
    """
    if "/" in suffix or "\0" in suffix:
        raise InputError(f"the suffix {suffix!r} has characters that a file name cannot have")
    if corpus.kind == "file":
        layout = _file_layout(corpus, out, extension)
    elif corpus.kind in {"folder", "files"}:
        layout = Layout(out, partial(_below, out, extension), _write_nothing)
    elif corpus.kind in _MANIFESTS:
        manifest = out / (manifest_name or f"{corpus.name}.jsonl")
        target = partial(_below, out / "audio", extension)
        if corpus.kind == "lhotse":
            layout = Layout(out, target, partial(_write_lhotse, out), lhotse_files(out))
        else:
            layout = Layout(out, target, lambda outputs: write_manifest(outputs, manifest), manifest_files(manifest))
    else:
        folder = out / f"{corpus.name}{suffix}"
        target = partial(_below, folder / "wav", extension)
        layout = Layout(folder, target, partial(_write_kaldi, folder, corpus.name), kaldi_files(folder))
    manifest_path = corpus.root / manifest_name if manifest_name and corpus.root and corpus.kind in _MANIFESTS else None
    refuse_no_folder(layout.folder)
    return replace(layout, folders=_protect_input(corpus, layout, manifest_path, key_file))


def _file_layout(corpus: CorpusLike, out: Path, extension: str | None) -> Layout:
    if out.suffix.lower() in AUDIO_SUFFIXES and not out.is_dir():
        if not is_writable(out):
            raise InputError(f"cannot write {out.suffix}", where=out, fix="use .wav, .flac, .m4a, .mp4 or .mkv")
        return Layout(out.parent, lambda utterance: out, _write_nothing)
    return Layout(out, partial(_below, out, extension), _write_nothing)


def _below(folder: Path, extension: str | None, utterance: Utterance) -> Path:
    """Return the id as a path below ``folder``; refuse one that leads out of it, since ids come from data."""
    id = utterance.id
    path = PurePosixPath(id)
    if path.is_absolute() or ".." in path.parts or "\\" in id or "\0" in id:
        raise InputError(f"the id {id!r} leads out of the output folder", fix="rename the utterance")
    if any(part == RECORDS or part.startswith(PART_PREFIX) for part in path.parts):
        problem = f"the id {id!r} has a name that the program keeps for its own files ({RECORDS}, {PART_PREFIX}...)"
        raise InputError(problem, fix="rename the utterance")
    kept = extension is None and is_writable(utterance.path)
    suffix = utterance.path.suffix if kept else extension or ".wav"
    named = kept and path.name == utterance.path.name  # as in a folder with a.m4a and a.mp3
    return folder / path.parent / (path.name if named else f"{path.name}{suffix}")


def _protect_input(corpus: CorpusLike, layout: Layout, manifest: Path | None, key_file: Path | None) -> frozenset[Path]:
    """Return the folders that audio goes to; refuse an output that would damage the input."""
    # By folders, of which there are few: needs little memory and no system call for every file.
    sources, targets, plain = set(), set(), True
    for utterance in corpus:
        sources.add(folder_of(utterance.path))
        targets.add(layout.target(utterance).parent)
        plain = plain and str(PurePosixPath(utterance.id)) == utterance.id
    if corpus.kind != "file":  # a single file may be in the folder of its output
        _refuse_overlap(corpus, layout.folder, sources, manifest)
        _refuse_links_into_input(corpus, targets, sources)
    others = [*(() if manifest is None else manifest_files(manifest)), *(() if key_file is None else (key_file,))]
    refuse_same_files(layout.targets(corpus), lambda: chain((u.path for u in corpus), others))
    taken = DiskDict()
    for utterance in corpus if not plain else ():  # plain ids are unique paths
        target = layout.target(utterance)
        if str(target) in taken:
            problem = f"utterances {taken[str(target)]!r} and {utterance.id!r} would become one file"
            raise InputError(problem, where=target)
        taken[str(target)] = utterance.id
    return frozenset(targets)


def _refuse_overlap(corpus: CorpusLike, folder: Path, sources: set[Path], manifest: Path | None) -> None:
    """Refuse an output folder that holds recordings or metadata of the input, or lies in a corpus that is a folder."""
    metadata = manifest if corpus.kind in _MANIFESTS else corpus.root
    refuse_overlap(folder, [] if metadata is None else [metadata], sources)


def _refuse_links_into_input(corpus: CorpusLike, targets: set[Path], sources: set[Path]) -> None:
    """Refuse folders below the output that are links to folders of recordings, or into a corpus that is a folder."""
    recordings = {folder.resolve() for folder in sources}
    root = None if corpus.root is None or corpus.kind in _MANIFESTS else corpus.root.resolve()
    for folder in targets:
        real = folder.resolve()
        if real in recordings or (root is not None and real.is_relative_to(root)):
            problem = f"this folder leads into the input: it is, or is reached through, a link to {real}"
            raise InputError(problem, where=folder, fix="remove the link, or give another output")


def _write_kaldi(folder: Path, name: str, outputs: UtteranceSource) -> None:
    corpus = Corpus(name, tuple(outputs), outputs.trials)
    write_kaldi(corpus, folder, {u.id: u.path for u in corpus})


def _write_lhotse(folder: Path, outputs: UtteranceSource) -> None:
    write_lhotse(Corpus(folder.name, tuple(outputs), outputs.trials), folder)


@dataclass(frozen=True)
class _Outputs:
    """Utterances of the input, with path, length and text of their output."""

    corpus: CorpusLike
    target: Callable[[Utterance], Path]
    seconds: Callable[[str], float]
    text: Callable[[Utterance], str | None]

    @property
    def trials(self) -> Trials | None:
        return self.corpus.trials

    def __iter__(self) -> Iterator[Utterance]:
        for u in self.corpus:
            seconds = None if u.seconds is None else self.seconds(u.id)
            yield replace(u, path=self.target(u), text=self.text(u), start=0.0, duration=None, seconds=seconds)


def _write_nothing(outputs: UtteranceSource) -> None:
    """Write nothing: a folder of audio has no metadata."""
