"""Nothing of the user's is replaced or removed by `anonymize`: swapped arguments, bad items, edited files, links."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.faults.runs import tree
from voiceveil.audio import load, save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, open_corpus, write_kaldi, write_manifest
from voiceveil.systems import batch
from voiceveil.testing import synthetic_voice

anonymize = partial(batch.anonymize, system="b2")

IN_THE_WAY = r"this file exists, and the run did not write it, or somebody has changed it since"


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Two recordings of one speaker."""
    for name in ("a", "b"):
        save(tmp_path / "recordings" / "s" / f"{name}.wav", synthetic_voice(1, ord(name), seconds=0.3))
    return tmp_path / "recordings"


def kaldi(folder: Path, recordings: Path, *, text: bool = True) -> Path:
    """A Kaldi directory of the recordings."""
    spoken = tuple(
        Utterance(path.stem, path, speaker="s", gender="f", text="words" if text else None, emotion="ang")
        for path in sorted(recordings.rglob("*.wav"))
    )
    write_kaldi(Corpus(folder.name, spoken), folder)
    return folder


def manifest(path: Path, recordings: Path) -> Path:
    """A manifest of the recordings."""
    write_manifest(Corpus("list", tuple(Utterance(p.stem, p) for p in sorted(recordings.rglob("*.wav")))), path)
    return path


def refused(place: Path, run: Callable[[], object], match: str) -> None:
    """The run is refused, and not one byte or name below ``place`` has changed."""
    before, names = tree(place), sorted(place.rglob("*"))
    with pytest.raises(InputError, match=match):
        run()
    assert tree(place) == before
    assert sorted(place.rglob("*")) == names


# --- Files that the run did not write -----------------------------------------------------------------------------


def test_swapped_arguments_are_rejected(recordings: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    anonymize(recordings, hidden, seed=1)
    refused(tmp_path, lambda: anonymize(hidden, recordings, seed=1), rf"a\.wav: {IN_THE_WAY}; 2 such files in all")
    refused(tmp_path, lambda: anonymize(hidden, recordings), "--overwrite .*to replace")
    assert anonymize(hidden, recordings, seed=1, overwrite=True).done == 2


def test_foreign_file_stops_the_run_before_writing(recordings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "s").mkdir(parents=True)
    (out / "s" / "b.wav").write_text("mine")
    (out / "notes.txt").write_text("mine too")
    refused(tmp_path, lambda: anonymize(recordings, out, seed=1), rf"s/b\.wav: {IN_THE_WAY} \(give another output")
    anonymize(recordings, out, seed=1, overwrite=True)
    assert (out / "notes.txt").read_text() == "mine too"
    load(out / "s" / "b.wav")


def test_foreign_file_beside_own_results_is_kept(recordings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    anonymize(recordings, out, seed=1)
    save(recordings / "s" / "c.wav", synthetic_voice(1, 3, seconds=0.3))
    (out / "s" / "c.wav").write_text("mine")
    refused(tmp_path, lambda: anonymize(recordings, out, seed=1), r"s/c\.wav: this file exists")
    (out / "s" / "c.wav").unlink()
    assert anonymize(recordings, out, seed=1).done == 1


def test_single_file_is_not_replaced(recordings: Path, tmp_path: Path) -> None:
    source = recordings / "s" / "a.wav"
    (tmp_path / "mine.wav").write_text("mine")
    (tmp_path / "link.wav").symlink_to("nowhere")
    for name in ("mine.wav", "link.wav"):
        refused(tmp_path, partial(anonymize, source, tmp_path / name, seed=1), rf"{name}: this file exists")
    anonymize(source, tmp_path / "mine.wav", seed=1, overwrite=True)
    load(tmp_path / "mine.wav")


def test_corrupt_item_does_not_delete_a_foreign_file(recordings: Path, tmp_path: Path) -> None:
    (recordings / "s" / "a.wav").write_text("no audio")
    out = tmp_path / "out"
    (out / "s").mkdir(parents=True)
    (out / "s" / "a.wav").write_text("mine")
    refused(tmp_path, lambda: anonymize(recordings, out, seed=1), r"s/a\.wav: this file exists")
    summary = anonymize(recordings, out, seed=1, overwrite=True)
    assert [failure.id for failure in summary.failures] == ["s/a"]
    assert (out / "s" / "a.wav").read_text() == "mine", "nothing has come to take its place"


def test_corrupt_item_removes_its_own_earlier_output(recordings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    anonymize(recordings, out, seed=1)
    (recordings / "s" / "a.wav").write_text("no audio")
    assert len(anonymize(recordings, out, seed=1).failures) == 1
    assert not (out / "s" / "a.wav").exists()


def test_file_that_appears_during_the_run_is_kept(recordings: Path, tmp_path: Path) -> None:
    from dataclasses import dataclass

    import numpy as np

    from voiceveil.audio import Samples
    from voiceveil.systems.signal.b2 import B2

    out = tmp_path / "out"

    @dataclass(frozen=True)
    class Meddled(B2):
        def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
            (out / "s").mkdir(exist_ok=True)
            (out / "s" / "b.wav").write_text("mine")
            return super().transform(samples, rng)

    meddled = Meddled()
    object.__setattr__(meddled, "name", "b2")
    summary = anonymize(recordings, out, system=meddled, seed=1)
    assert [(failure.id, "would be replaced" in failure.error) for failure in summary.failures] == [("s/b", True)]
    assert (out / "s" / "b.wav").read_text() == "mine"
    assert sorted(path.name for path in (out / "s").iterdir()) == ["a.wav", "b.wav"]


# --- Files that were edited since ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["wav/a.wav", "wav.scp", "utt2spk", "text"])
def test_edited_output_is_kept(recordings: Path, tmp_path: Path, name: str) -> None:
    source = kaldi(tmp_path / "set", recordings)
    out = anonymize(source, tmp_path / "data", seed=1).output
    undisturbed = tree(out)
    with (out / name).open("ab") as file:
        file.write(b"an edit\n")
    refused(tmp_path, lambda: anonymize(source, tmp_path / "data", seed=1), rf"{name}: {IN_THE_WAY}")
    anonymize(source, tmp_path / "data", seed=1, overwrite=True)
    assert tree(out) == undisturbed


def test_output_replaced_by_a_link_is_kept(recordings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    anonymize(recordings, out, seed=1)
    (out / "s" / "a.wav").rename(tmp_path / "kept.wav")
    (out / "s" / "a.wav").symlink_to(tmp_path / "kept.wav")
    before = (tmp_path / "kept.wav").read_bytes()
    save(recordings / "s" / "a.wav", synthetic_voice(2, 2, seconds=0.3))  # it is to be done again
    refused(tmp_path, lambda: anonymize(recordings, out, seed=1), r"s/a\.wav: this file exists")
    anonymize(recordings, out, seed=1, overwrite=True)
    assert (tmp_path / "kept.wav").read_bytes() == before


# --- Metadata -----------------------------------------------------------------------------------------------------


def test_existing_kaldi_directory_keeps_its_tables(recordings: Path, tmp_path: Path) -> None:
    source = kaldi(tmp_path / "set", recordings, text=False)
    mine = kaldi(tmp_path / "data" / "set_b2", recordings)
    refused(tmp_path, lambda: anonymize(source, tmp_path / "data", seed=1), IN_THE_WAY)
    for name in ("wav.scp", "utt2spk", "spk2utt", "spk2gender", "utt2emo"):
        (mine / name).unlink()
    assert sorted(path.name for path in mine.iterdir()) == ["text"]
    refused(tmp_path, lambda: anonymize(source, tmp_path / "data", seed=1), rf"set_b2/text: {IN_THE_WAY}")
    out = anonymize(source, tmp_path / "data", seed=1, overwrite=True).output
    assert not (out / "text").exists(), "it would be taken for the text of this corpus"


def test_tables_of_an_earlier_run_are_replaced_and_removed(recordings: Path, tmp_path: Path) -> None:
    source = kaldi(tmp_path / "set", recordings)
    out = anonymize(source, tmp_path / "data", seed=1).output
    assert (out / "text").exists()
    (source / "text").unlink()
    (out / "mine.txt").write_text("mine")
    assert anonymize(source, tmp_path / "data", seed=1).already_done == 2
    assert not (out / "text").exists()
    assert (out / "mine.txt").read_text() == "mine"
    assert {u.text for u in open_corpus(out)} == {None}


@pytest.mark.parametrize("name", ["list.csv", "list.trials.csv"])
def test_manifest_in_the_output_is_not_replaced(recordings: Path, tmp_path: Path, name: str) -> None:
    source = manifest(tmp_path / "list.csv", recordings)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    refused(tmp_path, lambda: anonymize(source, tmp_path / "out", seed=1), rf"out/{name}: {IN_THE_WAY}")
    anonymize(source, tmp_path / "out", seed=1, overwrite=True)
    assert len(open_corpus(tmp_path / "out" / "list.csv")) == 2


# --- Settings that change, and kills -------------------------------------------------------------------------------


def test_run_with_other_settings_replaces_only_its_own_files(recordings: Path, tmp_path: Path) -> None:
    """As an evaluation does it: ``overwrite="changed"`` starts again, and spares what somebody has edited."""
    source, data = kaldi(tmp_path / "set", recordings), tmp_path / "data"
    out = anonymize(source, data, seed=1).output
    assert anonymize(source, data, seed=2, overwrite="changed").done == 2
    (out / "wav" / "a.wav").write_text("mine")
    refused(tmp_path, lambda: anonymize(source, data, seed=2, overwrite="changed"), r"a\.wav: this file exists")
    refused(tmp_path, lambda: anonymize(source, data, seed=3, overwrite="changed"), r"a\.wav: this file exists")


def test_killed_restart_resumes_without_overwrite(recordings: Path, tmp_path: Path) -> None:
    """The ledger of ``--overwrite`` still knows the files of the run before as the program's own."""
    out = tmp_path / "out"
    anonymize(recordings, out, seed=1)
    anonymize(recordings, out, seed=2, overwrite=True)
    ledger = out / ".voiceveil" / "ledger.jsonl"
    with pytest.raises(InputError, match="another run"):
        anonymize(recordings, out, seed=1)
    from voiceveil.run.ledger import open_ledger
    from voiceveil.systems.settings import RunOptions, make_settings

    new = make_settings("b2", RunOptions(seed=3))
    with open_ledger(ledger, new.record(), overwrite=True):  # killed before the first item
        pass
    assert anonymize(recordings, out, seed=3).done == 2


def test_user_file_with_a_temporary_name_is_kept(recordings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "s").mkdir(parents=True)
    for name in (".part-mine.wav", ".part-1"):
        (out / "s" / name).write_text("mine")
    anonymize(recordings, out, seed=1)
    assert sorted(path.name for path in (out / "s").iterdir()) == [".part-1", ".part-mine.wav", "a.wav", "b.wav"]


# --- Outputs that are, hold or lie in the data --------------------------------------------------------------------


@pytest.mark.parametrize("overwrite", [False, True])
def test_output_overlapping_the_input_is_rejected(recordings: Path, tmp_path: Path, overwrite: bool) -> None:
    def run(source: Path, out: Path) -> Callable[[], object]:
        return lambda: anonymize(source, out, seed=1, suffix="", overwrite=overwrite)

    (tmp_path / "out").symlink_to(recordings / "s", target_is_directory=True)
    (tmp_path / "alias").symlink_to(recordings, target_is_directory=True)
    refused(tmp_path, run(recordings, recordings), "is the input")
    refused(tmp_path, run(recordings / "s", recordings), "the output folder holds the input")
    refused(tmp_path, run(recordings, recordings / "new"), "lies inside the input")
    refused(tmp_path, run(recordings, tmp_path / "out"), "lies inside the input")
    refused(tmp_path, run(tmp_path / "alias", recordings), "is the input")
    refused(tmp_path, run(recordings, tmp_path / "out" / "deeper"), "lies inside the input")
    refused(tmp_path, run(recordings / "s" / "a.wav", recordings / "s" / "a.wav"), "would replace the input")
    refused(tmp_path, run(recordings / "s" / "a.wav", recordings / "s"), "would replace the input")
    refused(tmp_path, run(recordings / "s" / "a.wav", tmp_path / "out"), "would replace the input")
    data = kaldi(tmp_path / "data" / "set", recordings)
    refused(tmp_path, run(data, tmp_path / "data"), "is the input")
    inside = kaldi(tmp_path / "lists" / "set", tmp_path / "recordings")
    shutil.move(recordings, tmp_path / "lists" / "all" / "recordings")
    (tmp_path / "alias").unlink()
    (tmp_path / "out").unlink()
    inside = kaldi(tmp_path / "set", tmp_path / "lists" / "all" / "recordings")
    inside.rename(tmp_path / "lists2")
    renamed = Corpus("all", open_corpus(tmp_path / "lists2").utterances, kind="kaldi", root=tmp_path / "lists2")
    before = tree(tmp_path)
    with pytest.raises(InputError, match="the output folder holds the input"):
        anonymize(renamed, tmp_path / "lists", seed=1, suffix="", overwrite=overwrite)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_manifest_cannot_be_anonymized_into_its_own_folder(recordings: Path, tmp_path: Path, overwrite: bool) -> None:
    source = manifest(tmp_path / "lists" / "list.csv", recordings)
    refused(tmp_path, lambda: anonymize(source, tmp_path / "lists", overwrite=overwrite), "holds the input")
    refused(tmp_path, lambda: anonymize(source, recordings, overwrite=overwrite), "holds the input")
    assert anonymize(source, tmp_path / "lists" / "hidden", overwrite=overwrite).done == 2, "below it is fine"


@pytest.mark.parametrize("link", [os.link, os.symlink])
@pytest.mark.parametrize("overwrite", [False, True])
def test_outputs_linked_to_the_originals_keep_the_originals(
    recordings: Path, tmp_path: Path, link: Callable[[Path, Path], None], overwrite: bool
) -> None:
    out = tmp_path / "out"
    (out / "s").mkdir(parents=True)
    link(recordings / "s" / "b.wav", out / "s" / "a.wav")
    refused(tmp_path, lambda: anonymize(recordings, out, seed=1, overwrite=overwrite), "would replace the input")
    link(recordings / "s" / "b.wav", tmp_path / "one.wav")
    refused(
        tmp_path,
        lambda: anonymize(recordings / "s" / "b.wav", tmp_path / "one.wav", seed=1, overwrite=overwrite),
        "would replace the input",
    )


@pytest.mark.parametrize("overwrite", [False, True])
def test_link_in_the_output_does_not_lead_into_the_input(recordings: Path, tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "s").symlink_to(recordings / "s", target_is_directory=True)
    run = partial(anonymize, recordings, tmp_path / "out", seed=1, format="flac", overwrite=overwrite)
    refused(tmp_path, run, "the input")


@pytest.mark.parametrize("id", [".voiceveil-part-1", "s/.voiceveil-part-1/a", ".voiceveil/ledger"])
def test_id_with_a_reserved_name_is_rejected(recordings: Path, tmp_path: Path, id: str) -> None:
    """What was made of it would be removed as a temporary file, although the run reports success."""
    listed = tmp_path / "list.csv"
    write_manifest(Corpus("list", (Utterance(id, recordings / "s" / "a.wav"),)), listed)
    refused(tmp_path, lambda: anonymize(listed, tmp_path / "out", seed=1), "keeps for its own files")


@pytest.mark.parametrize("overwrite", [False, True])
def test_file_in_place_of_the_output_folder_is_rejected(recordings: Path, tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "file").write_text("mine")
    for source in (recordings, recordings / "s" / "a.wav", kaldi(tmp_path / "set", recordings)):
        for out in (tmp_path / "file", tmp_path / "file" / "below"):
            run = partial(anonymize, source, out, seed=1, overwrite=overwrite)
            refused(tmp_path, run, "file: the output is to be a folder, and this is none")


def test_folder_in_place_of_an_output_is_a_failed_item(recordings: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "s" / "a.wav").mkdir(parents=True)
    done = anonymize(recordings, tmp_path / "out", seed=1, overwrite=True)
    assert [failure.id for failure in done.failures] == ["s/a"]
    assert "a.wav: a folder has the name of an output file" in done.failures[0].error
    assert done.done == 1


def test_outputs_beside_the_input_are_allowed(recordings: Path, tmp_path: Path) -> None:
    source = kaldi(tmp_path / "data" / "set", recordings)
    assert anonymize(source, tmp_path / "data", seed=1).output == tmp_path / "data" / "set_b2"
    assert anonymize(recordings / "s" / "a.wav", recordings / "s" / "hidden.wav", seed=1).done == 1


def test_linked_ledger_is_not_followed(recordings: Path, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    (tmp_path / "out" / ".voiceveil").mkdir(parents=True)
    (tmp_path / "out" / ".voiceveil" / "ledger.jsonl").symlink_to(tmp_path / "precious.txt")
    with pytest.raises(InputError, match="cannot write"):
        anonymize(recordings, tmp_path / "out", seed=1, overwrite=True)
    assert (tmp_path / "precious.txt").read_text() == "mine"
