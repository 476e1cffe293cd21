"""Resynthesis with a small decoder: lengths, silence, pieces, workers, and errors of models."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.pool import make_pool
from tests.support.tiny_decoder import write_decoder, write_generator, write_of_words, write_two_stages
from voiceveil.audio import Samples, Waveform, load, save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus
from voiceveil.models.content.features import MoonshineContent, at_speed, content_on_frames, normalize_content
from voiceveil.models.weights import store
from voiceveil.systems import Anonymizer, anonymize, system, systems
from voiceveil.systems.feature_cache import feature_cache
from voiceveil.systems.keys import Key, keyed_rng
from voiceveil.systems.resynthesis import pipeline
from voiceveil.systems.resynthesis.base import Resynthesis
from voiceveil.systems.resynthesis.loader import load_pipeline
from voiceveil.systems.resynthesis.pool import load_pool, save_pool
from voiceveil.systems.resynthesis.speaking_style import SpeakingStyle, f0_statistics
from voiceveil.systems.resynthesis.synthesis import LoadedStage
from voiceveil.testing import check_anonymizer, synthetic_voice

RATE = 16000


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("decoder"))


@pytest.fixture(scope="module")
def b1b(weights: Path) -> Resynthesis:
    anonymizer = system("b1b", weights=str(weights))
    assert isinstance(anonymizer, Resynthesis)
    return anonymizer


def converted(anonymizer: Resynthesis, samples: Samples, seed: int = 0) -> Samples:
    return anonymizer.convert(Waveform(samples, RATE), np.random.default_rng(seed)).samples


@pytest.mark.slow
def test_shipped_system_passes_the_conformance_checks() -> None:
    check_anonymizer(system("b1b"))


def test_bottleneck_applies_only_to_decoders_with_codes(weights: Path) -> None:
    """The bottleneck changes the output of the shipped decoder, and not of one without codes."""
    samples = synthetic_voice(seconds=1.0).samples
    for given, same in (("", False), (str(weights), True)):
        outputs = [converted(system("b1b", weights=given, bottleneck=b), samples) for b in (0.0, 0.7, 1.0)]  # type: ignore[arg-type]
        assert all(np.array_equal(outputs[0], other) == same for other in outputs[1:])


# --- What goes in -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 159, 160, 161, 800, 4799, 4801, 20011])
def test_output_has_the_input_length(b1b: Resynthesis, count: int) -> None:
    """Also under 0.3 s: 4800 samples."""
    samples = synthetic_voice(seconds=1.5).samples[:count]
    output = converted(b1b, samples)
    assert len(output) == count
    assert np.isfinite(output).all()


def test_output_level_equals_the_input_level(b1b: Resynthesis) -> None:
    samples = synthetic_voice(seconds=1.0).samples
    for gain in (1e-3, 0.3):
        output = converted(b1b, np.float32(gain) * samples)
        assert np.std(output) == pytest.approx(gain * np.std(samples), rel=0.01)
    loud = converted(b1b, samples / np.abs(samples).max())
    assert np.abs(loud).max() <= 1.0


def test_silence_stays_silent_and_speech_after_it_is_converted(b1b: Resynthesis) -> None:
    assert not converted(b1b, np.zeros(RATE, dtype=np.float32)).any()
    assert not converted(b1b, np.full(RATE, 1e-6, dtype=np.float32)).any()


def test_unvoiced_speech_keeps_its_level(b1b: Resynthesis) -> None:
    noise = (0.1 * np.random.default_rng(0).standard_normal(RATE)).astype(np.float32)
    assert not load_pipeline(b1b).f0(noise).any()
    assert np.std(converted(b1b, noise)) == pytest.approx(np.std(noise), rel=0.01)


# --- The pseudo-speaker -------------------------------------------------------------------------------------------


def test_output_depends_on_the_pseudo_speaker_only(b1b: Resynthesis) -> None:
    samples = synthetic_voice(seconds=1.0).samples
    same, other = (load_pipeline(replace(b1b, gender=g)) for g in ("same", "other"))
    statistics = f0_statistics(same.f0(samples))
    assert statistics is not None
    source = same.pool.gender_of(same.extractors.speaker(Waveform(samples, RATE)), statistics.mean)
    embedding = same.source_embedding(samples)
    drawn = [
        loaded.pseudo_speaker(embedding, statistics, np.random.default_rng(1)).embedding for loaded in (same, other)
    ]
    assert [same.pool.gender_of(vector) for vector in drawn] == [source, {"f": "m", "m": "f"}[source]]


@pytest.mark.parametrize("gender", ["f", "m"])
def test_stated_gender_overrides_the_estimate(b1b: Resynthesis, gender: str) -> None:
    """The stated gender overrides the estimated one unless the user says otherwise; one pipeline serves all."""
    samples, loaded = synthetic_voice(seconds=1.0).samples, load_pipeline(b1b)
    drawn = loaded.pseudo_speaker(loaded.source_embedding(samples), None, np.random.default_rng(1), gender).embedding
    assert loaded.pool.gender_of(drawn) == gender
    with_gender = b1b.with_source_gender(gender)
    assert with_gender == replace(b1b, source_gender=gender)  # type: ignore[arg-type]
    assert load_pipeline(with_gender) is loaded
    assert b1b.with_source_gender(None) is b1b
    for own in ("estimated", "f", "m"):
        chosen = replace(b1b, source_gender=own)
        assert chosen.with_source_gender(gender) is chosen


def test_stating_the_estimated_gender_changes_nothing(b1b: Resynthesis) -> None:
    samples = synthetic_voice(seconds=1.0).samples
    estimated = converted(b1b, samples)
    stated = {gender: converted(b1b.with_source_gender(gender), samples) for gender in "fm"}
    assert sorted(np.array_equal(estimated, output) for output in stated.values()) == [False, True]
    assert np.array_equal(estimated, converted(replace(b1b, source_gender="estimated"), samples))


def test_changed_gender_in_the_corpus_is_converted_again(b1b: Resynthesis, tmp_path: Path) -> None:
    waves = [synthetic_voice(speaker, seconds=1.0) for speaker in range(2)]
    for speaker, wave in enumerate(waves):
        save(tmp_path / f"s{speaker}.wav", wave)

    def run(genders: str) -> tuple[int, list[str]]:
        """Return the number of converted recordings, and the source gender that explains each output."""
        rows = [f"s{speaker},s{speaker}.wav,{gender}" for speaker, gender in enumerate(genders)]
        (tmp_path / "all.csv").write_text("\n".join(["id,path,gender", *rows]) + "\n")
        out = tmp_path / "out"
        done = anonymize(tmp_path / "all.csv", out, system=b1b, seed=1).done
        explained = []
        for utterance in open_corpus(tmp_path / "all.csv"):
            output = load(out / "audio" / f"{utterance.id}.wav").samples
            wave = load(utterance.path)
            expected = {
                g: b1b.with_source_gender(g).convert(wave, keyed_rng(Key.from_seed(1), "utterance", utterance))
                for g in "fm"
            }
            explained += [gender for gender, wave in expected.items() if np.allclose(wave.samples, output, atol=1e-4)]
        return done, explained

    assert run("fm") == (2, ["f", "m"])
    assert run("fm") == (0, ["f", "m"])
    assert run("ff") == (1, ["f", "f"])


def test_moved_intonation_has_the_mean_f0_of_the_pseudo_speaker(b1b: Resynthesis) -> None:
    loaded = load_pipeline(replace(b1b, intonation="moved", strategy="pool-random"))
    stream = pipeline.ResynthesisStream(loaded, np.random.default_rng(0))
    samples = synthetic_voice(seconds=1.0).samples
    pseudo = loaded.pseudo_speaker(loaded.source_embedding(samples), None, np.random.default_rng(0))
    f0 = loaded.f0(samples)
    content, stream._f0_statistics = loaded.content(samples, 1.0), f0_statistics(f0)
    moved = stream._convert_f0(content, f0, pseudo, stream._style(pseudo))
    assert np.array_equal(moved > 0, f0 > 0)
    assert np.log(moved[moved > 0]).mean() == pytest.approx(pseudo.log_f0, abs=1e-3)
    unvoiced = np.zeros(5, dtype=np.float32)
    assert np.array_equal(stream._convert_f0(content[:5], unvoiced, pseudo, SpeakingStyle()), unvoiced)


def test_content_is_averaged_over_two_speeds(b1b: Resynthesis) -> None:
    """Frame by frame the mean of both speeds; extracted once at speed 1."""
    loaded, samples = load_pipeline(b1b), synthetic_voice(seconds=1.0).samples
    both = []
    for speed in (0.8, 1.25):
        part = at_speed(loaded.extractors.content, speed)
        features = normalize_content(part(Waveform(samples * np.float32(0.06 / np.sqrt(np.mean(samples**2))), RATE)))
        both.append(content_on_frames(features, part.hop, part.offset, 100))
    np.testing.assert_allclose(loaded.content(samples, 0.8), (both[0] + both[1]) / 2, atol=1e-3)
    np.testing.assert_allclose(loaded.content(samples, 0.8), loaded.content(samples, 1.25), atol=1e-6)


def test_cached_features_give_the_same_output(
    b1b: Resynthesis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features are extracted once, and the output of other systems is the same as without the cache."""
    samples = synthetic_voice(seconds=1.0).samples
    both = [b1b, replace(b1b, gender="other", intonation="moved")]
    plain = [system.transform(samples, np.random.default_rng(1)) for system in both]
    with feature_cache(tmp_path / "features.sqlite"):
        first = both[0].transform(samples, np.random.default_rng(1))
        monkeypatch.setattr(MoonshineContent, "__call__", lambda *_: pytest.fail("heard again"))
        second = both[1].transform(samples, np.random.default_rng(1))
    assert np.array_equal(first, plain[0])
    assert np.array_equal(second, plain[1])


# --- Long recordings ----------------------------------------------------------------------------------------------


class Echo:
    """A decoder that returns its input: positions show how pieces are joined."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def __call__(self, content: Samples, f0: Samples, speaker: Samples, rng: np.random.Generator) -> Samples:
        self.lengths.append(len(f0))
        return np.repeat(f0, 160).astype(np.float32)


def test_pieces_join_to_the_whole(b1b: Resynthesis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every frame is in the output once, at its position; no piece is longer than 45 s."""
    echo = Echo()
    loaded = replace(load_pipeline(b1b), stages=(LoadedStage(echo, {}),))
    monkeypatch.setattr(
        pipeline.Pipeline, "content", lambda self, samples, speed: np.zeros((-(-len(samples) // 160), 1), np.float32)
    )
    monkeypatch.setattr(pipeline.Pipeline, "f0", lambda self, samples: samples[::160])  # the recording tells its frames
    recording = np.repeat(np.linspace(0.2, 0.6, 100 * 103, dtype=np.float32), 160)  # 103 s
    stream = pipeline.ResynthesisStream(loaded, np.random.default_rng(0))
    pieces = [stream.push(recording[i : i + 7000]) for i in range(0, len(recording), 7000)]
    joined = np.concatenate([*pieces, stream.close()])
    np.testing.assert_allclose(joined, recording, rtol=1e-4)
    assert echo.lengths == [3000, 3000, 3000, 1600]
    assert max(map(len, pieces)) == 29 * RATE


def test_pieces_are_joined_at_the_quietest_place() -> None:
    source = np.ones(RATE, dtype=np.float32)
    source[6000:6400] = 0
    joined = pipeline._crossfaded(np.full(RATE, 1, np.float32), np.full(RATE, 2, np.float32), source)
    assert (joined[:6000] == 1).all()
    assert (joined[6400:] == 2).all()
    assert (np.diff(joined) >= 0).all()


# --- The networks of the challenges -------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), [("b1b", "hn-sinc-NSF generator"), ("joint-hifigan", "HiFi-GAN generator")])
def test_challenge_generators_are_deterministic_given_the_seed(tmp_path: Path, name: str, kind: str) -> None:
    anonymizer = system(name, weights=str(write_generator(tmp_path, kind)))
    samples = synthetic_voice(seconds=0.5).samples[:7777]
    first, again, other = (anonymizer.transform(samples, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert len(first) == len(samples)
    assert np.mean(first**2) == pytest.approx(np.mean(samples**2), rel=0.02)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_b1a_is_a_chain_of_two_networks(tmp_path: Path) -> None:
    anonymizer = system("b1a", weights=str(write_two_stages(tmp_path)))
    assert {"weights am", "weights nsf", "pool"} < anonymizer.models().keys()
    samples = synthetic_voice(seconds=0.5).samples[:7777]
    first, again, other = (anonymizer.transform(samples, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert len(first) == len(samples)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    (tmp_path / "nsf" / "model.safetensors").unlink()
    expected = (
        f"{tmp_path / 'nsf' / 'model.safetensors'}: no weights here (give the folder that `voiceveil train` wrote)"
    )
    assert refused(anonymizer) == expected


def test_exchanged_stages_of_b1a_are_rejected(tmp_path: Path) -> None:
    folder = write_two_stages(tmp_path)
    (folder / "am").rename(folder / "x")
    (folder / "nsf").rename(folder / "am")
    (folder / "x").rename(folder / "nsf")
    message = refused(system("b1a", weights=str(folder)))
    assert "these are weights of another architecture: 'mel vocoder', not 'acoustic model' (see " in message


# --- Runs ---------------------------------------------------------------------------------------------------------


def test_output_does_not_depend_on_the_number_of_workers(weights: Path, tmp_path: Path) -> None:
    for speaker in range(2):
        for number in range(2):
            save(tmp_path / "in" / f"s{speaker}" / f"u{number}.wav", synthetic_voice(speaker, number, seconds=0.7))
    key = tmp_path / "secret.key"
    key.write_bytes(b"a secret of thirty-two bytes ok.")
    key.chmod(0o600)
    outputs = []
    for jobs in ("1", "2"):
        out = tmp_path / f"out{jobs}"
        options = ["--system", "b1b", "--weights", str(weights), "--key-file", str(key), "--level", "speaker"]
        assert main(["anonymize", str(tmp_path / "in"), str(out), *options, "--jobs", jobs, "--quiet"]) == 0
        outputs.append({path.name + path.parent.name: path.read_bytes() for path in out.rglob("*.wav")})
    assert len(outputs[0]) == 4
    assert outputs[0] == outputs[1]


def test_resuming_with_other_weights_is_rejected(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "in" / "a.wav", synthetic_voice(seconds=0.4))
    own = tmp_path / "own"
    own.mkdir()
    model = own / "model.safetensors"
    model.write_bytes((weights / "model.safetensors").read_bytes())
    command = ["anonymize", str(tmp_path / "in"), str(tmp_path / "out"), "--system", "b1b", "--weights", str(own)]
    assert main([*command, "--seed", "1", "--quiet"]) == 0
    data = bytearray(model.read_bytes())
    data[-2] ^= 1
    model.write_bytes(bytes(data))
    assert main([*command, "--seed", "1", "--quiet"]) == 1
    assert re.search(r"model weights was \w{12}\.\.\., now \w{12}\.\.\. ", capsys.readouterr().err)


# --- Models that will not do --------------------------------------------------------------------------------------


def refused(anonymizer: Anonymizer) -> str:
    with pytest.raises(InputError) as caught:
        anonymizer.models()
    return str(caught.value)


def test_missing_torch_names_its_extra_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "in" / "a.wav", synthetic_voice(seconds=0.4))
    monkeypatch.setitem(sys.modules, "torch", None)
    out = tmp_path / "out"
    assert main(["anonymize", str(tmp_path / "in"), str(out), "--system", "b1b", "--quiet"]) == 1
    message = "b1b needs torch, which is not installed (pip install 'voiceveil[neural]')"
    assert capsys.readouterr().err.strip().endswith(message)
    assert not out.exists()


def test_too_small_pool_is_rejected_before_the_work(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "in" / "a.wav", synthetic_voice(seconds=0.4))
    out = tmp_path / "out"
    options = ["--system", "b1b", "--weights", str(weights), "--set", "candidates=200", "--set", "averaged=100"]
    assert main(["anonymize", str(tmp_path / "in"), str(out), *options, "--quiet"]) == 1
    error = capsys.readouterr().err
    assert "the pool has 130 speakers of gender f, and 200 candidates are asked for" in error
    assert "at most --set candidates=130" in error
    assert not out.exists()


def test_pool_of_another_encoder_is_rejected(b1b: Resynthesis, tmp_path: Path) -> None:
    save_pool(tmp_path / "pool.safetensors", make_pool())
    message = refused(replace(b1b, pool=str(tmp_path)))
    assert "this pool is of another speaker encoder: 'encoder 1', not 'campplus 1" in message
    assert message.endswith("(voiceveil train pool --speaker campplus)")


def test_pool_beside_the_weights_is_used(weights: Path, tmp_path: Path) -> None:
    own = write_decoder(tmp_path / "own")
    pool = load_pool(store.path("pool"))
    few = np.concatenate([pool.of_gender("f")[:90], pool.of_gender("m")[:90]])
    save_pool(
        own / "pool.safetensors",
        replace(
            pool,
            ids=tuple(pool.ids[row] for row in few),
            genders=pool.genders[few],
            embeddings=pool.embeddings[few],
            log_f0=pool.log_f0[few],
            ratings=None,
        ),
    )
    anonymizer = system("b1b", weights=str(own))
    assert isinstance(anonymizer, Resynthesis)
    assert len(load_pipeline(anonymizer).pool) == 180


def test_weights_for_other_features_are_rejected(tmp_path: Path) -> None:
    folder = write_decoder(tmp_path, content="content bottleneck 7")
    message = refused(system("b1b", weights=str(folder)))
    assert "these weights were trained with another content: 'content bottleneck 7', not 'content moonshine" in message
    assert message.endswith("(--set content=NAME as in the training, or other weights)")


@pytest.mark.parametrize(("name", "amount"), [("intonation", "predicted_f0_weight"), ("voicing", "voicing")])
def test_intonation_model_beside_the_weights_is_used(name: str, amount: str, tmp_path: Path) -> None:
    """One for other content features is an error; its hash is among the models of the system."""
    own = write_decoder(tmp_path)
    anonymizer = system("veil", privacy=1, weights=str(own))
    shipped = anonymizer.models()[f"weights {name}"]
    write_of_words(own, name)
    assert anonymizer.models()[f"weights {name}"] != shipped
    assert f"weights {name}" not in system("veil", privacy=0, weights=str(own)).models()
    write_of_words(own, name, content="content bottleneck 7")
    message = refused(anonymizer)
    assert "these weights were trained with another content: 'content bottleneck 7', not 'content moonshine" in message
    fix = f"(--set {amount}=0, or `voiceveil train {name} --out {name}` in the folder of the weights)"
    assert fix in message
    assert f"weights {name}" not in system("veil", privacy=1, weights=str(own), **{amount: 0}).models()


def test_weights_of_another_architecture_are_rejected(tmp_path: Path) -> None:
    save_pool(tmp_path / "model.safetensors", make_pool())
    message = refused(system("b1b", weights=str(tmp_path)))
    assert "these are weights of another architecture: 'pool of speakers', not 'source-filter decoder' or " in message

    from voiceveil.models.checkpoint import load_tensors, save_tensors

    folder = write_decoder(tmp_path / "wrong")
    tensors, record = load_tensors(folder / "model.safetensors", "source-filter decoder")
    record["size"]["width"] = 32
    save_tensors(folder / "model.safetensors", tensors, record)
    (folder / "record.json").unlink()
    message = refused(system("b1b", weights=str(folder)))
    assert "these are weights of another architecture than their record says: Error(s) in loading" in message


def test_changed_weights_are_rejected(tmp_path: Path) -> None:
    folder = write_decoder(tmp_path)
    model = folder / "model.safetensors"
    data = bytearray(model.read_bytes())
    data[-1] ^= 1
    model.write_bytes(bytes(data))
    expected = json.loads((folder / "record.json").read_text())["sha256"][:12]
    message = refused(system("b1b", weights=str(folder)))
    assert message.startswith(f"{model}: the weights were changed: their sha256 begins with ")
    assert message.endswith(f"it should begin with {expected} (copy the whole folder again)")


def test_missing_weights_are_rejected(tmp_path: Path) -> None:
    message = refused(system("b1b", weights=str(tmp_path / "nowhere")))
    assert message == f"{tmp_path / 'nowhere'}: no weights here (give the folder that `voiceveil train` wrote)"


def test_unknown_components_are_rejected(b1b: Resynthesis) -> None:
    assert "unknown content encoder 'moonshin' (did you mean moonshine?)" in refused(replace(b1b, content="moonshin"))
    assert "unknown pseudo-speaker strategy" in refused(replace(b1b, strategy="pool-farhest"))


def test_official_draws_are_rejected(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "in" / "a.wav", synthetic_voice(seconds=0.4))
    command = ["anonymize", str(tmp_path / "in"), str(tmp_path / "out"), "--system", "b1b", "--weights", str(weights)]
    assert main([*command, "--draws", "official", "--quiet"]) == 1
    assert "the official draws of b1b apply only to the challenge's own x-vectors and lists" in capsys.readouterr().err


def test_systems_without_weights_name_the_fix() -> None:
    without = [
        anonymizer for name in systems if isinstance(anonymizer := system(name), Resynthesis) and not anonymizer.shipped
    ]
    assert {anonymizer.name for anonymizer in without} >= {"b1b-resnet", "b1b-ssl"}
    for anonymizer in without:
        expected = "train them (see `voiceveil train --help`) and give --weights DIR"
        assert refused(anonymizer) == f"no weights of {anonymizer.name} ship with voiceveil ({expected})"


#: Megabytes that the peak of a process rises by, once it has converted a minute: a process of its own, as what other
#: tests leave behind is in the way.
GROWTH = """
import sys
from pathlib import Path
from voiceveil.cli.main import main
from voiceveil.testing.memory import peak_memory
folder, weights = sys.argv[1:]
def anonymize(name):
    options = ["--system", "b1b", "--weights", weights, "--seed", "1", "--quiet"]
    assert main(["anonymize", f"{folder}/{name}.wav", f"{folder}/{name}-out.wav", *options]) == 0
anonymize("short")
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew at what is in use
before = peak_memory()
anonymize("long")
print(peak_memory() - before)
"""


@pytest.mark.slow
def test_memory_is_bounded_for_long_recordings(b1b: Resynthesis, tmp_path: Path) -> None:
    """Over 90 minutes at low cost: most of it is digital silence, which is passed through."""
    wave = synthetic_voice(seconds=60.0)
    recording = np.zeros(93 * 60 * RATE, dtype=np.float32)
    recording[: len(wave)] = recording[-len(wave) :] = wave.samples
    save(tmp_path / "long.wav", Waveform(recording, RATE))
    save(tmp_path / "short.wav", wave)
    command = [sys.executable, "-c", GROWTH, str(tmp_path), b1b.weights]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
    # The recording has 357 MB in single precision. Pieces of 30 s and what the allocator keeps take 130 to 270 MB.
    assert grown < 340
    output = load(tmp_path / "long-out.wav")
    assert len(output) == len(recording)
    assert not output.samples[2 * 60 * RATE : -2 * 60 * RATE].any()
    assert np.std(output.samples[-RATE * 50 :]) > 1e-3


@pytest.mark.slow
def test_listing_systems_does_not_import_torch() -> None:
    """Users of b2 do not wait for torch."""
    script = "import sys; from voiceveil.systems import systems; print(*systems); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, stdout=subprocess.DEVNULL).returncode == 0
