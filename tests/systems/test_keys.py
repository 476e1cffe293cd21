"""Keys: key and context determine the generator, now and in later versions."""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import socket
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.systems.keys import Key, KeyFileWarning, Level, keyed_rng

contexts = st.lists(st.text(st.characters(), max_size=5), max_size=4)  # all code points, surrogates too


def first(rng: np.random.Generator) -> float:
    return float(rng.uniform())


def utterance(id: str = "1272-0001", speaker: str | None = "1272", role: str = "trial") -> Utterance:
    return Utterance(id=id, path=Path("audio") / f"{id}.wav", speaker=speaker, role=role)


# --- The rule -----------------------------------------------------------------------------------------------------


def slow_seed(secret: bytes, context: list[str]) -> int:
    """HMAC-SHA256, as in RFC 2104, of the parts, each after its length in eight bytes."""
    message = b""
    for part in ["draw", *context]:
        data = part.encode("utf-8", "surrogatepass")
        message += len(data).to_bytes(8, "big") + data
    block = (hashlib.sha256(secret).digest() if len(secret) > 64 else secret).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in block) + message).digest()
    return int.from_bytes(hashlib.sha256(bytes(b ^ 0x5C for b in block) + inner).digest(), "big")


@given(contexts, st.binary(min_size=16, max_size=100))
def test_draw_equals_the_written_rule(context: list[str], secret: bytes) -> None:
    slow = np.random.Generator(np.random.PCG64(np.random.SeedSequence(slow_seed(secret, context))))
    assert first(Key(secret, repeatable=True).rng(*context)) == first(slow)


@pytest.mark.parametrize(
    ("context", "draws"),
    [
        (("utterance", "", "a"), [0.23397130008293454, 0.4151718193626185]),
        (("speaker", "trial", "1272"), [0.3829871301643988, 0.8501656439077693]),
        (("speaker", "enroll", "1272"), [0.5253820894663983, 0.057089146005511515]),
        ((), [0.1388680373268929, 0.601328308094945]),
    ],
)
def test_draws_of_seed_1_are_stable(context: tuple[str, ...], draws: list[float]) -> None:
    """Fixed values: a change would make earlier runs impossible to repeat."""
    assert Key.from_seed(1).rng(*context).uniform(size=2).tolist() == draws


def test_draws_and_fingerprints_of_keys_are_stable() -> None:
    key = Key(b"0123456789abcdef", repeatable=True)
    assert first(key.rng("utterance", "", "é/1")) == 0.08236620116870352
    assert (key.fingerprint(), Key.from_seed(1).fingerprint()) == ("2cc80c87419d0376", "79f7e0f0f20d5337")


# --- No two alike -------------------------------------------------------------------------------------------------


@given(contexts, contexts)
def test_contexts_never_collide(context: list[str], other: list[str]) -> None:
    key = Key.from_seed(1)
    assert (first(key.rng(*context)) == first(key.rng(*other))) == (context == other)


@given(st.text(), st.text(min_size=1))
def test_contexts_are_distinguished_by_their_parts(left: str, right: str) -> None:
    key = Key.from_seed(1)
    variants = [(left, right), (left + right, ""), (left + right,), ("", left + right), (left, right, "")]
    different = len(set(variants))
    assert len({first(key.rng(*variant)) for variant in variants}) == different


def test_draw_depends_on_level_role_id_and_key() -> None:
    draws = [
        first(keyed_rng(key, level, utterance(id=id, speaker=id, role=role)))
        for key in (Key.from_seed(1), Key.from_seed(2), Key(b"k" * 16, repeatable=True), Key.fresh())
        for level in ("utterance", "speaker")
        for role in ("", "enroll", "trial", "train")
        for id in ("a", "b", "A", "a ", "ä")
    ]
    assert len(set(draws)) == len(draws) == 4 * 2 * 4 * 5


def test_seeds_differ_from_each_other() -> None:
    assert len({first(Key.from_seed(seed).rng("a")) for seed in range(-500, 500)}) == 1000


def test_draws_are_spread_evenly() -> None:
    """Draws of neighboring ids are independent: the mean of 4000 is within four standard errors of 1/2."""
    draws = np.array([first(Key.from_seed(1).rng("utterance", "", str(i))) for i in range(4000)])
    assert abs(draws.mean() - 0.5) < 4 / np.sqrt(12 * 4000)
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 4 / np.sqrt(4000)


@given(st.permutations([f"u{i}" for i in range(8)]))
def test_draw_does_not_depend_on_order(ids: list[str]) -> None:
    key = Key.from_seed(7)
    drawn = {id: first(keyed_rng(key, "utterance", utterance(id))) for id in ids}
    assert drawn == {id: first(keyed_rng(key, "utterance", utterance(id))) for id in sorted(ids)}


def test_generators_are_independent() -> None:
    key = Key.from_seed(7)
    rng = key.rng("a")
    key.rng("b").uniform(size=1000)
    key.rng("a").uniform(size=1000)
    assert first(rng) == first(key.rng("a"))


def test_generators_can_be_pickled() -> None:
    rng = Key.from_seed(7).rng("a")
    assert first(pickle.loads(pickle.dumps(rng))) == first(rng)


# --- Levels -------------------------------------------------------------------------------------------------------


def test_a_speaker_is_one_pseudo_speaker_within_a_role() -> None:
    key = Key.from_seed(1)
    same = {first(keyed_rng(key, "speaker", utterance(id))) for id in ("u1", "u2", "u3")}
    assert len(same) == 1
    assert first(keyed_rng(key, "speaker", utterance("u1", role="enroll"))) not in same
    assert len({first(keyed_rng(key, "utterance", utterance(id))) for id in ("u1", "u2", "u3")}) == 3


def test_draw_does_not_depend_on_the_path() -> None:
    levels: list[Level] = ["utterance", "speaker"]
    for level in levels:
        here = keyed_rng(Key.from_seed(1), level, Utterance("a", Path("x/a.wav"), "s", gender="f", start=1.0))
        elsewhere = keyed_rng(Key.from_seed(1), level, Utterance("a", Path("/y/a.flac"), "s"))
        assert first(here) == first(elsewhere)


def test_speaker_level_needs_a_speaker() -> None:
    with pytest.raises(InputError, match="utterance u1 has no speaker") as caught:
        keyed_rng(Key.from_seed(1), "speaker", utterance("u1", speaker=None))
    assert caught.value.where == "audio/u1.wav"
    assert "--level utterance" in caught.value.fix
    keyed_rng(Key.from_seed(1), "utterance", utterance("u1", speaker=None))


# --- Keys ---------------------------------------------------------------------------------------------------------


def test_fresh_keys_differ_and_share_one_fingerprint() -> None:
    keys = [Key.fresh() for _ in range(100)]
    assert len({key.secret for key in keys}) == 100
    assert {(len(key.secret), key.repeatable, key.fingerprint()) for key in keys} == {(32, False, "fresh")}


@given(st.binary(min_size=16, max_size=64))
def test_key_is_not_in_its_repr(secret: bytes) -> None:
    key = Key(secret, repeatable=True)
    fingerprint = key.fingerprint()
    assert len(bytes.fromhex(fingerprint)) == 8
    for text in (fingerprint, repr(key), str(key), f"{[key]}"):
        assert secret.hex()[:16] not in text
        assert str(secret) not in text
        assert hashlib.sha256(secret).hexdigest()[:16] not in text, "a plain hash of a short key can be searched"
    assert fingerprint != hmac.digest(secret, b"", "sha256").hex()[:16]


def test_fingerprints_differ_between_keys() -> None:
    assert len({Key.from_seed(seed).fingerprint() for seed in range(1000)}) == 1000
    assert Key.from_seed(3).fingerprint() == Key.from_seed(3).fingerprint()


RANDOM = bytes.fromhex("8f1d4bc207a95e36f0187c2d93ba64e1")


def key_file(folder: Path, content: bytes = RANDOM, mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_every_byte_of_a_key_file_counts(tmp_path: Path) -> None:
    """Also keys that differ only in zero bytes at the end, with which HMAC pads short keys."""
    variants = [RANDOM, RANDOM + b"\0", RANDOM + b"\0\0", b"\0" + RANDOM, RANDOM + b"\n", RANDOM[:-1] + b"!"]
    keys = [Key.from_file(key_file(tmp_path, content)) for content in variants]
    assert len({first(key.rng("a")) for key in keys}) == len({key.fingerprint() for key in keys}) == len(variants)
    assert Key.from_file(key_file(tmp_path)) == keys[0]


@pytest.mark.parametrize("size", [0, 1, 15])
def test_short_key_is_rejected(tmp_path: Path, size: int) -> None:
    with pytest.raises(InputError, match=f"a key of {size} bytes is too short.*head -c 32 /dev/urandom") as caught:
        Key.from_file(key_file(tmp_path, RANDOM[:size]))
    assert caught.value.where == str(tmp_path / "key")


@pytest.mark.parametrize(
    "content",
    [bytes(32), b"k" * 1000, b"secret" * 6, b"password" * 4, bytes(range(64)), bytes(range(64, 0, -1)), b"01" * 16],
    ids=["zeros", "one letter", "a word again and again", "another", "counting", "counting down", "two values"],
)
def test_guessable_key_is_rejected(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match=r"not drawn at random can be guessed .make one: \(umask 077; head -c 32"):
        Key.from_file(key_file(tmp_path, content))


@given(st.randoms(use_true_random=True))
def test_random_key_is_accepted(tmp_path_factory: pytest.TempPathFactory, random: Random) -> None:
    folder = tmp_path_factory.mktemp("keys")
    for content in (random.randbytes(16), random.randbytes(32).hex().encode(), random.randbytes(65536)):
        Key.from_file(key_file(folder, content))


def test_huge_key_is_rejected_without_reading_it(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    os.truncate(path, 1 << 40)
    with pytest.raises(InputError, match="a key has at most 65536 bytes"):
        Key.from_file(path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o444])
def test_key_readable_by_others_gives_a_warning(tmp_path: Path, mode: int) -> None:
    path = key_file(tmp_path, mode=mode)
    with pytest.warns(KeyFileWarning, match=rf"{path}: others can read this key.*\(chmod 600 {path}\)"):
        Key.from_file(path)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777])
def test_key_writable_by_others_is_rejected(tmp_path: Path, mode: int) -> None:
    with pytest.raises(InputError, match="a key that others can write to"):
        Key.from_file(key_file(tmp_path, mode=mode))


def test_unreadable_key_is_rejected(tmp_path: Path) -> None:
    """Reading a named pipe or a terminal does not block."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path, why in [
            (tmp_path / "none", "no such file"),
            (tmp_path, "a folder, not a file"),
            (tmp_path / "pipe", "a named pipe, not a regular file"),
            (tmp_path / "socket", "a socket, not a regular file"),
            (Path("/dev/zero"), "a device, not a regular file"),
            (Path("/dev/tty"), "a device, not a regular file"),
        ]:
            with pytest.raises(InputError, match=f"{path}: cannot read the key: {why}.*make one: .umask 077; head"):
                Key.from_file(path)


# --- Namespaces ---------------------------------------------------------------------------------------------------


def test_one_key_draws_differently_in_two_corpora(tmp_path: Path) -> None:
    key = Key.from_file(key_file(tmp_path))
    drawn = [first(key.in_corpus(name).rng("speaker", "trial", "1272")) for name in ("a", "b", "")]
    assert len({*drawn, first(key.rng("speaker", "trial", "1272"))}) == 3, "no namespace is the empty one"
    again = Key.from_file(key_file(tmp_path), namespace="a")
    assert first(again.in_corpus("b").rng("speaker", "trial", "1272")) == drawn[0], "a namespace that is given stays"


def test_seeds_and_fresh_keys_have_no_namespace_of_their_own() -> None:
    for key in (Key.from_seed(1), Key.fresh()):
        assert key.in_corpus("a") == key
    assert first(Key.from_seed(1, namespace="a").rng("x")) != first(Key.from_seed(1).rng("x"))


@given(st.text(min_size=1), contexts, st.text(min_size=1), contexts)
def test_namespaces_and_contexts_never_collide(namespace: str, left: list[str], other: str, right: list[str]) -> None:
    same = (namespace, left) == (other, right)
    keys = Key.from_seed(1, namespace=namespace), Key.from_seed(1, namespace=other)
    assert (first(keys[0].rng(*left)) == first(keys[1].rng(*right))) == same
    assert first(keys[0].rng(*left)) != first(Key.from_seed(1).rng(*right))


def test_stored_namespace_is_hashed(tmp_path: Path) -> None:
    key = Key.from_file(key_file(tmp_path))
    assert key.namespace_fingerprint() == ""
    fingerprints = [key.in_corpus(name).namespace_fingerprint() for name in ("patients", "visitors", "patients")]
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]
    assert len(bytes.fromhex(fingerprints[0])) == 8
    assert key.in_corpus("patients").fingerprint() == key.fingerprint()
