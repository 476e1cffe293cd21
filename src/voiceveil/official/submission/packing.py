"""The archive of a submission: the same bytes for the same results, without names of people or machines.

Conventions: members are sorted, of the time 1980-01-01 (the earliest that a zip file knows), of nobody, mode 0644.
Audio must be 16-bit PCM at 16 kHz, in wav files; it is checked and hashed while it is packed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import parse_json
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import refuse_files, refuse_same_files
from voiceveil.core.safe_archive import Member
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.evaluation.protocol import Official, Protocol, load_protocol, protocol_of
from voiceveil.evaluation.protocol_checks import official_set
from voiceveil.evaluation.results import Results
from voiceveil.official import read_results
from voiceveil.official.labels import stand_ins
from voiceveil.official.submission.archive_layout import UNOFFICIAL, ArchiveLayout, archive_layout
from voiceveil.official.submission.joining import join_files
from voiceveil.official.submission.speech import WavForm, read_wav
from voiceveil.run.progress import Progress

__all__ = ["Packed", "pack"]

_EPOCH = 315532800  # 1980-01-01
_PLAIN = re.compile(r"[A-Za-z0-9._+-]+", re.ASCII)
_LEVEL = 6


@dataclass(frozen=True)
class Packed:
    """A packed archive: utterances of each set, missing sets, size in bytes and hash."""

    archive: str
    sets: dict[str, int]
    missing: tuple[str, ...]
    bytes: int
    sha256: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def pack(
    out: str | Path | Sequence[str | Path],
    archive: str | Path | None = None,
    *,
    partial: bool = False,
    unofficial: bool = False,
    overwrite: bool = False,
    quiet: bool = True,
) -> Packed:
    """Pack the results of ``voiceveil evaluate`` and the anonymized speech.

    Parameters
    ----------
    out : path, or sequence of paths
        Folder of the evaluation; for track 2 of 2026 one for each language.
    archive : path, optional
        By default ``submission<suffix>.tar.gz`` in the (first) folder, in 2026 ``submission_track1<suffix>.tar.gz`` or
        ``submission_track2<suffix>.tar.gz``; with ``unofficial_`` before it if it is not official.
    partial : bool
        Sets may be missing.
    unofficial : bool
        Pack figures that are not by the challenge's own evaluators; the name of every member then says so.
    overwrite : bool
        Replace an archive; a file of the results is never replaced.
    quiet : bool
        Show no progress.

    Raises
    ------
    InputError
        If results, sets or audio are missing or are not those that were evaluated, or figures are by other models than
        the challenge's own evaluators and ``unofficial`` is not given.
    """
    folders = [Path(out)] if isinstance(out, str | Path) else [Path(folder) for folder in out]
    parts = [_Evaluation.read(folder) for folder in folders]
    _check_parts(parts)
    layout, suffix = parts[0].layout, parts[0].suffix
    stand_ins = [_has_stand_ins(part.results, part.out, unofficial) for part in parts]
    prefix = UNOFFICIAL if any(stand_ins) else ""
    default = folders[0] / f"{prefix.replace('/', '_')}{layout.archive_name(suffix)}"
    target = default if archive is None else Path(archive)
    refuse_same_files([target], lambda: (path for own in folders for path in own.rglob("*") if path != default))
    refuse_files([target], overwrite=overwrite)
    corpora, missing = _sets(parts)
    if missing and not partial:
        fault = f"not a whole submission: there is no {', no '.join(missing)}"
        raise InputError(fault, where=folders[0], fix="evaluate them as well, or pack a part with --partial")
    listed = [_result_files(part, partial, several=len(parts) > 1) for part in parts]
    work = sum(_size(u.path) for corpus in corpora.values() for u in corpus)
    count = sum(map(len, corpora.values()))
    with (
        tempfile.TemporaryDirectory(prefix="voiceveil-") as joined,
        Progress("packing", count, work=work, quiet=quiet) as progress,
        atomic_path(target) as part,
    ):
        files = join_files(listed, Path(joined))
        with (
            part.open("wb") as raw,
            gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar,
        ):
            writer = _Writer(tar, layout, layout.set_suffix(suffix), prefix)
            writer.add_all(files, corpora, progress)
        digest = hashlib.sha256()
        with part.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        size = part.stat().st_size
    return Packed(str(target), {n: len(c) for n, c in corpora.items()}, missing, size, digest.hexdigest())


@dataclass(frozen=True)
class _Evaluation:
    """The results of one evaluation, with the layout of its archive."""

    out: Path
    results: Results
    layout: ArchiveLayout
    suffix: str

    @classmethod
    def read(cls, out: Path) -> _Evaluation:
        """Read the results of a folder."""
        results = read_results(out)
        return cls(out, results, _layout(results, out), _suffix(results, out))

    @property
    def protocol(self) -> Protocol:
        """The protocol of the results."""
        return protocol_of(self.results)


def _check_parts(parts: Sequence[_Evaluation]) -> None:
    """Raise an ``InputError`` if evaluations cannot be packed together."""
    first, *others = parts
    for other in others:
        if first.layout.track != 2 or other.layout != first.layout:
            fix = "only the languages of track 2 of 2026 are packed together; pack this one by itself"
            raise InputError(f"several evaluations, of {other.protocol.name}", where=other.out, fix=fix)
        if other.suffix != first.suffix:
            fault = f"sets with the suffix {other.suffix}, but {first.out} has {first.suffix}"
            raise InputError(fault, where=other.out, fix="evaluate all languages with the same --suffix")
    names = [part.protocol.name for part in parts]
    twice = next((part for k, part in enumerate(parts) if part.protocol.name in names[:k]), None)
    if twice is not None:
        raise InputError(f"a second evaluation of {twice.protocol.name}", where=twice.out, fix="name one of them")


def _layout(results: Results, out: Path) -> ArchiveLayout:
    try:
        return archive_layout(protocol_of(results))
    except InputError as error:
        raise InputError(error.what, where=out, fix=error.fix) from error


def _has_stand_ins(results: Results, out: Path, unofficial: bool) -> bool:
    """Return whether figures are by other models than the challenge's; an ``InputError`` unless ``unofficial``."""
    official = protocol_of(results).official
    others = [] if official is None else stand_ins(results.info["official"]["names"], official)
    if official is not None and others and not unofficial:
        options = _official_options([text.partition(":")[0] for text in others], official, results)
        raise InputError(
            f"figures that are not by the challenge's own evaluators: {', '.join(others)}",
            where=out,
            fix=f"evaluate with the official models{options}, or pack an archive that says so everywhere with "
            "--unofficial",
        )
    return bool(others)


def _official_options(names: Sequence[str], official: Official, results: Results) -> str:
    """Return the options of `voiceveil evaluate` for the official models with these names, where it can run them."""
    models = {
        "ASV_eval": ("asv", "--attackers", "exp/asv_orig"),
        "ASV_eval^anon": ("asv", "--attackers", f"exp/asv_anon{results.info['suffix']}"),
        "ASR_eval": ("asr", "--recognizers", "exp/asr"),
        "SER_eval": ("ser", "--emotion-models", "exp/ser"),
    }
    options: dict[str, list[str]] = {}
    for name in (known for known in models if known in names):
        kind, option, folder = models[name]
        options.setdefault(option, []).extend(f"{model}:{folder}" for model in official.evaluators.get(kind, ())[:1])
    words = " ".join(f"{option} {','.join(folders)}" for option, folders in options.items() if folders)
    return f" ({words}; docs/official.md)" if words else ""


def _suffix(results: Results, out: Path) -> str:
    suffix = str(results.info.get("suffix", ""))
    if not _PLAIN.fullmatch(suffix) or not results.info.get("official"):
        raise InputError("results without the challenge's own files", where=out, fix="evaluate again")
    return suffix


def _sets(parts: Sequence[_Evaluation]) -> tuple[dict[str, Corpus], tuple[str, ...]]:
    """Return the anonymized sets of a submission, and the names of those that are missing.

    A set of several evaluations is taken from the first.
    """
    corpora: dict[str, Corpus] = {}
    expected: dict[str, None] = {}
    for part in parts:
        names = part.layout.sets(part.protocol)
        expected |= dict.fromkeys(names)
        folders = {name: part.out / "data" / f"{name}{part.suffix}" for name in names if name not in corpora}
        opened = {name: open_corpus(path) for name, path in folders.items() if (path / "wav.scp").exists()}
        _check_sets(part.results, opened, part.suffix)
        corpora |= opened
    if parts[0].layout.track == 2:
        expected |= dict.fromkeys(parts[0].layout.sets(load_protocol("vpc2026-track2")))
    return corpora, tuple(name for name in expected if name not in corpora)


def _check_sets(results: Results, corpora: dict[str, Corpus], suffix: str) -> None:
    """Raise an ``InputError`` if sets are not those that were evaluated, or ids cannot be names of files."""
    for name, corpus in corpora.items():
        stated = results.info.get("anonymized", {}).get(name, {}).get("utterances")
        if stated is not None and stated != len(corpus):
            fault = f"{name}{suffix} has {len(corpus)} utterances, but {stated} were evaluated"
            raise InputError(fault, where=corpus.root, fix="evaluate again")
        strange = next((u.id for u in corpus if not _PLAIN.fullmatch(u.id)), None)
        if strange is not None:
            raise InputError(f"utterance {strange!r} cannot be the name of a file", where=corpus.root)


def _result_files(part: _Evaluation, partial: bool, *, several: bool) -> dict[str, Path]:
    """Return name in the archive -> file; ``several`` evaluations keep their ``results.json`` apart."""
    results, out = part.results, part.out
    if not partial:
        _require_figures(results, out)
    files: dict[str, Path] = {}
    for name in map(str, results.info["official"]["files"]):
        parts = PurePosixPath(name).parts
        if parts[:1] != ("exp",) or not all(_PLAIN.fullmatch(part) for part in parts) or ".." in parts:
            raise InputError(f"{name!r} is no file of the results", where=out / "results.json", fix="evaluate again")
        if not (out / name).is_file():
            raise InputError("a file of the results is missing", where=out / name, fix="evaluate again")
        files[name] = out / name
    if part.layout.edition != "vpc2022":
        language = f"_{results.protocol}" if several else ""
        files[f"{part.layout.summary_folder}/results{part.suffix}{language}.json"] = out / "results.json"
    return files


def _require_figures(results: Results, out: Path) -> None:
    """Raise an ``InputError`` if figures that the challenge asks for are missing."""
    names, protocol = results.info["official"]["names"], protocol_of(results)
    needs = {
        "ASV_eval^anon": "no attacker has learned from anonymized speech: the EERs for the ranking are missing",
        "ASV_eval": "no attacker has learned from original speech: the EERs without protection are missing",
    }
    if "wer" in protocol.metrics:
        needs["ASR_eval"] = "the WERs are missing"
    if "uar" in protocol.metrics:
        needs["SER_eval"] = "the UARs are missing"
    for name, problem in needs.items():
        if not names.get(name) and protocol.official is not None:
            options = _official_options([name], protocol.official, results)
            trained = " trained with `--trained-on anonymized`" if name == "ASV_eval^anon" else ""
            fix = f"evaluate with a model{trained} for {name}{options}, or pack a part with --partial"
            raise InputError(problem, where=out, fix=fix)


@dataclass(frozen=True)
class _Writer:
    """Writes the members of an archive; ``prefix`` stands before all their names."""

    tar: tarfile.TarFile
    layout: ArchiveLayout
    suffix: str  # of anonymized sets
    prefix: str

    def add_all(self, files: dict[str, Path], corpora: dict[str, Corpus], progress: Progress) -> None:
        """Write results, audio and the hashes of the audio."""
        folder = self.layout.summary_folder
        if self.layout.edition == "vpc2022":
            folder = max(name for name in files if name.endswith("/results.txt")).rpartition("/")[0]
            for name in sorted(files):
                self._add(name, files[name].read_bytes())
        else:
            summary = f"{folder}/result_for_rank{self.suffix}"
            if summary in files:
                self._add(summary, files[summary].read_bytes())
            zipped = _zipped({f"{self.prefix}{name}": path for name, path in files.items()})
            self._add(f"{folder}/result_for_submission{self.suffix}.zip", zipped)
        sums = []
        for name in sorted(corpora):
            for utterance in sorted(corpora[name], key=lambda u: u.id):
                member = f"data/{official_set(name)}{self.suffix}/wav/{utterance.id}.wav"
                form = _add_audio(self.tar, f"{self.prefix}{member}", utterance.path)
                sums.append(f"{form.sha256}  {member}\n")
                progress.advance(_size(utterance.path), audio=form.seconds)
        self._add(f"{folder}/SHA256SUMS{self.suffix}", "".join(sums).encode())

    def _add(self, name: str, content: bytes) -> None:
        self.tar.addfile(_header(f"{self.prefix}{name}", len(content)), io.BytesIO(content))


def _zipped(files: dict[str, Path]) -> bytes:
    """Return a zip file of all result files, some megabytes at most."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for name, content in _contents(files):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o100644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return buffer.getvalue()


def _contents(files: dict[str, Path]) -> Iterator[tuple[str, bytes]]:
    for name in sorted(files):
        content = files[name].read_bytes()
        if name.endswith(".json"):  # the same figures whatever the folder is called
            document = parse_json(content, where=files[name], nan=True)
            content = json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"
        yield name, content


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise InputError("no such audio file", where=path, fix="anonymize it again") from error


def _add_audio(tar: tarfile.TarFile, name: str, path: Path) -> WavForm:
    """Add a wav file."""
    try:
        with path.open("rb") as file:
            size = _size(path)
            form = read_wav(Member(name, size, file))
            if fault := form.fault():
                raise InputError(fault)
            file.seek(0)
            tar.addfile(_header(name, size), file)
    except InputError as error:
        fix = "anonymize into wav files of 16 bits at 16 kHz: --format wav --rate 16000"
        raise InputError(f"{name}: {error.what}", where=path, fix=fix) from error
    except OSError as error:
        raise InputError(f"{name}: cannot read: {error.strerror}", where=path) from error
    return form


def _header(name: str, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mtime, header.mode = size, _EPOCH, 0o644
    return header
