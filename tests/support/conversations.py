"""Conversations between speakers of the demo corpus."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import load
from voiceveil.corpus import open_corpus
from voiceveil.testing.conversations import Conversation, ConversationStyle, make_conversation

#: A woman and a man of the demo corpus.
ANNA, BEN = "2035", "1272"


@lru_cache(maxsize=4)
def demo_conversation(utterances: int = 2, gap: float = 0.3, seed: int = 0) -> Conversation:
    """Return a conversation of so many utterances each; with a ``gap`` below 0 they overlap."""
    corpus = open_corpus(SPEECH / "demo_enrolls")
    said = {
        name: [load(u.path, rate=16000).samples for u in corpus.by_speaker[name][:utterances]] for name in (ANNA, BEN)
    }
    return make_conversation(said, np.random.default_rng(seed), ConversationStyle(gap=(gap, 0.1)))
