"""Where the output goes: the same shape as the input, with the audio replaced.

a.wav                        OUT (a file if it ends in .wav or .flac, else OUT/a.wav)
folder/spk/a.flac            OUT/spk/a.wav
data/libri_dev_enrolls       OUT/libri_dev_enrolls_b2/{wav.scp, utt2spk, ..., wav/*.wav}    (a Kaldi directory)
corpus:path                  the same: a Kaldi directory OUT/<corpus><suffix>
list.csv, list.jsonl         OUT/list.csv with the audio in OUT/audio
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from voiceveil.audio import AUDIO_SUFFIXES
from voiceveil.corpus import Corpus, Utterance, write_kaldi, write_manifest
from voiceveil.errors import InputError

__all__ = ["Layout", "plan_layout"]

_MANIFESTS = {"manifest", "lhotse"}


@dataclass(frozen=True)
class Layout:
    """The output's folder, the audio file of each utterance, and how to write the metadata once audio is there."""

    folder: Path
    audio: Mapping[str, Path]
    write_metadata: Callable[[Corpus, Mapping[str, Path]], None]

    @property
    def ledger(self) -> Path:
        """Where the record of finished items is kept."""
        return self.folder / ".voiceveil" / "ledger.jsonl"


def plan_layout(corpus: Corpus, out: Path, *, suffix: str, extension: str, manifest_name: str | None = None) -> Layout:
    """Decide where everything goes, and refuse what would touch the input."""
    if "/" in suffix or "\0" in suffix:
        raise InputError(f"the suffix {suffix!r} is not the end of a name")
    if corpus.kind == "file":
        layout = _of_file(corpus, out, extension)
    elif corpus.kind == "folder":
        layout = Layout(out, {u.id: _below(out, u, extension) for u in corpus}, _nothing)
    elif corpus.kind in _MANIFESTS:
        manifest = out / (manifest_name or f"{corpus.name}.jsonl")
        layout = Layout(
            out,
            {u.id: _below(out / "audio", u, extension) for u in corpus},
            lambda corpus, audio: write_manifest(_with_audio(corpus, audio), manifest),
        )
    else:
        folder = out / f"{corpus.name}{suffix}"
        layout = Layout(
            folder,
            {u.id: _below(folder / "wav", u, extension) for u in corpus},
            lambda corpus, audio: write_kaldi(corpus, folder, audio),
        )
    _protect_input(corpus, layout)
    return layout


def _of_file(corpus: Corpus, out: Path, extension: str) -> Layout:
    (utterance,) = corpus.utterances
    if out.suffix.lower() in AUDIO_SUFFIXES - {".wav", ".flac"} and not out.is_dir():
        raise InputError(f"cannot write {out.suffix}", where=out, fix="use .wav or .flac")
    if out.suffix.lower() in {".wav", ".flac"} and not out.is_dir():
        return Layout(out.parent, {utterance.id: out}, _nothing)
    return Layout(out, {utterance.id: out / f"{utterance.path.stem}{extension}"}, _nothing)


def _below(folder: Path, utterance: Utterance, extension: str) -> Path:
    """The id as a path below ``folder``: an id comes from data, and must not lead out of it."""
    path = PurePosixPath(utterance.id)
    if path.is_absolute() or ".." in path.parts or "\\" in utterance.id or "\0" in utterance.id:
        raise InputError(f"the id {utterance.id!r} leads out of the output folder", fix="rename the utterance")
    return folder / path.parent / f"{path.name}{extension}"


def _protect_input(corpus: Corpus, layout: Layout) -> None:
    sources = {utterance.path.resolve() for utterance in corpus}
    for target in layout.audio.values():
        if target.resolve() in sources:
            raise InputError("the output would replace the input", where=target, fix="give another output folder")
    # A file or a manifest may lie in the folder that its output goes below; other corpora are folders of their own.
    root = None if corpus.root is None or corpus.kind in {"file", *_MANIFESTS} else corpus.root.resolve()
    if root is not None and layout.folder.resolve().is_relative_to(root):
        raise InputError(
            f"the output folder lies inside the input {corpus.root}", where=layout.folder, fix="give one outside of it"
        )
    taken: dict[Path, str] = {}
    for id, target in layout.audio.items():
        if target in taken:
            raise InputError(f"utterances {taken[target]!r} and {id!r} would become one file", where=target)
        taken[target] = id


def _with_audio(corpus: Corpus, audio: Mapping[str, Path]) -> Corpus:
    kept = (u for u in corpus if u.id in audio)
    return replace(corpus, utterances=tuple(replace(u, path=audio[u.id], start=0.0, duration=None) for u in kept))


def _nothing(corpus: Corpus, audio: Mapping[str, Path]) -> None:
    """A folder of audio has no metadata."""
