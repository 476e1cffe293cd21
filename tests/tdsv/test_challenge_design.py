"""Challenges of one's own: who is where, what is said when, and that the keys tell the truth."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from voiceveil.audio import Waveform, load, save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance
from voiceveil.tdsv.challenge import check
from voiceveil.tdsv.challenge_design import ChallengeDesign, ChallengePlan, design
from voiceveil.tdsv.challenge_writer import join, write_challenge

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven"]


def corpus(speakers: int = 16, repetitions: int = 7, words: list[str] = WORDS) -> Corpus:
    """A corpus on paper: nothing opens its files."""
    return Corpus(
        "paper",
        tuple(
            Utterance(f"s{s}-{w}-{r}", Path(f"/no/{s}-{w}-{r}.wav"), f"s{s}", "fm"[s % 2], text=w.upper(), phrase=w)
            for s in range(speakers)
            for w in words
            for r in range(repetitions)
        ),
    )


@pytest.fixture(scope="module", params=[1, 2])
def made(request: pytest.FixtureRequest) -> ChallengeDesign:
    return design(corpus(), ChallengePlan(task=request.param, join=(3, 5), impostor_wrong=4, language="English"))


def test_speakers_are_in_one_part_only(made: ChallengeDesign) -> None:
    train = {one.speaker for one in made.train.values()}
    parts = {s: {key.test_speaker for key in keys} for s, keys in made.keys.items()}
    assert len(train) == 8
    assert not train & (parts["dev"] | parts["eval"])
    assert not parts["dev"] & parts["eval"]
    assert train | parts["dev"] | parts["eval"] == {f"s{n}" for n in range(16)}


def test_no_recording_enrolls_and_tests(made: ChallengeDesign) -> None:
    enrolled = {part.id for one in made.enrollment.values() for part in one.parts}
    tested = {part.id for one in made.evaluation.values() for part in one.parts}
    assert enrolled
    assert tested
    assert not enrolled & tested


def test_passphrases_are_different_sequences_of_different_words(made: ChallengeDesign) -> None:
    units = [p.units for p in made.passphrases]
    assert len(set(units)) == len(units) == 10
    assert all(3 <= len(u) <= 5 and len(set(u)) == len(u) for u in units)
    assert made.passphrases[0].text == " ".join(made.passphrases[0].units).upper()
    for one in [*made.train.values(), *made.enrollment.values(), *made.evaluation.values()]:
        said = tuple(part.phrase for part in one.parts)
        assert {part.speaker for part in one.parts} == {one.speaker}
        if one.phrase == "FT":
            assert said not in units
        else:
            assert said == units[int(one.phrase) - 1]


def test_keys_are_correct(made: ChallengeDesign) -> None:
    genders = {u.speaker: u.gender for u in corpus()}
    for subset, keys in made.keys.items():
        models = {model.id: model for model in made.models[subset]}
        for key in keys:
            enrolled, heard = made.enrollment[models[key.model].passphrase[0]], made.evaluation[key.test]
            person, words = enrolled.speaker == heard.speaker, enrolled.phrase == heard.phrase
            assert key.type == ("T" if person else "I") + ("C" if words else "W")
            assert (key.speaker, key.test_speaker, key.phrase) == (enrolled.speaker, heard.speaker, enrolled.phrase)
            assert genders[heard.speaker] == models[key.model].gender == key.gender
            assert models[key.model].phrase == (enrolled.phrase if made.plan.task == 1 else None)
        assert len({(k.model, k.test) for k in keys}) == len(keys)
        of_one = Counter(key.type for key in keys if key.model == keys[0].model)
        assert of_one["TC"] == 3
        assert of_one["IW"] == (4 if subset == "eval" else of_one["IW"])


def test_task_2_has_unknown_passphrases_and_free_text_of_other_words() -> None:
    made = design(corpus(), ChallengePlan(task=2, join=(3, 5), free=4))
    known = {one.phrase for one in made.train.values()}
    asked = {key.phrase for keys in made.keys.values() for key in keys}
    assert known == {"01", "02", "03", "04", "05", "06", "FT"}
    assert asked == {"07", "08", "09", "10"}
    for models in made.models.values():
        for model in models:
            words = {part.phrase for part in made.enrollment[model.passphrase[0]].parts}
            assert len(model.passphrase) == 3
            assert len(model.free_text) == 2
            for file in model.free_text:
                assert not words & {part.phrase for part in made.enrollment[file].parts}


def test_draws_depend_on_seed_and_names_only() -> None:
    plan = ChallengePlan(join=(3, 5))
    one, again = design(corpus(), plan), design(Corpus("r", corpus().utterances[::-1]), plan)
    assert one == again
    assert design(corpus(), ChallengePlan(join=(3, 5), seed=1)) != one


def test_without_joining_a_passphrase_is_a_phrase_of_the_corpus() -> None:
    made = design(corpus(words=WORDS[:4]), ChallengePlan(task=2, phrases=4, known=2, free=4))
    assert [p.units for p in made.passphrases] == [("one",), ("three",), ("two",), ("zero",)]
    model = made.models["eval"][0]
    assert {made.enrollment[f].parts[0].phrase for f in model.free_text}.isdisjoint(
        {made.enrollment[model.passphrase[0]].parts[0].phrase}
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": 3}, "there is no task 3"),
        ({"join": (5, 4)}, "passphrases cannot have 5 to 4 units"),
        ({"tests": 0}, "phrases, tests, repetitions and trials must be 1 or more"),
        ({"task": 2, "known": 10}, "10 of 10 passphrases cannot be in training"),
        ({"shares": (0.5, 0.5, 0.5)}, "give three that add up to 1"),
        ({"language": "Old English"}, "write it without blanks, e.g. English"),
    ],
)
def test_impossible_plans_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ChallengePlan(**options)  # type: ignore[arg-type]


def test_unsuitable_corpora_are_rejected() -> None:
    with pytest.raises(InputError, match="0 passphrases with 6 recordings by every speaker, not 10"):
        design(corpus(repetitions=5), ChallengePlan())
    with pytest.raises(InputError, match="8 passphrases with 6 recordings by every speaker, not 10"):
        design(corpus(), ChallengePlan())
    with pytest.raises(InputError, match="no utterance with speaker and phrase"):
        design(Corpus("none", (Utterance("a", Path("a.wav"), "s"),)), ChallengePlan())
    with pytest.raises(InputError, match=r"1 speaker\(s\) have no gender"):
        design(Corpus("none", (Utterance("a", Path("a.wav"), "s", phrase="x"),)), ChallengePlan(phrases=1, tests=1))


def test_recordings_are_joined_with_pauses(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(0, 0.01, n).astype(np.float32) for n in (1000, 2000)]
    wave = join(parts)
    assert (len(wave), wave.rate) == (3000, 16000)
    assert np.abs(wave.samples).max() == pytest.approx(0.5)
    assert wave.samples[0] == wave.samples[999] == wave.samples[1000] == 0.0
    gain = wave.samples[500] / parts[0][500]
    np.testing.assert_allclose(wave.samples[80:920], gain * parts[0][80:920], rtol=1e-5)
    with pytest.raises(InputError, match="an empty or silent recording"):
        join([np.zeros(100, np.float32)])


def test_written_challenge_is_valid_and_complete(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    utterances = []
    for s in range(8):
        for word in "abcd":
            for r in range(5):
                path = tmp_path / "in" / f"s{s}-{word}-{r}.wav"
                save(path, Waveform(rng.normal(0, 0.05, 800).astype(np.float32), 8000))
                utterances.append(Utterance(path.stem, path, f"s{s}", "fm"[s % 2], phrase=word))
    made = design(Corpus("noise", tuple(utterances)), ChallengePlan(task=2, join=(2, 3), phrases=3, known=1, tests=2))
    out = write_challenge(made, tmp_path / "out", source="noise")
    challenge, faults = check(out)
    assert list(faults) == []
    assert challenge.task == 2
    assert challenge.subset("eval").keys is not None
    file, said = next(iter(made.evaluation.items()))
    assert load(challenge.path("evaluation", file)).duration == pytest.approx(0.1 * len(said.parts), abs=1e-3)
    assert "it is not the data of that challenge" in (out / "README.txt").read_text()
    assert not list(tmp_path.glob(".voiceveil-part-*"))
    with pytest.raises(InputError, match="the folder exists and is not empty"):
        write_challenge(made, out)
    save(utterances[0].path, Waveform(np.zeros(800, np.float32), 8000))
    for utterance in utterances:
        utterance.path.write_bytes(b"") if utterance.speaker == "s7" else None
    with pytest.raises(InputError, match="the file is empty"):
        write_challenge(made, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert not list(tmp_path.glob(".voiceveil-part-*"))
