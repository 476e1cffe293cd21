"""Measure what autoencoders of speaker embeddings leave of speaker and gender, for the cards of `s1` and `s2`.

    python scripts/measure_autoencoder.py plain=exp/plain s1=exp/s1 s2=exp/s2 --features features.sqlite \\
        --train data/libri_train data/libri_pool --test data/libri_dev_trials_f data/libri_dev_trials_m

Prints a JSON object: for the embeddings as they are, and for each network (folder or file), the accuracies of probes
on the reconstructions. The first network should be a plain one (`--branches 0,0,0`) of the same training.

* speaker: a logistic regression and a perceptron of 128 hidden units, trained on the reconstructions of the pieces of
  the training speakers that the network was trained on, tried on the pieces that were kept for validation
* new speakers: a logistic regression over the speakers of ``--test``, trained on every other utterance of them, tried
  on the others; 12 utterances of each speaker
* gender: the same two kinds of classifier, trained on all training speakers, tried on the speakers of ``--test``
* cosine: of an embedding and its reconstruction; between the means of two speakers' reconstructions (``--test``)
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from voiceveil.corpus import Utterance, open_corpus
from voiceveil.corpus.pieces import pieces_of_utterances
from voiceveil.models.speaker.encoders import encoder, l2_normalized
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.systems.resynthesis.strategy_autoencoder import reconstruct
from voiceveil.training.autoencoder import AutoencoderSettings, validation_pieces

Array = NDArray[np.float32]
_TEST_UTTERANCES = 12


class Speech(NamedTuple):
    """Embeddings (n, d), L2-normalized, with their speakers (n,), genders (n,), and rows kept for validation (n,)."""

    embeddings: Array
    speakers: NDArray[np.str_]
    genders: NDArray[np.str_]
    held_out: NDArray[np.bool_]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", metavar="NAME=FOLDER", help="of `voiceveil train autoencoder`, or files")
    parser.add_argument("--train", nargs="+", required=True, help="corpora of the training")
    parser.add_argument("--test", nargs="+", required=True, help="corpora of other speakers, with genders")
    parser.add_argument("--features", type=Path, required=True, help="file that keeps the embeddings")
    args = parser.parse_args()
    context = RunContext(Cache(args.features), 1, progress=False)
    settings = AutoencoderSettings()
    pieces = pieces_of_utterances(
        [u for path in args.train for u in open_corpus(path)], settings.piece_seconds, settings.most_pieces
    )
    test = [u for path in args.test for group in open_corpus(path).by_speaker.values() for u in _some(group)]
    train_speech, test_speech = _embedded(pieces, context), _embedded(test, context)
    figures = {"embeddings": measure(lambda x: x, train_speech, test_speech)}
    for name, _, folder in (given.partition("=") for given in args.networks):
        path = Path(folder)
        file = path / "model.safetensors" if path.is_dir() else path
        figures[name] = measure(lambda x, file=file: reconstruct(file, x), train_speech, test_speech)  # type: ignore[misc]
    print(json.dumps(figures, indent=1))


def measure(change: Callable[[Array], Array], train: Speech, test: Speech) -> dict[str, Any]:
    """Return the accuracies of the probes on changed embeddings, and cosines."""
    x, y = (np.array([l2_normalized(change(row)) for row in speech.embeddings]) for speech in (train, test))
    seen, kept, half = ~train.held_out, train.held_out, np.arange(len(y)) % 2 == 0
    names = np.unique(test.speakers)
    means = np.array([l2_normalized(y[test.speakers == name].mean(axis=0)) for name in names])
    with threadpool_limits(1):
        return {
            "speaker": _accuracies(x[seen], train.speakers[seen], x[kept], train.speakers[kept]),
            "new speakers": _accuracies(y[half], test.speakers[half], y[~half], test.speakers[~half])[0],
            "gender": _accuracies(x, train.genders, y, test.genders),
            "cosine of reconstruction and embedding": round(float((y * test.embeddings).sum(axis=1).mean()), 3),
            "cosine between speakers": round(float((means @ means.T)[np.triu_indices(len(names), 1)].mean()), 3),
        }


def _accuracies(x: Array, labels: NDArray[np.str_], y: Array, expected: NDArray[np.str_]) -> tuple[float, float]:
    """Return the accuracies of a logistic regression and of a perceptron."""
    models = (LogisticRegression(C=0.1, max_iter=300), MLPClassifier((128,), alpha=0.01, max_iter=300, random_state=0))
    first, second = (make_pipeline(StandardScaler(), model).fit(x, labels).score(y, expected) for model in models)
    return round(float(first), 3), round(float(second), 3)


def _some(utterances: list[Utterance]) -> list[Utterance]:
    """Return 12 utterances of a speaker, at equal distances."""
    listed = sorted(utterances, key=lambda u: u.id)
    return listed[:: max(1, len(listed) // _TEST_UTTERANCES)][:_TEST_UTTERANCES]


def _embedded(utterances: list[Utterance], context: RunContext) -> Speech:
    vectors = context.extract(utterances, encoder("campplus"))
    return Speech(
        np.array([l2_normalized(vectors[u.id]) for u in utterances]),
        np.array([u.speaker for u in utterances]),
        np.array([u.gender for u in utterances]),
        validation_pieces(utterances),
    )


if __name__ == "__main__":
    main()
