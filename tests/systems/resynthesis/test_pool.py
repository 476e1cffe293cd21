"""Pools of speakers: building by the command line, saving, loading, errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from tests.support.pool import make_pool
from voiceveil.audio import load, save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.pitch.trackers import tracker
from voiceveil.models.speaker.encoders import encoder, l2_normalized
from voiceveil.models.weights import store
from voiceveil.systems.resynthesis.pool import load_pool, save_pool
from voiceveil.systems.resynthesis.rating import rate_voices
from voiceveil.systems.resynthesis.strategies import Gender, PoolRandom
from voiceveil.testing import synthetic_voice


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Kaldi directory of four voices, two of each gender, two utterances each."""
    folder = tmp_path_factory.mktemp("pool") / "data"
    folder.mkdir()
    lines: dict[str, list[str]] = {"wav.scp": [], "utt2spk": [], "spk2gender": []}
    for speaker in range(4):
        lines["spk2gender"].append(f"s{speaker} {'fm'[speaker % 2]}")
        for number in range(2):
            name = f"s{speaker}-{number}"
            save(folder / f"{name}.wav", synthetic_voice(speaker, number, seconds=0.6))
            lines["wav.scp"].append(f"{name} {name}.wav")
            lines["utt2spk"].append(f"{name} s{speaker}")
    for name, rows in lines.items():
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def test_pool_embeddings_are_means_of_unit_vectors(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "pool"
    assert main(["train", "pool", "--data", str(corpus), "--out", str(out), "--quiet", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["speakers"] == {"f": 2, "m": 2}
    assert summary["utterances"] == 8
    pool = load_pool(out)
    assert pool.ids == ("s0", "s1", "s2", "s3")
    assert "".join(pool.genders) == "fmfm"
    embed, pitch = encoder("campplus"), tracker("swift")
    assert pool.encoder == embed.fingerprint()
    for row, speaker in enumerate(pool.ids):
        waves = [load(corpus / f"{speaker}-{number}.wav") for number in range(2)]
        np.testing.assert_allclose(
            pool.embeddings[row], np.mean([l2_normalized(embed(w)) for w in waves], axis=0), atol=1e-6
        )
        f0 = np.concatenate([pitch(w) for w in waves])
        assert pool.log_f0[row] == pytest.approx(np.log(f0[f0 > 0]).mean(), abs=1e-5)
    assert main(["train", "pool", "--data", str(corpus), "--out", str(out), "--quiet"]) == 1
    assert "pool.safetensors: this file exists (give another output, or --overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("spk2gender", "s0 f\ns1 m\ns2 f\n", "utterance s3-0 has no gender"),
        ("spk2gender", "s0 f\ns1 f\ns2 f\ns3 f\n", "a pool needs speakers of both genders (add a corpus to --data)"),
    ],
)
def test_unsuitable_corpora_are_rejected(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, text: str, message: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("wav.scp", "utt2spk", "spk2gender"):
        (data / name).write_text((corpus / name).read_text().replace(" s", f" {corpus}/s") if name == "wav.scp" else
                                 (corpus / name).read_text(), encoding="utf-8")  # fmt: skip
    (data / file).write_text(text, encoding="utf-8")
    assert main(["train", "pool", "--data", str(data), "--out", str(tmp_path / "out"), "--quiet"]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "pool.safetensors").exists()


def test_pool_round_trips(tmp_path: Path) -> None:
    pool = make_pool()
    save_pool(tmp_path / "pool.safetensors", pool)
    back = load_pool(tmp_path)
    assert back.ids == pool.ids
    assert np.array_equal(back.embeddings, pool.embeddings)
    assert np.array_equal(back.log_f0, pool.log_f0)
    vectors, counts = pool.embeddings.astype(np.float64), np.ones(len(pool), dtype=np.int64)
    assert np.array_equal(back.plda(vectors, counts, vectors[:1]), pool.plda(vectors, counts, vectors[:1]))


def test_ratings_round_trip_and_restrict_the_draw(tmp_path: Path) -> None:
    pool = make_pool()
    ratings = np.random.default_rng(0).normal(3, 0.2, len(pool)).astype(np.float32)
    save_pool(tmp_path / "pool.safetensors", replace(pool, ratings=ratings))
    back = load_pool(tmp_path)
    assert np.array_equal(back.ratings if back.ratings is not None else [], ratings)
    for gender in "fm":
        rows = pool.of_gender(gender)
        best = sorted(rows, key=lambda row: -ratings[row])[:6]
        assert sorted(best) == back.best(gender, 0.5).tolist()
        assert np.array_equal(pool.best(gender, 0.5), rows), "nobody is rated, so that all may be drawn"
        strategy, rng = PoolRandom(cast("Gender", gender), best=0.5), np.random.default_rng(1)
        drawn = {strategy.draw(pool.embeddings[0], "", back, rng).log_f0 for _ in range(200)}
        assert drawn == {float(pool.log_f0[row]) for row in best}
    assert len(back.best("f", 0.0)) == 1


def test_noise_embedding_is_rated_below_real_speakers(tmp_path: Path) -> None:
    shipped = load_pool(store.path("pool"))
    rows = [shipped.of_gender(gender)[0] for gender in "ffm"]
    noise = l2_normalized(np.random.default_rng(0).standard_normal(192))
    pool = replace(
        shipped,
        ids=("nobody", "woman", "man"),
        genders=shipped.genders[rows],
        embeddings=np.stack([noise, *shipped.embeddings[rows[1:]]]),
        log_f0=shipped.log_f0[rows],
        ratings=None,
    )
    speech = []
    for speaker in range(8):
        path = tmp_path / f"s{speaker}.wav"
        save(path, synthetic_voice(speaker, seconds=5.2))
        speech.append(Utterance(f"s{speaker}", path, speaker=f"s{speaker}", gender="fm"[speaker % 2]))
    rated = rate_voices(pool, speech, cache=tmp_path / "cache.sqlite", jobs=2)
    assert rated.ratings is not None
    assert rated.ratings[0] < rated.ratings[1]
    assert rated.best("f", 0.5).tolist() == [1]
    again = rate_voices(pool, speech, cache=tmp_path / "cache.sqlite")
    assert np.array_equal(rated.ratings, again.ratings if again.ratings is not None else [])
    with pytest.raises(InputError, match=r"3 speakers of gender f have an utterance of 5 s, 4 are needed"):
        rate_voices(pool, speech[1:])
    with pytest.raises(InputError, match="only voices of the encoder of veil"):
        rate_voices(make_pool(), speech)


def test_damaged_pool_is_rejected(tmp_path: Path) -> None:
    pool = make_pool()
    with pytest.raises(InputError, match="damaged: its tables do not fit each other"):
        replace(pool, ids=pool.ids[1:])
    with pytest.raises(InputError, match="damaged: a value is not finite"):
        replace(pool, log_f0=np.full(len(pool), np.nan, dtype=np.float32))
    with pytest.raises(InputError, match="damaged: its tables do not fit each other"):
        replace(pool, ratings=np.zeros(3, dtype=np.float32))
    path = tmp_path / "pool.safetensors"
    save_pool(path, pool)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="damaged or truncated"):
        load_pool(path)
