"""Where the output goes: the same shape as the input, with the audio replaced.

a.wav                        OUT (a file if it ends in .wav or .flac, else OUT/a.wav)
folder/spk/a.flac            OUT/spk/a.wav
data/libri_dev_enrolls       OUT/libri_dev_enrolls_b2/{wav.scp, utt2spk, ..., wav/*.wav}    (a Kaldi directory)
corpus:path                  the same: a Kaldi directory OUT/<corpus><suffix>
list.csv, list.jsonl         OUT/list.csv with the audio in OUT/audio
recordings.jsonl.gz          OUT/recordings.jsonl.gz and OUT/supervisions.jsonl.gz (Lhotse), audio in OUT/audio
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath

from voiceveil.audio import AUDIO_SUFFIXES
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
    """The output's folder, the audio file of an utterance (by its id), and how to write the metadata at the end.

    ``write_metadata`` takes what :meth:`outputs` returns. ``metadata``: the files that it writes, or removes when there
    is nothing to write into them. ``folders``: all that audio goes to.
    """

    folder: Path
    target: Callable[[str], Path]
    write_metadata: Callable[[UtteranceSource], None]
    metadata: tuple[Path, ...] = ()
    folders: frozenset[Path] = frozenset()

    def outputs(self, corpus: CorpusLike, seconds: Callable[[str], float]) -> UtteranceSource:
        """Return the utterances as the output has them; ``seconds`` gives the length of an output file by its id.

        Where the input states a length, the output states its own: the original one may be what the system hides.
        """
        return _Outputs(corpus, self.target, seconds)

    @property
    def ledger(self) -> Path:
        """Where the record of finished items and of written files is kept."""
        return ledger_of(self.folder)

    def targets(self, corpus: CorpusLike) -> Iterator[Path]:
        """All files that a run on the corpus may write: audio, then metadata."""
        return chain((self.target(utterance.id) for utterance in corpus), self.metadata)


def plan_layout(
    corpus: CorpusLike,
    out: Path,
    *,
    suffix: str,
    extension: str,
    manifest_name: str | None = None,
    key_file: Path | None = None,
) -> Layout:
    """Decide where everything goes, and refuse what would replace the input or the key file."""
    if "/" in suffix or "\0" in suffix:
        raise InputError(f"the suffix {suffix!r} is not the end of a name")
    if corpus.kind == "file":
        layout = _of_file(corpus, out, extension)
    elif corpus.kind == "folder":
        layout = Layout(out, partial(_below, out, extension), _nothing)
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


def _of_file(corpus: CorpusLike, out: Path, extension: str) -> Layout:
    (utterance,) = corpus
    if out.suffix.lower() in AUDIO_SUFFIXES - {".wav", ".flac"} and not out.is_dir():
        raise InputError(f"cannot write {out.suffix}", where=out, fix="use .wav or .flac")
    if out.suffix.lower() in {".wav", ".flac"} and not out.is_dir():
        return Layout(out.parent, lambda id: out, _nothing)
    return Layout(out, lambda id: out / f"{utterance.path.stem}{extension}", _nothing)


def _below(folder: Path, extension: str, id: str) -> Path:
    """The id as a path below ``folder``: an id comes from data, and must not lead out of it."""
    path = PurePosixPath(id)
    if path.is_absolute() or ".." in path.parts or "\\" in id or "\0" in id:
        raise InputError(f"the id {id!r} leads out of the output folder", fix="rename the utterance")
    if any(part == RECORDS or part.startswith(PART_PREFIX) for part in path.parts):
        what = f"the id {id!r} has a name that the program keeps for its own files ({RECORDS}, {PART_PREFIX}...)"
        raise InputError(what, fix="rename the utterance")
    return folder / path.parent / f"{path.name}{extension}"


def _protect_input(corpus: CorpusLike, layout: Layout, manifest: Path | None, key_file: Path | None) -> frozenset[Path]:
    """Return the folders that audio goes to; an ``InputError`` if the input or the output is in danger."""
    # By folders, of which there are few: in flat memory, and without asking the system for every file.
    sources, targets, plain = set(), set(), True
    for utterance in corpus:
        sources.add(folder_of(utterance.path))
        targets.add(layout.target(utterance.id).parent)
        plain = plain and str(PurePosixPath(utterance.id)) == utterance.id
    if corpus.kind != "file":  # a file may lie beside what becomes of it
        _refuse_overlap(corpus, layout.folder, sources, manifest)
        _refuse_links_into_input(corpus, targets, sources)
    others = [*(() if manifest is None else manifest_files(manifest)), *(() if key_file is None else (key_file,))]
    refuse_same_files(layout.targets(corpus), lambda: chain((u.path for u in corpus), others))
    taken = DiskDict()
    for id in (utterance.id for utterance in corpus) if not plain else ():  # ids are unique, and plain ones are paths
        target = layout.target(id)
        if str(target) in taken:
            raise InputError(f"utterances {taken[str(target)]!r} and {id!r} would become one file", where=target)
        taken[str(target)] = id
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
            what = f"this folder leads into the input: it is a link to {real}, or lies behind one"
            raise InputError(what, where=folder, fix="remove the link, or give another output")


def _write_kaldi(folder: Path, name: str, outputs: UtteranceSource) -> None:
    corpus = Corpus(name, tuple(outputs), outputs.trials)
    write_kaldi(corpus, folder, {u.id: u.path for u in corpus})


def _write_lhotse(folder: Path, outputs: UtteranceSource) -> None:
    write_lhotse(Corpus(folder.name, tuple(outputs), outputs.trials), folder)


@dataclass(frozen=True)
class _Outputs:
    """The same utterances, with the audio that was made of them and its length."""

    corpus: CorpusLike
    target: Callable[[str], Path]
    seconds: Callable[[str], float]

    @property
    def trials(self) -> Trials | None:
        return self.corpus.trials

    def __iter__(self) -> Iterator[Utterance]:
        for u in self.corpus:
            seconds = None if u.seconds is None else self.seconds(u.id)
            yield replace(u, path=self.target(u.id), start=0.0, duration=None, seconds=seconds)


def _nothing(outputs: UtteranceSource) -> None:
    """A folder of audio has no metadata."""
