"""Gathers what lies behind the figures of an evaluation, see :mod:`voiceveil.evaluation.details`.

What the evaluation has heard is in the cache; the pitch of the sets of trials is tracked besides, and the voices are
compared if CAM++ is among the attackers, whatever the protocol asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from voiceveil import metrics
from voiceveil import models as utility
from voiceveil.attack import encoder as make_encoder
from voiceveil.attack.embedding import embed
from voiceveil.corpus import Corpus, Utterance
from voiceveil.evaluation.attackers import uses_campplus
from voiceveil.evaluation.details import Details, Heard, Similarity
from voiceveil.evaluation.inventory import Inventory
from voiceveil.evaluation.measurement import Tools
from voiceveil.models.asr.text_normalization import normaliser
from voiceveil.models.speaker.covariances import length_norm
from voiceveil.run.extract import extract

__all__ = ["collect"]


def collect(inventory: Inventory, anonymized: Mapping[str, Corpus], tools: Tools) -> Details:
    """Gather all that was heard, from the cache where it is known."""
    trial_sets = list(dict.fromkeys(t.set for one in inventory.verification for t in one.trials))
    spoken_sets = list(dict.fromkeys(name for one in inventory.recognition for name in one.sets))
    utterances: dict[str, tuple[Heard, ...]] = {}
    for name in dict.fromkeys([*trial_sets, *spoken_sets]):
        pairs = [(u, anonymized[name][u.id]) for u in inventory.corpora[name]]
        words = _words(pairs, tools) if name in spoken_sets and "wer" in inventory.protocol.metrics else {}
        pitch = _pitch(pairs, tools) if name in trial_sets else {}
        utterances[name] = tuple(_heard(o, a, {**words.get(o.id, {}), **pitch.get(o.id, {})}) for o, a in pairs)
    similarity = {}
    for name in trial_sets if uses_campplus(tools.attackers) else []:
        found = _similarity(inventory.corpora[name], anonymized[name], tools)
        if found is not None:
            similarity[name] = found
    return Details(utterances, similarity)


def _heard(original: Utterance, anonymized: Utterance, measured: Mapping[str, Any]) -> Heard:
    return Heard(
        original.id,
        original.speaker or "",
        original.gender or "",
        str(original.path),
        str(anonymized.path),
        original.start,
        original.duration,
        **measured,
    )


def _words(pairs: list[tuple[Utterance, Utterance]], tools: Tools) -> dict[str, dict[str, str]]:
    listener, plain = utility.recogniser(tools.recogniser), normaliser("plain")
    sides = [utility.transcribe([pair[k] for pair in pairs], listener, **tools.running()) for k in (0, 1)]
    return {
        u.id: {
            "reference": plain(u.text or ""),
            "heard_original": plain(sides[0][u.id]),
            "heard_anonymized": plain(sides[1][u.id]),
        }
        for u, _ in pairs
    }


def _pitch(pairs: list[tuple[Utterance, Utterance]], tools: Tools) -> dict[str, dict[str, float | None]]:
    tracker = utility.tracker("autocorrelation")
    before, after = (extract([pair[k] for pair in pairs], tracker, **tools.running()) for k in (0, 1))
    return {
        u.id: {
            "f0_original": _mean(before[u.id]),
            "f0_anonymized": _mean(after[u.id]),
            "pitch_correlation": metrics.pitch_correlation(before[u.id], after[u.id]),
        }
        for u, _ in pairs
    }


def _mean(track: Any) -> float | None:
    voiced = np.asarray(track)[np.asarray(track) > 0]
    return float(voiced.mean()) if len(voiced) else None


def _similarity(original: Corpus, anonymized: Corpus, tools: Tools) -> Similarity | None:
    """The matrices by CAM++, of speakers with two utterances at least; None if there are not two of them."""
    encoder = make_encoder("campplus")
    enough = {name for name, spoken in original.by_speaker.items() if len(spoken) > 1}
    listed = sorted((u for u in original if u.speaker in enough), key=lambda u: u.id)
    if len(enough) < 2:
        return None
    sides = [listed, [anonymized[u.id] for u in listed]]
    o, a = (length_norm(embed(side, encoder, tools.context()).vectors) for side in sides)
    speakers = [str(u.speaker) for u in listed]
    matrices = [metrics.similarity_matrix(x @ y.T, speakers) for x, y in ((o, o), (o, a), (a, a))]
    rows = [tuple(tuple(row) for row in matrix.values.round(4).tolist()) for matrix in matrices]
    return Similarity(tuple(matrices[0].speakers), *rows)
