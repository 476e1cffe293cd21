"""Rows of the result tables of 2024, and their figures.

Conventions: figures are fractions, the tables hold percent. ``ASV_eval`` is the attacker trained on original speech,
``ASV_eval^anon`` the semi-informed one, trained on anonymized speech. The challenge rounds EER and WER to three
decimals of a percent, and so the UAR of each fold, whose mean over five folds therefore has four.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from voiceveil.core.errors import InputError
from voiceveil.evaluation.results import Figure, challenge_attacker
from voiceveil.official.frames import Frame, FrameColumn
from voiceveil.official.names import CONDITIONS_OF, LABEL_OF
from voiceveil.official.source import Line

__all__ = ["KINDS", "TableKind", "check_columns", "figure_of", "figures_by_key", "frame_of", "keys_of"]

_SPLITS = ("dev", "test")
_GENDERS = {"f": ("f", ""), "m": ("m", ""), "mixed": ("", ""), "f_common": ("f", "common"), "m_common": ("m", "common")}
_GENDER_OF = {fields: word for word, fields in _GENDERS.items()}


@dataclass(frozen=True)
class TableKind:
    """Columns of a kind of table: keys, then the figure in percent; ``ACC_*`` columns may follow a UAR."""

    keys: tuple[str, ...]
    heading: str
    metric: str
    model: str
    highest: float = 100.0  # percent
    decimals: int = 3

    @property
    def has_recalls(self) -> bool:
        """True if columns with the recall of each emotion follow."""
        return self.metric == "uar"


_ATTACK = ("dataset", "split", "gender", "enrollment", "trial")

#: Title of a table -> its kind.
KINDS: Mapping[str, TableKind] = {
    "SER": TableKind(("dataset", "split", "ser"), "UAR", "uar", "SER_eval", decimals=4),
    "ASV_eval": TableKind(_ATTACK, "EER", "eer", "ASV_eval"),
    "ASV_eval^anon": TableKind(_ATTACK, "EER", "eer", "ASV_eval^anon"),
    "ASR": TableKind(
        ("dataset", "split", "asr"), "WER", "wer", "ASR_eval", highest=10000.0
    ),  # insertions have no limit
}


def check_columns(kind: TableKind, columns: Sequence[str], line: Line) -> list[str]:
    """Return the emotions of the ``ACC_*`` columns; raise an ``InputError`` if columns are not those of the table."""
    fixed = [*kind.keys, kind.heading]
    emotions = [name.removeprefix("ACC_") for name in columns[len(fixed) :]]
    expected = fixed + ([f"ACC_{emotion}" for emotion in emotions] if kind.has_recalls else [])
    if list(columns) != expected or len(set(emotions)) != len(emotions) or "" in emotions:
        raise line.error(f"the columns are {' '.join(columns)!r}", fix=f"expected {' '.join(fixed)}")
    return emotions


def figure_of(kind: TableKind, cells: Sequence[str], emotions: Sequence[str], line: Line) -> Figure:
    """Return the figure of a row.

    Parameters
    ----------
    kind
        TableKind of table.
    cells
        The keys, the figure in percent, and the recalls.
    emotions
        Of the recalls.
    line
        The row's line, for errors.
    """
    keys = dict(zip(kind.keys, cells, strict=False))
    if keys["split"] not in _SPLITS:
        raise line.error(f"the split is {keys['split']!r}", fix="it is dev or test")
    condition = ""
    for name in kind.keys[2:]:
        if name == "gender":
            if keys[name] not in _GENDERS:
                raise line.error(f"the gender is {keys[name]!r}", fix="it is f or m")
        elif keys[name] in CONDITIONS_OF:
            condition += CONDITIONS_OF[keys[name]]
        else:
            raise line.error(f"{name} is {keys[name]!r}", fix="it is original or anon")
    gender, subset = _GENDERS.get(keys.get("gender", "mixed"), ("", ""))
    numbers = cells[len(kind.keys) :]
    value = line.percent(numbers[0], kind.heading, most=kind.highest)
    recalls = {name: line.percent(text, f"ACC_{name}") for name, text in zip(emotions, numbers[1:], strict=True)}
    return Figure(
        kind.metric,
        value,
        f"{keys['dataset']}_{keys['split']}",
        split=keys["split"],
        gender=gender,
        subset=subset,
        condition=condition,
        detail={"recalls": recalls} if recalls else {},
        **(challenge_attacker(kind.model, condition) if kind.metric == "eer" else {"model": kind.model}),
    )


def keys_of(kind: TableKind, figure: Figure) -> list[str]:
    """Return the cells of the keys: the inverse of :func:`figure_of`."""
    words = [LABEL_OF[letter] for letter in figure.condition if letter in LABEL_OF]
    keys = [figure.dataset.removesuffix(f"_{figure.split}"), figure.split]
    if "gender" in kind.keys:
        keys.append(_GENDER_OF.get((figure.gender, figure.subset), figure.gender))
    if len(keys) + len(words) != len(kind.keys):
        raise InputError(f"{figure}: no row of {kind.heading} for the condition {figure.condition!r}")
    return keys + words


def figures_by_key(
    figures: Iterable[Figure], kind: TableKind, attacker: str | None = None
) -> dict[tuple[str, ...], Figure]:
    """Return keys -> figure for a table; name an ``attacker`` if several have EERs.

    Raises
    ------
    InputError
        If two figures have the same keys.
    """
    chosen: dict[tuple[str, ...], Figure] = {}
    for figure in figures:
        if figure.metric != kind.metric or (kind.metric == "eer" and not figure.is_by(attacker)):
            continue
        key = tuple(keys_of(kind, figure))
        if key in chosen:
            models = f"{chosen[key].evaluator!r} and {figure.evaluator!r}"
            raise InputError(f"two figures for {kind.heading} {' '.join(key)}: {models}", fix="name the model")
        chosen[key] = figure
    return chosen


def frame_of(
    kind: TableKind,
    index: Sequence[int],
    keys: Sequence[Sequence[str]],
    figures: Sequence[Figure],
    emotions: Sequence[str],
) -> Frame:
    """Return a table as the ``DataFrame`` that the challenge's scripts print.

    Parameters
    ----------
    kind
        TableKind of table.
    index
        Numbers of the rows.
    keys, figures
        Of each row.
    emotions
        Columns of recalls; none for tables without them.
    """
    columns = [FrameColumn(name, [row[k] for row in keys]) for k, name in enumerate(kind.keys)]
    second = "mean" if kind.has_recalls else ""
    columns.append(FrameColumn(kind.heading, [round(100 * f.value, kind.decimals) for f in figures], second))
    for emotion in emotions:
        recalls = [f.detail.get("recalls", {}).get(emotion) for f in figures]
        if None in recalls:
            raise InputError(f"no recall of {emotion!r} for some figure", fix="give the recalls of all, or of none")
        columns.append(FrameColumn(f"ACC_{emotion}", [round(100 * r, kind.decimals) for r in recalls], second))
    return Frame(index, columns)
