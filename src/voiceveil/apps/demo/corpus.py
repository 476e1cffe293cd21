"""A small evaluation corpus of synthetic voices: enrollment, trials, training data, with known speakers and words.

The sets have the names that the plan of the VoicePrivacy 2024 Challenge gives to LibriSpeech's, because it is by these
names that a protocol finds its data; ``NOTE.txt`` says what they are, and every report repeats it. A "speaker" is a
voice of eSpeak NG with a pitch of its own, who speaks now faster, now slower. Texts, voices, speeds and pitches are
the same in every demo; the synthesiser's noise is not, so that figures differ a little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voiceveil.apps.demo.espeak import speak
from voiceveil.audio import save
from voiceveil.core.atomic_files import atomic_path
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.corpus.kaldi import kaldi_files

__all__ = ["NOTE", "make_corpus"]

NOTE = (
    "The voices are synthetic: they were made on this machine by eSpeak NG, a formant synthesiser, and are no "
    "recordings of people. The sets only have the names of LibriSpeech's. The figures are measured, but they say how "
    "these few voices fare, and nothing about anybody's privacy."
)

#: Voices of each gender: the first are attacked, the others train the attacker.
_VOICES = {
    "f": "f1 f2 f3 f4 f5 Annie linda steph belinda Alicia Andrea anika aunty grandma steph2 steph3 shelby whisperf",
    "m": "m1 m2 m3 m4 m5 m6 m7 m8 Alex Andy Gene Lee adam benjamin caleb david edward john",
}

#: From "Alice's Adventures in Wonderland" (Lewis Carroll, 1865).
_SENTENCES = """\
Alice was beginning to get very tired of sitting by her sister on the bank
the rabbit actually took a watch out of its waistcoat pocket and looked at it
she was just in time to see it pop down a large rabbit hole under the hedge
either the well was very deep or she fell very slowly
there was nothing else to do so Alice soon began talking again
she took down a jar from one of the shelves as she passed
she found herself in a long low hall which was lit up by a row of lamps
there were doors all round the hall but they were all locked
suddenly she came upon a little table all made of solid glass
there was nothing on it except a tiny golden key
she knelt down and looked along the passage into the loveliest garden
how she longed to get out of that dark hall
this time she found a little bottle on it
it was all very well to say drink me but the wise little girl was not going to do that
soon her eye fell on a little glass box that was lying under the table
she ate a little bit and said anxiously to herself which way
the mouse did not notice this question but hurriedly went on
they were indeed a queer looking party that assembled on the bank
the first question of course was how to get dry again
the best thing to get us dry would be a caucus race
everybody has won and all must have prizes
it was the white rabbit trotting slowly back again
by this time she had found her way into a tidy little room
there was a table in the window and on it a fan
she went on growing and growing and very soon had to kneel down
the caterpillar and Alice looked at each other for some time in silence
one side will make you grow taller and the other side will make you grow shorter
the cat only grinned when it saw Alice
we are all mad here said the cat
there was a table set out under a tree in front of the house
the march hare and the hatter were having tea at it
have some wine the march hare said in an encouraging tone
the dormouse slowly opened its eyes
a large rose tree stood near the entrance of the garden
the roses growing on it were white but there were three gardeners at it
the queen turned crimson with fury and began screaming
all the players quarrelled all the while without waiting for turns
the moral of that is the more there is of mine the less there is of yours
they had not gone far before they saw the mock turtle in the distance
the king and queen of hearts were seated on their throne when they arrived
""".splitlines()


@dataclass(frozen=True)
class _Speaker:
    name: str
    gender: str
    voice: str
    number: int

    def utterance(self, folder: Path, index: int, role: str) -> Utterance:
        """Say the next sentence; speed and pitch vary from one to the next, as people's do."""
        rng = np.random.default_rng([self.number, index])
        text = _SENTENCES[(7 * self.number + 11 * index) % len(_SENTENCES)]
        own = 40 + 9 * (self.number % 4)
        speed, pitch = int(rng.integers(140, 176)), own + int(rng.integers(-4, 5))
        wave = speak(text, self.voice, speed=speed, pitch=pitch).resampled(16000)
        path = folder / f"{self.name}-{index:02d}.wav"
        save(path, wave)
        return Utterance(
            path.stem, path, speaker=self.name, gender=self.gender, text=text.upper(), role=role, seconds=wave.duration
        )


def _speakers(gender: str) -> list[_Speaker]:
    voices = _VOICES[gender].split()
    return [_Speaker(f"{gender}{number:02d}", gender, f"en-us+{v}", number) for number, v in enumerate(voices)]


def corpus_files(folder: Path) -> list[Path]:
    """Return the files that :func:`make_corpus` may replace: the tables of its sets, and recordings that are there."""
    sets = ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m", "libri_train")
    tables = [table for name in sets for table in kaldi_files(folder / name)]
    return [folder / "NOTE.txt", *tables, *sorted((folder / "audio").glob("*.wav"))]


def make_corpus(
    folder: Path, *, attacked: int = 8, others: int = 10, utterances: tuple[int, int, int] = (3, 5, 4)
) -> None:
    """Write ``libri_dev_enrolls``, ``libri_dev_trials_f``, ``libri_dev_trials_m`` and ``libri_train`` into a folder.

    ``attacked`` and ``others``, who train the attacker, are speakers of each gender, at most 18 together;
    ``utterances``: of a speaker for enrollment, for trials, for training.
    """
    enrolled, tried, trained = utterances
    with atomic_path(folder / "NOTE.txt") as part:
        part.write_text(f"{NOTE}\n", encoding="utf-8")
    audio = folder / "audio"
    victims = {gender: _speakers(gender)[:attacked] for gender in "fm"}
    learners = [speaker for gender in "fm" for speaker in _speakers(gender)[attacked : attacked + others]]
    everybody = [*victims["f"], *victims["m"]]
    _write(folder / "libri_dev_enrolls", _spoken(everybody, audio, range(enrolled), "enroll"))
    for gender, speakers in victims.items():
        spoken = list(_spoken(speakers, audio, range(enrolled, enrolled + tried), "trial"))
        pairs = [(speaker.name, u.id, speaker.name == u.speaker) for speaker in speakers for u in spoken]
        columns = [np.array(column) for column in zip(*pairs, strict=True)]
        _write(folder / f"libri_dev_trials_{gender}", spoken, Trials(*columns))
    _write(folder / "libri_train", _spoken(learners, audio, range(trained), ""))


def _spoken(speakers: Sequence[_Speaker], audio: Path, indices: range, role: str) -> Iterator[Utterance]:
    return (speaker.utterance(audio, index, role) for speaker in speakers for index in indices)


def _write(directory: Path, utterances: Iterator[Utterance] | list[Utterance], trials: Trials | None = None) -> None:
    write_kaldi(Corpus(directory.name, tuple(utterances), trials), directory)
