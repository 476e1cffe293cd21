"""Design of a challenge from any corpus with speakers, genders and phrases: models, trials and passphrases.

A *unit* is a phrase of the corpus. With ``join`` a passphrase is a sequence of four to six different units (digits,
words); without, it is one unit. The n-th recording of a passphrase is joined from the speaker's n-th recording of each
unit. The first three recordings enroll, the next ones are tests: none is used for both. Free text is a sequence of
other units or, without ``join``, the utterances that are labeled "FT".

As in the challenge, trials are within one gender, training, development and evaluation have different speakers, and in
task 2 (``task=2``) the passphrases of the trials are not among those of the training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from voiceveil.core.errors import InputError
from voiceveil.corpus.lines import is_id
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.sampling import shuffled, shuffled_utterances
from voiceveil.tdsv.lists import Label, TdsvKey, TdsvModel, Trial
from voiceveil.tdsv.phrases import FREE_TEXT

__all__ = ["ChallengeDesign", "ChallengePlan", "Passphrase", "PlannedRecording", "design"]

ENROLLED = 3


@dataclass(frozen=True)
class ChallengePlan:
    """Settings of a challenge.

    Parameters
    ----------
    task : int
        1 or 2.
    join : pair of int, optional
        Fewest and most units of a passphrase; without it a passphrase is one unit.
    phrases, known : int
        Number of passphrases, and of those in the training of task 2.
    tests, repetitions : int
        Recordings of each passphrase by one speaker in trials, and in training.
    free : int
        Free-text recordings of a training speaker; a speaker in trials has half as many (in task 2 each model).
    most, impostor_wrong : int
        Trials of one type for a model at most, and of the type IW, of which the challenge has none.
    shares : tuple of float
        Shares of the speakers in training, development and evaluation.
    language : str
        Written into the keys; "" if it is unknown.
    seed : int
        Of all draws.
    """

    task: int = 1
    join: tuple[int, int] | None = None
    phrases: int = 10
    known: int = 6
    tests: int = 3
    repetitions: int = 4
    free: int = 4
    most: int = 200
    impostor_wrong: int = 0
    shares: tuple[float, float, float] = (0.5, 0.17, 0.33)
    language: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.task not in (1, 2):
            raise InputError(f"there is no task {self.task}", fix="use 1 or 2")
        if self.join is not None and not 1 < self.join[0] <= self.join[1]:
            raise InputError(
                f"passphrases cannot have {self.join[0]} to {self.join[1]} units",
                fix="give two or more, e.g. --join 4-6",
            )
        if min(self.shares) < 0 or not 0.999 < sum(self.shares) < 1.001:
            raise InputError(f"the shares are {self.shares}", fix="give three that add up to 1")
        if min(self.phrases, self.tests, self.repetitions, self.most) < 1 or min(self.free, self.impostor_wrong) < 0:
            raise InputError("phrases, tests, repetitions and trials must be 1 or more", fix="give 1 or more")
        if self.task == 2 and not 0 < self.known < self.phrases:
            raise InputError(
                f"{self.known} of {self.phrases} passphrases cannot be in training",
                fix="leave some for the trials of task 2",
            )
        if self.language and not is_id(self.language):
            raise InputError(
                f"the language {self.language!r} is not one word", fix="write it without blanks, e.g. English"
            )


@dataclass(frozen=True)
class Passphrase:
    """A passphrase: its id ("01", "02", ...), its units, and its text as far as the corpus tells it."""

    id: str
    units: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class PlannedRecording:
    """A recording of the challenge: speaker, phrase, and the utterances that are joined."""

    speaker: str
    phrase: str
    parts: tuple[Utterance, ...]


@dataclass
class ChallengeDesign:
    """A designed challenge: its lists, and file id -> recording."""

    plan: ChallengePlan
    passphrases: tuple[Passphrase, ...] = ()
    labels: list[Label] = field(default_factory=list)
    models: dict[str, list[TdsvModel]] = field(default_factory=dict)
    keys: dict[str, list[TdsvKey]] = field(default_factory=dict)
    train: dict[str, PlannedRecording] = field(default_factory=dict)
    enrollment: dict[str, PlannedRecording] = field(default_factory=dict)
    evaluation: dict[str, PlannedRecording] = field(default_factory=dict)

    def trials(self, subset: str) -> list[Trial]:
        """Return the trials of the keys."""
        return [Trial(key.model, key.test) for key in self.keys[subset]]

    def trial_counts(self, subset: str) -> dict[str, int]:
        """Return type (TC, TW, IC, IW) -> number of trials, of the types that occur."""
        counts = Counter(key.type for key in self.keys[subset])
        return {kind: counts[kind] for kind in ("TC", "TW", "IC", "IW") if counts[kind]}


def design(corpus: Corpus, plan: ChallengePlan) -> ChallengeDesign:
    """Return a random challenge; equal corpora and plans give equal challenges.

    Raises
    ------
    InputError
        If the corpus has too few speakers or recordings, or lacks genders or phrases.
    """
    tokens = _tokens(corpus, plan.seed)
    genders = {u.speaker: u.gender for u in corpus if u.speaker is not None and u.gender is not None}
    unknown = sorted(set(tokens) - set(genders))
    if unknown:
        raise InputError(
            f"{len(unknown)} speaker(s) have no gender, e.g. {unknown[0]}", where=corpus.root, fix="add spk2gender"
        )
    passphrases = _passphrases(corpus, tokens, plan)
    result = ChallengeDesign(plan, passphrases)
    split = _split(tokens, genders, plan)
    tried = passphrases[plan.known :] if plan.task == 2 else passphrases
    trained = passphrases[: plan.known] if plan.task == 2 else passphrases
    _add_training(result, {s: tokens[s] for s in split["train"]}, trained)
    for subset in ("dev", "eval"):
        people = {s: tokens[s] for s in split[subset]}
        if people:
            _add_trials(result, subset, people, genders, tried)
    return result


Tokens = dict[str, list[Utterance]]  # unit -> recordings of it by one speaker, in the order of the draw


def _tokens(corpus: Corpus, seed: int) -> dict[str, Tokens]:
    """Return speaker -> unit -> recordings."""
    tokens: dict[str, Tokens] = {}
    for utterance in shuffled_utterances(corpus, seed, "recordings"):
        if utterance.speaker is not None and utterance.phrase is not None:
            tokens.setdefault(utterance.speaker, {}).setdefault(utterance.phrase, []).append(utterance)
    if not tokens:
        raise InputError("no utterance with speaker and phrase", where=corpus.root, fix="e.g. a file utt2phrase")
    return tokens


def _passphrases(corpus: Corpus, tokens: Mapping[str, Tokens], plan: ChallengePlan) -> tuple[Passphrase, ...]:
    """Return the passphrases of which every speaker has enough recordings: drawn, or the first units by name."""
    need = max(ENROLLED + plan.tests, plan.repetitions)
    units = sorted({unit for recordings in tokens.values() for unit in recordings} - {FREE_TEXT})
    full = [u for u in units if all(len(recordings.get(u, ())) >= need for recordings in tokens.values())]
    texts = {u.phrase: u.text or u.phrase for u in corpus if u.phrase is not None}
    if plan.join is None:
        sequences: list[tuple[str, ...]] = [(unit,) for unit in full]
    else:
        sequences = list(_sequences(full, plan.join, plan.seed, plan.phrases))
    if len(sequences) < plan.phrases:
        few = f"{len(sequences)} passphrases with {need} recordings by every speaker, not {plan.phrases}"
        raise InputError(few, where=corpus.root, fix="ask for fewer --phrases, --tests or --repetitions, or --join")
    return tuple(
        Passphrase(f"{number:02d}", units, " ".join(texts[unit] for unit in units))
        for number, units in enumerate(sequences[: plan.phrases], start=1)
    )


def _sequences(units: Sequence[str], join: tuple[int, int], seed: int, count: int) -> Iterator[tuple[str, ...]]:
    """Return different sequences of different units."""
    low, high = join[0], min(join[1], len(units))
    seen: set[tuple[str, ...]] = set()
    for attempt in range(100 * count if low <= high else 0):
        order = shuffled(units, seed, f"passphrase {attempt}")
        sequence = tuple(order[: low + attempt % (high - low + 1)])
        if sequence not in seen:
            seen.add(sequence)
            yield sequence


def _split(tokens: Mapping[str, Tokens], genders: Mapping[str, str], plan: ChallengePlan) -> dict[str, list[str]]:
    """Return training, development and evaluation speakers, by the shares in each gender."""
    parts: dict[str, list[str]] = {"train": [], "dev": [], "eval": []}
    for gender in ("f", "m"):
        people = shuffled((s for s in tokens if genders[s] == gender), plan.seed, "speakers")
        first, second = (round(len(people) * sum(plan.shares[:k])) for k in (1, 2))
        for part, chosen in zip(parts, (people[:first], people[first:second], people[second:]), strict=True):
            parts[part] += chosen
    if len(parts["eval"]) < 2:
        raise InputError(f"{len(parts['eval'])} speaker(s) for the evaluation", fix="give more speakers, or a share")
    return parts


def _recording(speaker: str, tokens: Tokens, phrase: str, units: Iterable[str], time: int) -> PlannedRecording:
    return PlannedRecording(speaker, phrase, tuple(tokens[unit][time] for unit in units))


def _free(
    result: ChallengeDesign, speaker: str, tokens: Tokens, times: range, count: int, avoid: Sequence[str] = ()
) -> list[PlannedRecording]:
    """Return free text of a speaker: sequences of units that are not in ``avoid``, from the given repetitions."""
    plan = result.plan
    if plan.join is None:
        own = [PlannedRecording(speaker, FREE_TEXT, (u,)) for u in tokens.get(FREE_TEXT, ())]
        other = [_recording(speaker, tokens, FREE_TEXT, (u,), t) for u in sorted(tokens) for t in times
                 if plan.task == 2 and u != FREE_TEXT and u not in avoid and t < len(tokens[u])]  # fmt: skip
        return (own[times.start :: 2] + other)[:count]
    units = [u for u in tokens if u not in avoid and u != FREE_TEXT and len(tokens[u]) >= times.stop]
    purpose = f"free text {speaker} {times.start} {' '.join(avoid)}"
    sequences = _sequences(sorted(units), (min(plan.join[0], len(units)), plan.join[1]), plan.seed, count)
    texts: list[PlannedRecording] = []
    for number, sequence in zip(range(count), sequences, strict=False):
        order = shuffled(sequence, plan.seed, f"{purpose} {number}")
        if all(tuple(order) != p.units for p in result.passphrases):  # a random sequence may be a passphrase
            texts.append(_recording(speaker, tokens, FREE_TEXT, order, times[number % len(times)]))
    return texts


def _add_training(result: ChallengeDesign, people: Mapping[str, Tokens], phrases: Sequence[Passphrase]) -> None:
    plan = result.plan
    recordings: list[PlannedRecording] = []
    for speaker, tokens in people.items():
        recordings += [_recording(speaker, tokens, p.id, p.units, t) for p in phrases for t in range(plan.repetitions)]
        recordings += _free(result, speaker, tokens, range(plan.repetitions), plan.free)
    result.train = _numbered(recordings, "trn", plan.seed)
    result.labels = [Label(file, recording.speaker, recording.phrase) for file, recording in result.train.items()]


def _add_trials(
    result: ChallengeDesign,
    subset: str,
    people: Mapping[str, Tokens],
    genders: Mapping[str, str],
    phrases: Sequence[Passphrase],
) -> None:
    """Add the models of a subset, their tests and trials."""
    plan = result.plan
    times = range(ENROLLED, ENROLLED + plan.tests)
    recordings: list[PlannedRecording] = []
    for speaker, tokens in people.items():
        recordings += [_recording(speaker, tokens, p.id, p.units, t) for p in phrases for t in times]
        recordings += _free(result, speaker, tokens, times, plan.free // 2)
    tests = _numbered(recordings, "evl", plan.seed, len(result.evaluation))
    result.evaluation |= tests
    models, owners = _models(result, subset, people, genders, phrases)
    result.models[subset] = models
    result.keys[subset] = [key for model in models for key in _keys(plan, model, owners[model.id], tests, genders)]


def _models(
    result: ChallengeDesign,
    subset: str,
    people: Mapping[str, Tokens],
    genders: Mapping[str, str],
    phrases: Sequence[Passphrase],
) -> tuple[list[TdsvModel], dict[str, tuple[str, str]]]:
    """Return the models of a subset, and speaker and phrase of each."""
    plan = result.plan
    pairs = shuffled((f"{speaker}\0{p.id}" for speaker in people for p in phrases), plan.seed, "models")
    by_id = {p.id: p for p in phrases}
    models, owners = [], {}
    for number, pair in enumerate(pairs, start=1):
        speaker, phrase = pair.split("\0")
        tokens, passphrase = people[speaker], by_id[phrase]
        enrolled = [_recording(speaker, tokens, phrase, passphrase.units, t) for t in range(ENROLLED)]
        free: list[PlannedRecording] = []
        if plan.task == 2:
            free = _free(result, speaker, tokens, range(ENROLLED), max(1, plan.free // 2), passphrase.units)
            if not free:
                raise InputError(f"no free text of {speaker} beside passphrase {phrase}", fix="use --join, or label FT")
        start = len(result.enrollment) + 1
        files = {f"enr_{start + k:06d}": recording for k, recording in enumerate([*enrolled, *free])}
        result.enrollment |= files
        names = tuple(files)
        key = f"{subset}_model_{number:06d}"
        shown = phrase if plan.task == 1 else None
        models.append(TdsvModel(key, genders[speaker], names[:ENROLLED], names[ENROLLED:], shown))
        owners[key] = (speaker, phrase)
    return models, owners


def _keys(
    plan: ChallengePlan,
    model: TdsvModel,
    owner: tuple[str, str],
    tests: Mapping[str, PlannedRecording],
    genders: Mapping[str, str],
) -> list[TdsvKey]:
    """Return the trials of a model, at most a given number of each type, shuffled."""
    speaker, phrase = owner
    kinds: dict[str, list[str]] = {kind: [] for kind in ("TC", "TW", "IC", "IW")}
    for file, recording in tests.items():
        if genders[recording.speaker] == model.gender:
            identity = "T" if recording.speaker == speaker else "I"
            kinds[identity + ("C" if recording.phrase == phrase else "W")].append(file)
    most = {"TC": plan.most, "TW": plan.most, "IC": plan.most, "IW": plan.impostor_wrong}
    kind_of = {f: kind for kind in kinds for f in shuffled(kinds[kind], plan.seed, f"trials {model.id}")[: most[kind]]}
    return [
        TdsvKey(model.id, f, kind_of[f], speaker, tests[f].speaker, model.gender, phrase, plan.language or None)
        for f in shuffled(kind_of, plan.seed, f"order {model.id}")
    ]


def _numbered(
    recordings: Sequence[PlannedRecording], prefix: str, seed: int, start: int = 0
) -> dict[str, PlannedRecording]:
    """Return file ids in random order."""
    order = shuffled(map(str, range(len(recordings))), seed, prefix)
    return {f"{prefix}_{start + number:06d}": recordings[int(k)] for number, k in enumerate(order, start=1)}
