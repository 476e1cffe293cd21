"""The part of a corpus that models may be trained on: never its enrollment, its trials, or the people in them."""

from __future__ import annotations

from voiceveil.core.errors import InputError
from voiceveil.corpus.deepmine import evaluated_speakers
from voiceveil.corpus.model import Corpus
from voiceveil.corpus.readers import open_corpus

__all__ = ["open_training_corpus", "training_part"]


def open_training_corpus(spec: str) -> Corpus:
    """Open a corpus as for :func:`voiceveil.open_corpus`, and return the part that models may be trained on."""
    return training_part(open_corpus(spec))


def training_part(corpus: Corpus) -> Corpus:
    """Return the utterances that models may be trained on.

    A corpus that tells training files from others (``deepmine:``, role ``train``) gives these alone, without speakers
    whom its keys name as enrolled or tested. Any other corpus is returned as it is.

    Raises
    ------
    InputError
        If nothing is left.
    """
    if not any(utterance.role == "train" for utterance in corpus):
        if corpus.kind == "deepmine":
            fix = "enrollment and trials are not trained on: add docs/train_labels.txt and wav/train"
            raise InputError("no training files", where=corpus.root, fix=fix)
        return corpus
    evaluated = (
        evaluated_speakers(corpus.root) if corpus.kind == "deepmine" and corpus.root is not None else frozenset()
    )
    part = corpus.filter(lambda u: u.role == "train" and u.speaker not in evaluated)
    if not len(part):
        fix = "give training files of speakers who are neither enrolled nor tested"
        raise InputError("all training files are of enrollment, trials or their speakers", where=corpus.root, fix=fix)
    return part
