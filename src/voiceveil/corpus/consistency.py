"""Compare the metadata files of a corpus with each other: faults that no single line shows.

Utterances without audio, speakers without gender, ``spk2utt`` against ``utt2spk``, trials against utterances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from voiceveil.corpus.faults import Fault
from voiceveil.corpus.ids import id_map, is_file_name
from voiceveil.corpus.kaldi import Tables
from voiceveil.corpus.model import Corpus

__all__ = ["cross_check", "trial_faults", "unsafe_ids"]

BY_UTTERANCE = ("utt2spk", "text", "utt2dur", "utt2emo", "utt2phrase", "utt2subset", "enrolls")


def cross_check(tables: Tables, corpus: Corpus) -> Iterator[Fault]:
    """Compare the files of a Kaldi directory with each other."""
    yield from _without_audio(tables, corpus)
    yield from _without_speaker(tables, corpus)
    yield from _speaker_tables(tables, corpus)
    if "utt2spk" in tables.files and "spk2utt" in tables.files:
        yield from _spk2utt(tables)


def _without_audio(tables: Tables, corpus: Corpus) -> Iterator[Fault]:
    for name in BY_UTTERANCE:
        for key in tables.get(name).keys() - corpus.by_id.keys():
            table = tables.files[name]
            yield Fault(table.path, table.lines[key], f"{key} has no audio", "add it to wav.scp or remove the line")
    if tables.segments is not None:
        used = {segment.recording for segment in tables.segments.values()}
        for key in tables.get("wav.scp").keys() - used:
            table = tables.files["wav.scp"]
            yield Fault(table.path, table.lines[key], f"{key} has no segment", "add it to segments", note=True)


def _without_speaker(tables: Tables, corpus: Corpus) -> Iterator[Fault]:
    audio = tables.files.get("wav.scp" if tables.segments is None else "segments")
    if audio is None:
        return
    if "utt2spk" not in tables.files and "spk2utt" not in tables.files:
        yield Fault(
            tables.directory, None, "no utt2spk here: no speaker is known", "write `<utterance> <speaker>`", True
        )
        return
    for utterance in corpus:
        if utterance.speaker is None:
            line = audio.lines[utterance.id]
            yield Fault(audio.path, line, f"{utterance.id} has no speaker", "add it to utt2spk")
    if "text" in tables.files:
        for utterance in corpus:
            if utterance.text is None:
                line = audio.lines[utterance.id]
                yield Fault(audio.path, line, f"{utterance.id} has no text", "add it to text", note=True)


def _speaker_tables(tables: Tables, corpus: Corpus) -> Iterator[Fault]:
    """Yield speakers without gender (or fold), and genders (or folds) without speaker."""
    speakers = corpus.by_speaker
    for name, attribute in (("spk2gender", "gender"), ("spk2fold", "fold")):
        if name not in tables.files:
            continue
        table = tables.files[name]
        for speaker in speakers.keys() - table.values.keys():
            if speaker in table.lines:  # the line is there, its value was reported
                continue
            place = tables.files.get("utt2spk") or tables.files["spk2utt"]
            line = place.lines.get(speakers[speaker][0].id, place.lines.get(speaker))
            unknown = attribute == "gender"  # which some speakers do not state, and not every task needs
            yield Fault(
                place.path, line, f"speaker {speaker} has no {attribute}", f"add the speaker to {name}", unknown
            )
        for speaker in table.values.keys() - speakers.keys():
            problem = f"speaker {speaker} has a {attribute} but no utterance"
            yield Fault(table.path, table.lines[speaker], problem, "remove the line", note=True)


def _spk2utt(tables: Tables) -> Iterator[Fault]:
    utt2spk, spk2utt = tables.files["utt2spk"], tables.files["spk2utt"]
    listed: set[str] = set()
    for speaker, value in spk2utt.values.items():
        for key in value.split():
            listed.add(key)
            other = utt2spk.values.get(key)
            if other != speaker:
                says = f"utt2spk gives it to {other}" if other else "it is not in utt2spk"
                problem = f"{key} is listed for speaker {speaker}, but {says}"
                yield Fault(spk2utt.path, spk2utt.lines[speaker], problem, "make spk2utt anew from utt2spk")
    for key in utt2spk.values.keys() - listed:
        yield Fault(utt2spk.path, utt2spk.lines[key], f"{key} is not in spk2utt", "make spk2utt anew from utt2spk")


def trial_faults(
    corpus: Corpus, enrollment: Corpus | None, file: Path | None, lines: Sequence[int] | None
) -> Iterator[Fault]:
    """Yield the faults of the trials; ``lines`` holds the line of each trial in ``file``.

    The enrollment utterances are those of ``enrollment``, or else those with the role "enroll" in the corpus itself;
    if there are none they are taken to be elsewhere and are not compared.
    """
    if corpus.trials is None:
        return
    enrolled = [
        u for u in (corpus if enrollment is None else enrollment) if enrollment is not None or u.role == "enroll"
    ]
    enrolled_ids, speakers = {u.id for u in enrolled}, {u.speaker for u in enrolled}
    trials = corpus.trials
    columns = zip(trials.enroll.tolist(), trials.utterance.tolist(), trials.target.tolist(), strict=True)
    seen: set[tuple[str, str]] = set()
    unknown: set[str] = set()
    for index, (speaker, key, target) in enumerate(columns):
        line = lines[index] if lines else None
        if (speaker, key) in seen:
            yield Fault(file, line, f"the trial {speaker} {key} occurs twice", "keep one")
        seen.add((speaker, key))
        if enrolled and speaker not in speakers and speaker not in unknown:
            unknown.add(speaker)  # once for each speaker, not for each of its trials
            yield Fault(file, line, f"speaker {speaker} has no enrollment utterance", "enroll it or remove its trials")
        if key in enrolled_ids:
            yield Fault(file, line, f"{key} is an enrollment utterance and a trial", "take it out of one of them")
        utterance = corpus.by_id.get(key)
        if utterance is None:
            yield Fault(file, line, f"no utterance {key}", "add its audio or remove the trial")
        elif utterance.speaker is not None and (utterance.speaker == speaker) != target:
            label = "target" if target else "nontarget"
            problem = f"{key} of speaker {utterance.speaker} is a {label} trial of speaker {speaker}"
            yield Fault(file, line, problem, f"write {'nontarget' if target else 'target'}, or mend utt2spk")


def unsafe_ids(corpus: Corpus, file: Path) -> Iterator[Fault]:
    """Note ids that cannot stand in a Kaldi directory, or be the name of a file, as they are."""
    ids = id_map(corpus)
    if ids:
        (kind, safe), original = next(iter(ids.items()))
        problem = f"{len(ids)} id(s) cannot stand in a Kaldi file, e.g. the {kind} {original!r}"
        fix = f"there it is written as {safe!r}, with a list of all in .voiceveil/ids.tsv"
        yield Fault(file, None, problem, fix, note=True)
    unusable = [utterance.id for utterance in corpus if not is_file_name(utterance.id)]
    if unusable:
        shown = unusable[0] if len(unusable[0]) < 100 else f"{unusable[0][:100]}..."
        problem = f"{len(unusable)} id(s) cannot be the name of a file, e.g. {shown!r}"
        yield Fault(file, None, problem, "rename them, or these utterances are not anonymized", note=True)
