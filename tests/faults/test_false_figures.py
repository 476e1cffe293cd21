"""Figures that say nothing must not pass: each broken input has a named check, and good input has none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import tests.support.small_challenge  # registers the encoder `bumps`
import voiceveil.attack as attack
from voiceveil.attack.checks import check_audio, check_scores, check_shared_utterances, check_trials
from voiceveil.audio import Waveform, load, save
from voiceveil.cli.main import main
from voiceveil.core.checks import NAMES, Check, failed, merged
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance, open_corpus, write_kaldi
from voiceveil.dsp.degenerate import is_noise, is_silent, same_signal
from voiceveil.evaluation.results import Figure, Results
from voiceveil.metrics import ScoredTrials
from voiceveil.run.cache import Cache
from voiceveil.testing import synthetic_voice

Samples = NDArray[np.float32]
SPEAKERS = {"f": (10, 11, 12, 13), "m": (20, 21, 22, 23)}


def names(checks: list[Check] | tuple[Check, ...]) -> list[str]:
    return [check.name for check in checks]


def scores(shift: float, count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.standard_normal(count) + shift, rng.standard_normal(4 * count)


@pytest.mark.parametrize("shift", [3.0, 1.0, 0.0, -0.1])
def test_ordinary_scores_give_no_warning(shift: float) -> None:
    assert check_scores(*scores(shift)) == []


def test_constant_scores_give_a_warning() -> None:
    (check,) = check_scores(np.zeros(10), np.zeros(30), where="campplus, libri_dev")
    assert check.name == "constant-scores"
    assert "All 40 scores are 0 (campplus, libri_dev)." in check.seen
    assert str(check).startswith("WARNING constant-scores: All scores are equal.")


def test_scores_that_differ_by_rounding_count_as_constant() -> None:
    noise = np.random.default_rng(0).standard_normal(40)
    assert names(check_scores(1.0 + 1e-9 * noise[:10], 1.0 + 1e-9 * noise[10:])) == ["constant-scores"]
    assert check_scores(100.0 + 1e-2 * noise[:10], 100.0 + 1e-2 * noise[10:]) == []


def test_infinite_scores_give_no_warning() -> None:
    assert check_scores([np.inf, 2.0, 3.0], [-np.inf, 0.0, 1.0]) == []
    assert names(check_scores([np.inf, np.inf], [np.inf])) == ["constant-scores"]


def test_scores_with_one_dominant_value_give_a_warning() -> None:
    target, nontarget = scores(2.0)
    target[:300], nontarget[:900] = 0.25, 0.25
    (check,) = check_scores(target, nontarget)
    assert check.name == "tied-scores"
    assert "1,200 of 2,000 scores (60%) are 0.25" in check.seen
    target[:300] = np.linspace(0, 1, 300)
    assert check_scores(target, nontarget) == []  # 45%: not most of them


def test_swapped_labels_give_a_warning() -> None:
    target, nontarget = scores(2.0)
    (check,) = check_scores(-target, -nontarget)
    assert check.name == "eer-above-half"
    assert "84." in check.seen or "83." in check.seen


def test_eer_above_one_half_by_chance_gives_no_warning() -> None:
    assert check_scores([0.1, 0.2, 0.4], [0.3, 0.5, 0.15]) == []


def test_swapped_labels_are_judged_by_an_interval_over_speakers() -> None:
    rng = np.random.default_rng(5)
    enroll, heard = (side.reshape(-1) for side in np.meshgrid(np.arange(12), np.repeat(np.arange(12), 4)))
    target = enroll == heard
    trials = ScoredTrials.of_speakers(rng.standard_normal(len(enroll)) - 2.0 * target, target, enroll, heard)
    assert names(check_trials(trials)) == ["eer-above-half"]
    assert check_trials(trials.with_scores(-trials.score)) == []


def test_shared_utterances_are_found_by_id_and_content() -> None:
    enrolled: dict[str, bytes | None] = {"a": b"1", "b": b"2", "c": None}
    assert check_shared_utterances(enrolled, {"d": b"3", "e": None}) == []
    by_id, by_content = check_shared_utterances(enrolled, {"a": b"1", "d": b"2", "e": b"3"}, where="toy")
    assert by_id.seen == "1 of 3 trial utterances are enrolled, e.g. a (toy)."
    assert by_content.seen == "1 of 3 trial utterances have the content of an enrolled one, e.g. d is b (toy)."


def test_checks_are_merged_by_name() -> None:
    checks = [failed("tied-scores", "Two."), failed("silent-audio", "One."), failed("tied-scores", "Three.")]
    once = merged([*checks, *checks])
    assert [(check.name, check.seen) for check in once] == [("silent-audio", "One."), ("tied-scores", "Two. Three.")]
    (many,) = merged(failed("tied-scores", f"{n}.") for n in range(1000))
    assert many.seen == "0. 1. 2. 3. 4. 5. And 994 more such cases."


def test_checks_round_trip_through_a_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results = Results("mine", "vpc2024", (), {}, (failed("tied-scores", "Two."), failed("silent-audio", "One.")))
    results.save(path)
    assert Results.load(path) == results


@pytest.mark.parametrize("value", [None, 3, "text", [1, None, {"title": "x"}], {"name": "x"}])
def test_checks_of_an_invalid_file_are_rejected(value: object, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    Results("mine", "vpc2024", ()).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "checks": value}))
    with pytest.raises(InputError, match="checks"):
        Results.load(path)


def test_names_of_checks_are_stable() -> None:
    assert NAMES == (
        "identical-audio",
        "silent-audio",
        "noise-audio",
        "repeated-audio",
        "swapped-audio",
        "shared-utterances",
        "training-speakers-in-test",
        "constant-scores",
        "tied-scores",
        "eer-above-half",
    )


# Audio


def spoken(number: int = 0, seconds: float = 3.0) -> Samples:
    return synthetic_voice(number % 7, number, seconds=seconds).samples


def whispered(samples: Samples) -> Samples:
    """Noise with the spectral envelope of a voice, frame by frame."""
    from scipy.signal import istft, stft

    rng = np.random.default_rng(0)
    voice = stft(samples, 16000, nperseg=512)[2]
    noise = stft(rng.standard_normal(len(samples)), 16000, nperseg=512)[2]
    smooth = np.apply_along_axis(lambda column: np.convolve(column, np.hanning(15) / 7, "same"), 0, np.abs(voice))
    return np.asarray(istft(smooth * noise)[1], dtype=np.float32)


def noise(power: int, seconds: float = 3.0) -> Samples:
    rng = np.random.default_rng(power)
    spectrum = np.fft.rfft(rng.standard_normal(int(16000 * seconds)))
    made = np.fft.irfft(spectrum * np.arange(1, len(spectrum) + 1.0) ** (-power / 2))
    return np.asarray(0.3 * made / np.abs(made).max(), dtype=np.float32)


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("seconds", [0.6, 3.0])
def test_noise_of_any_color_is_detected(power: int, seconds: float) -> None:
    assert is_noise(noise(power, seconds))
    louder = np.linspace(0.1, 1.0, int(16000 * seconds), dtype=np.float32)
    assert is_noise(noise(power, seconds) * louder)


@pytest.mark.parametrize("number", range(5))
def test_voiced_and_whispered_speech_are_not_noise(number: int) -> None:
    assert not is_noise(spoken(number))
    assert not is_noise(whispered(spoken(number)))


def test_steady_tone_counts_as_noise_and_short_audio_is_not_judged() -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(32000) / 16000).astype(np.float32)
    assert is_noise(tone)
    assert not is_noise(tone[:4000])
    assert not is_noise(tone[:0])


def test_silence_is_detected() -> None:
    assert is_silent(np.zeros(16000, np.float32))
    assert is_silent(np.zeros(0, np.float32))
    assert is_silent(noise(0) * np.float32(1e-3))
    click = np.zeros(16000, np.float32)
    click[50] = 1.0
    assert is_silent(click)
    assert not is_silent(spoken() * np.float32(0.03))


COPIES: dict[str, Callable[[Samples], Samples]] = {
    "itself": lambda x: x,
    "gain": lambda x: np.float32(0.1) * x,
    "polarity": lambda x: -x,
    "16 bits": lambda x: (np.round(x * 32767) / 32768).astype(np.float32),
    "later": lambda x: np.concatenate([np.zeros(3000, np.float32), x]),
    "earlier": lambda x: x[3000:],
    "much later": lambda x: np.concatenate([np.zeros(40000, np.float32), x]),
    "backwards": lambda x: x[::-1].copy(),
    "noise": lambda x: (x + 0.02 * np.std(x) * np.random.default_rng(0).standard_normal(len(x))).astype(np.float32),
    "narrow": lambda x: load_again(x, 8000),
}


def load_again(samples: Samples, rate: int) -> Samples:
    return Waveform(Waveform(samples, 16000).resampled(rate).samples, rate).resampled(16000).samples


@pytest.mark.parametrize("how", list(COPIES))
def test_copy_is_the_same_signal(how: str) -> None:
    for number in range(3):
        assert same_signal(spoken(number), COPIES[how](spoken(number)))


@pytest.mark.parametrize("format_", ["OGG", "MP3"])
def test_lossy_copy_is_the_same_signal(format_: str, tmp_path: Path) -> None:
    import soundfile

    path = tmp_path / f"copy.{format_.lower()}"
    soundfile.write(path, spoken(2), 16000, format=format_)
    assert same_signal(spoken(2), load(path, rate=16000).samples)


def test_other_speech_and_anonymized_speech_are_not_the_same_signal() -> None:
    from voiceveil.dsp.mcadams import McAdams

    assert not any(same_signal(spoken(n), spoken(n + 7)) for n in range(4))
    for alpha in (0.5, 0.7, 0.9):
        assert not any(same_signal(spoken(n), McAdams(alpha)(spoken(n)).astype(np.float32)) for n in range(3))
    assert not same_signal(spoken(), np.zeros(48000, np.float32))
    assert not same_signal(np.zeros(48000, np.float32), spoken())
    assert not same_signal(spoken(), np.zeros(0, np.float32))


@pytest.fixture(scope="module")
def swappable(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Utterance], dict[str, Utterance]]:
    """Return eight utterances of three seconds and their versions by McAdams' coefficient."""
    from voiceveil.dsp.mcadams import McAdams

    folder = tmp_path_factory.mktemp("swappable")
    sides: tuple[dict[str, Utterance], dict[str, Utterance]] = ({}, {})
    for number in range(8):
        original = spoken(number)
        for side, samples in zip(sides, (original, McAdams(0.75)(original).astype(np.float32)), strict=True):
            path = folder / f"{len(side)}-{side is sides[0]}.wav"
            save(path, Waveform(samples, 16000))
            side[f"u{number}"] = Utterance(f"u{number}", path, speaker=f"s{number % 4}")
    return sides


def test_swapped_anonymized_speech_gives_a_warning(
    swappable: tuple[dict[str, Utterance], dict[str, Utterance]],
) -> None:
    originals, anonymized = swappable
    assert check_audio(anonymized, originals, Cache(None)) == []
    keys = list(anonymized)
    swapped = {key: anonymized[other] for key, other in zip(keys, [*keys[3:], *keys[:3]], strict=True)}
    (check,) = check_audio(swapped, originals, Cache(None))
    assert check.name == "swapped-audio"
    assert "8 of 8 utterances that do not follow their original in time follow that of another one" in check.seen
    few = {**anonymized, keys[0]: anonymized[keys[1]], keys[1]: anonymized[keys[0]]}
    assert names(check_audio(few, originals, Cache(None))) == ["swapped-audio"]


def test_swapped_original_speech_gives_a_warning(
    swappable: tuple[dict[str, Utterance], dict[str, Utterance]],
) -> None:
    originals, _ = swappable
    keys = list(originals)
    foreign = {key: originals[other] for key, other in zip(keys, [*keys[3:], *keys[:3]], strict=True)}
    assert names(check_audio(foreign, originals, Cache(None))) == ["swapped-audio"]


def test_speech_of_another_rhythm_is_not_swapped(
    swappable: tuple[dict[str, Utterance], dict[str, Utterance]], tmp_path: Path
) -> None:
    originals, _ = swappable
    spoken_anew = {}
    for number, key in enumerate(originals):
        save(tmp_path / f"{key}.wav", Waveform(spoken(50 + number), 16000))
        spoken_anew[key] = Utterance(key, tmp_path / f"{key}.wav", speaker=originals[key].speaker)
    assert check_audio(spoken_anew, originals, Cache(None)) == []


# The verbs


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight speakers, sets to enroll and to try, and the same by B2."""
    import voiceveil as vv

    data = tmp_path_factory.mktemp("world")
    for part, gender, numbers in (
        ("enrolls", "fm", range(2)),
        ("trials_f", "f", range(2, 6)),
        ("trials_m", "m", range(2, 6)),
    ):
        name = f"libri_dev_{part}"
        role = "enroll" if part == "enrolls" else "trial"
        utterances = tuple(
            Utterance(f"{s}-{i}", data / name / f"{s}-{i}.wav", speaker=str(s), gender=sex, role=role, text="ONE TWO")
            for sex in gender
            for s in SPEAKERS[sex]
            for i in numbers
        )
        for utterance in utterances:
            number, index = map(int, utterance.id.split("-"))
            save(utterance.path, synthetic_voice(number, index, seconds=1.2))
        pairs = [(str(s), u.id, str(s) == u.speaker) for s in SPEAKERS[gender[0]] for u in utterances]
        columns = [np.array(column) for column in zip(*pairs, strict=True)]
        trials = Trials(*columns) if role == "trial" else None
        write_kaldi(Corpus(name, utterances, trials), data / name)
        assert not vv.anonymize(data / name, data, system="b2", seed=1).failures
    return data


@pytest.fixture
def data(world: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(world, tmp_path / "data"))


def spoil(data: Path, how: Callable[[str], Samples], *, every: int = 1) -> None:
    """Replace the audio of every so many anonymized utterances."""
    utterances = [u for name in sorted(data.glob("*_b2")) for u in open_corpus(name)]
    for utterance in utterances[::every]:
        save(utterance.path, Waveform(how(utterance.id), 16000))


def original(data: Path) -> Callable[[str], Samples]:
    """Utterance id -> the original samples."""
    paths = {u.id: u.path for name in data.glob("libri*") if not name.name.endswith("_b2") for u in open_corpus(name)}
    return lambda key: load(paths[key]).samples


def attacked(data: Path, attackers: tuple[str, ...] = ("bumps",)) -> attack.AttackResult:
    return attack.run(data, anon="_b2", attackers=attackers, resamples=20)


def test_correct_speech_gives_no_warning(world: Path) -> None:
    assert attacked(world).checks == ()
    assert attack.run(world, attackers=["bumps"], resamples=20).checks == ()


def test_unchanged_speech_gives_a_warning(data: Path) -> None:
    source = original(data)
    spoil(data, lambda key: np.float32(0.5) * source(key)[200:], every=4)
    (check,) = attacked(data).checks
    assert check.name == "identical-audio"
    assert "12 of 48 utterances" in check.seen


def test_silent_and_noisy_output_gives_a_warning(data: Path) -> None:
    spoil(data, lambda key: np.zeros(16000, np.float32), every=6)
    assert "silent-audio" in names(attacked(data).checks)
    spoil(data, lambda key: noise(len(key) % 3, 1.2))
    assert "noise-audio" in names(attacked(data).checks)


def test_constant_cue_gives_no_warning(world: Path) -> None:
    assert attacked(world, ("free:duration",)).checks == ()  # all utterances have one length


def test_one_recording_for_all_utterances_gives_a_warning(data: Path) -> None:
    spoil(data, lambda key: spoken(3, 1.2))
    checks = attacked(data).checks
    assert set(names(checks)) >= {"repeated-audio", "constant-scores"}
    assert "48 of 48 utterances have one and the same audio" in checks[0].seen
    gain = iter(np.linspace(0.2, 0.9, 100))
    spoil(data, lambda key: np.float32(next(gain)) * spoken(3, 1.2))
    checks = attacked(data).checks
    assert "47 of 47 pairs of utterances that were compared sound the same" in checks[0].seen


def test_silence_in_the_original_gives_no_warning(data: Path) -> None:
    for name in ("libri_dev_enrolls", "libri_dev_enrolls_b2"):
        save(next(iter(open_corpus(data / name))).path, Waveform(np.zeros(16000, np.float32), 16000))
    assert attacked(data, ("free:duration",)).checks == ()


def test_enrollment_among_the_trials_gives_a_warning(data: Path) -> None:
    enrolled = next(u for u in open_corpus(data / "libri_dev_enrolls") if u.gender == "f")
    trial = next(u for u in open_corpus(data / "libri_dev_trials_f") if u.speaker == enrolled.speaker)
    shutil.copy(enrolled.path, trial.path)
    (check,) = attacked(data).checks
    assert check.name == "shared-utterances"
    assert f"{trial.id} is {enrolled.id} (libri_dev_trials_f)" in check.seen


def test_renamed_training_speech_among_the_trials_gives_a_warning(data: Path) -> None:
    heard = open_corpus(data / "libri_dev_trials_f_b2")
    renamed = [Utterance(f"x{u.id}", u.path, speaker=f"x{u.speaker}", gender="f") for u in heard]
    write_kaldi(Corpus("learned", tuple(renamed)), data / "learned", {u.id: u.path for u in renamed})
    result = attack.run(data, anon="_b2", attackers=["bumps"], train=[data / "learned"], resamples=20)
    check = next(check for check in result.checks if check.name == "training-speakers-in-test")
    assert "16 of 16 training utterances of learned are in the test data" in check.seen


def test_encoder_trained_on_test_speakers_gives_a_warning(world: Path) -> None:
    from dataclasses import dataclass

    from voiceveil.models.speaker.encoders import TrainingRecord, encoders

    @dataclass(frozen=True)
    class Knowing(tests.support.small_challenge.Bumps):
        def training(self) -> TrainingRecord:
            return TrainingRecord(speakers=3, speaker_ids=("11", "20", "99"))

    encoders.register("knowing")(lambda argument: Knowing("knowing"))
    (check,) = attacked(world, ("knowing",)).checks
    assert check.name == "training-speakers-in-test"
    assert check.seen == "The encoder of knowing was trained on 2 of 8 test speakers, e.g. 11."


def test_attack_command_prints_and_stores_the_warning(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = original(data)
    spoil(data, source)
    options = ["attack", "--data", str(data), "--anon", "_b2", "--attackers", "bumps", "--resamples", "20", "--quiet"]
    assert main([*options, "--out", str(data / "out")]) == 0
    printed = capsys.readouterr()
    for text in printed:
        assert "WARNING identical-audio: Anonymized speech is the original speech." in text
        assert "Do not use or publish these figures" in text
    written = json.loads((data / "out" / "attack.json").read_text())["checks"]
    assert [check["name"] for check in written] == ["identical-audio"]
    assert main([*options, "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["checks"] == written
    assert "WARNING identical-audio" in printed.err


def test_evaluation_prints_stores_and_reports_the_warning(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["evaluate", "--data", str(world), "--attackers", "bumps", "--recognizers", "counter", "--jobs", "1"]
    assert main([*options, "--system", "identity", "--out", str(tmp_path / "out"), "--quiet"]) == 0
    for text in capsys.readouterr():
        assert "WARNING identical-audio" in text
    results = Results.load(tmp_path / "out" / "results.json")
    assert names(results.checks) == ["identical-audio"]
    page = (tmp_path / "out" / "report.html").read_text()
    first = page[page.index("Read this first") :]
    assert first.index("WARNING identical-audio") < first.index("No attacker has learned")


def test_score_files_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, nontarget = scores(2.0, 60)
    lines = [f"{-s} {kind}" for kind, side in (("target", target), ("nontarget", nontarget)) for s in side]
    (tmp_path / "scores").write_text("\n".join(lines) + "\n")
    assert main(["score", str(tmp_path / "scores"), "--metrics", "eer"]) == 0
    for text in capsys.readouterr():
        assert "WARNING eer-above-half" in text
    assert main(["score", str(tmp_path / "scores"), "--metrics", "eer", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [check["name"] for check in printed["files"][0]["checks"]] == ["eer-above-half"]


def test_ranking_marks_systems_with_failed_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tuple(
        Figure(
            metric,
            0.3,
            dataset,
            split="test",
            gender=gender,
            condition=condition,
            attacker="a" if metric == "eer" else "",
        )
        for metric, dataset, gender, condition in (
            ("eer", "libri_test", "f", "aa"),
            ("eer", "libri_test", "m", "aa"),
            ("wer", "libri_test", "", "a"),
            ("uar", "IEMOCAP_test", "", "a"),
        )
    )
    Results("good", "vpc2024", figures).save(tmp_path / "good.json")
    bad = Results("bad", "vpc2024", figures, {}, (failed("silent-audio", "40 of 48 are silent."),))
    bad.save(tmp_path / "bad.json")
    files = [str(tmp_path / name) for name in ("good.json", "bad.json")]
    assert main(["rank", *files]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("bad (!)") == 3  # in the table, by WER and by UAR
    assert "good (!)" not in printed.out
    for text in printed:
        assert "(!) bad: WARNING silent-audio: Anonymized speech is silent. 40 of 48 are silent." in text
    assert main(["rank", *files, "--json"]) == 0
    systems = json.loads(capsys.readouterr().out)["systems"]
    assert [[check["name"] for check in system["checks"]] for system in systems] == [[], ["silent-audio"]]


def test_comparison_marks_systems_with_failed_checks(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["evaluate", "--data", str(world), "--attackers", "bumps", "--recognizers", "counter", "--jobs", "1"]
    assert main([*options, "--system", "identity,b2", "--out", str(tmp_path / "out"), "--quiet", "--no-report"]) == 0
    printed = capsys.readouterr()
    assert "identity (!)" in printed.out
    assert "b2 (!)" not in printed.out
    for text in printed:
        assert "(!) identity: WARNING identical-audio" in text
    page = (tmp_path / "out" / "comparison.html").read_text()
    assert page.index("Read this first") < page.index("WARNING identical-audio") < page.index("All systems")
    rows = json.loads((tmp_path / "out" / "comparison.json").read_text())["rows"]
    assert {row["system"]: len(row["checks"]) for row in rows} == {"original": 0, "identity": 1, "b2": 0}


# The risk assessment


def table(path: Path, vectors: NDArray[np.float64]) -> Path:
    """Write embeddings of ten speakers, four utterances each in A and in B."""
    numbers = [divmod(number, 8) for number in range(len(vectors))]
    np.savez(
        path,
        utterance=np.array([f"{speaker}-{utterance}" for speaker, utterance in numbers]),
        speaker=np.array([f"s{speaker}" for speaker, _ in numbers]),
        set=np.array(["AB"[utterance % 2] for _, utterance in numbers]),
        vector=vectors.astype(np.float32),
    )
    return path


def embeddings(spread: float = 0.5) -> NDArray[np.float64]:
    rng = np.random.default_rng(9)
    vectors = np.repeat(rng.standard_normal((10, 16)), 8, axis=0) + spread * rng.standard_normal((80, 16))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def risk(tmp_path: Path, capsys: pytest.CaptureFixture[str], **given: NDArray[np.float64]) -> tuple[set[str], str]:
    """Return the names of failed checks, and the page."""
    files = [f"--embeddings={name}={table(tmp_path / f'{name}.npz', vectors)}" for name, vectors in given.items()]
    report = tmp_path / "risk.html"
    options = ["--lengths=1", "--draws=1", f"--report={report}", "--json", "--norm=raw"]
    assert main(["risk", *files, *options]) == 0
    printed = capsys.readouterr()
    checks = json.loads(printed.out)["checks"]
    assert all(f"WARNING {check['name']}" in printed.err for check in checks)
    return {check["name"] for check in checks}, report.read_text()


def test_correct_embeddings_give_no_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, page = risk(tmp_path, capsys, original=embeddings(), ignorant=embeddings(1.5))
    assert found == set()
    assert "WARNING" not in page


def test_embeddings_of_unchanged_speech_give_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, page = risk(tmp_path, capsys, original=embeddings(), ignorant=embeddings())
    assert found == {"identical-audio"}
    assert page.index("Read this first") < page.index("WARNING identical-audio") < page.index("Summary: the three")


def test_identical_embeddings_give_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = np.repeat(embeddings()[:1], 80, axis=0)
    assert risk(tmp_path, capsys, informed=same)[0] == {"shared-utterances", "repeated-audio", "constant-scores"}


def test_limit_fails_when_a_check_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((80, 16))  # nobody can be linked
    options = ["--lengths=1", "--draws=1", "--max-linkability=1", f"--report={tmp_path / 'risk.html'}", "--norm=raw"]
    options.append("--overwrite")
    file = table(tmp_path / "informed.npz", vectors)
    assert main(["risk", f"--embeddings=informed={file}", *options]) == 0
    assert "limit kept" in capsys.readouterr().out
    vectors[1] = vectors[0]
    file = table(tmp_path / "informed.npz", vectors)
    assert main(["risk", f"--embeddings=informed={file}", *options]) == 1
    assert "limit NOT JUDGED" in capsys.readouterr().out
    page = (tmp_path / "risk.html").read_text()
    assert "not judged" in page
    assert "✔ kept" not in page
    assert page.count("Not known: read the warnings first") == 2


def test_report_gives_no_grade_when_a_check_fails(tmp_path: Path) -> None:
    from dataclasses import replace

    from tests.support.report_world import make_results
    from voiceveil.report.page import write_report

    folder = make_results(tmp_path / "results")
    assert "Not known: read the warnings first" not in write_report(folder).read_text()
    results = Results.load(folder / "results.json")
    replace(results, checks=(failed("silent-audio", "All are."),)).save(folder / "results.json", overwrite=True)
    page = write_report(folder, tmp_path / "again.html").read_text()
    assert page.count("Not known: read the warnings first") == 1


def test_embedding_in_both_sets_gives_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors = embeddings()
    vectors[1] = vectors[0]
    assert risk(tmp_path, capsys, informed=vectors)[0] == {"shared-utterances"}


def test_embeddings_with_swapped_speakers_give_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors = embeddings()
    vectors[1::2] *= -1.0  # B points away from A
    assert risk(tmp_path, capsys, informed=vectors)[0] == {"eer-above-half"}


def test_recordings_of_a_risk_assessment_are_checked(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The release is the original speech, and one utterance of B is one of A."""
    data = tmp_path / "risk"
    shutil.copytree(world / "libri_dev_trials_f", data / "toy")
    shutil.copy(data / "toy" / "10-2.wav", data / "toy" / "10-3.wav")
    design = ["corpus", "protocol", str(data / "toy"), str(data), "--name", "toy", "--legal"]
    assert main([*design, "--a-utterances", "2", "--b-utterances", "2", "--seed", "1"]) == 0
    sides = [f"--original={data / f'toy_{side}'}" for side in "AB"] + [f"--anonymized={data / 'toy'}"]
    encoders = ["--encoder=original=bumps", "--encoder=ignorant=bumps", "--encoder=informed=bumps"]
    capsys.readouterr()
    options = ["--lengths=1", "--draws=1", "--json", "--quiet", "--enrolled=4"]
    assert main(["risk", f"--protocol={data / 'protocol.toml'}", *sides, *encoders, *options]) == 0
    printed = capsys.readouterr()
    found = {check["name"]: check["seen"] for check in json.loads(printed.out)["checks"]}
    assert "16 of 16 utterances that were looked at equal the original" in found["identical-audio"]
    assert "WARNING identical-audio" in printed.err
