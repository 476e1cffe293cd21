"""Back-ends: scores from embeddings, with parameters that are learned from labeled embeddings of other speakers.

Conventions: n utterances, d dimensions, s enrolled speakers. Embeddings have shape (n, d), speakers are numbers (n,).
A back-end is fitted to embeddings of training speakers and gives a :class:`Scorer`, which compares the mean of a
speaker's enrollment embeddings with single embeddings; a higher score says "the same speaker".

* :class:`Cosine`         cosine of raw embeddings, nothing to learn (used by the challenges with ECAPA)
* :class:`Centered`       cosine after subtraction of the training mean
* :class:`Wccn`           cosine after within-class covariance normalization (Hatch, Kajarekar and Stolcke 2006)
* :class:`Lda`            cosine after linear discriminant analysis, with white within-speaker covariance
* :class:`MarginSoftmax`  cosine after a linear layer, trained with additive angular margin softmax (Deng et al. 2019)
* :class:`Scaled`         any of these, on standardized dimensions
* :class:`Pca`            any of these, on principal components
* :class:`SNorm`          any of these, with adaptive score normalization (Matejka et al. 2017)
* :class:`~voiceveil.models.speaker.plda.Plda`  log-likelihood ratios
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.models.speaker.covariances import Codes, Floats, length_norm, scatter
from voiceveil.run.device import current_device

__all__ = [
    "Backend",
    "Centered",
    "Cosine",
    "Lda",
    "Linear",
    "MarginSoftmax",
    "NormalizedScorer",
    "Pca",
    "SNorm",
    "Scaled",
    "Scorer",
    "Wccn",
    "fit_with_enrollment",
]


class Scorer(Protocol):
    """A fitted back-end."""

    def __call__(self, enroll: Floats, counts: Codes, test: Floats) -> Floats:
        """Return the scores (s, n) of enrolled speakers and test utterances.

        Parameters
        ----------
        enroll : array of shape (s, d)
            Mean embedding of each speaker.
        counts : array of shape (s,)
            Number of enrollment utterances of each speaker.
        test : array of shape (n, d)
            Embeddings of the test utterances.
        """
        ...


class Backend(Protocol):
    """A back-end before it is fitted."""

    @property
    def name(self) -> str:
        """Name in tables, with the settings."""
        ...

    @property
    def learns(self) -> bool:
        """True if ``fit`` uses the training embeddings."""
        ...

    @property
    def llr(self) -> bool:
        """True if scores are log-likelihood ratios (natural logarithm)."""
        ...

    @property
    def affine(self) -> bool:
        """True if ``fit`` returns a :class:`Linear` scorer: cosines after an affine map."""
        ...

    def fit(self, embeddings: Floats, speaker: Codes) -> Scorer:
        """Learn from embeddings (n, d) of the speakers (n,), and return the scorer."""
        ...


@dataclass(frozen=True, eq=False)
class Linear:
    """Cosine of ``(x - mean) @ matrix``, or of ``x - mean`` without a matrix."""

    mean: Floats  # (d,)
    matrix: Floats | None = None  # (d, k)

    def transform(self, embeddings: Floats) -> Floats:
        """Return the mapped embeddings, shape (n, k)."""
        centered = embeddings - self.mean
        return centered if self.matrix is None else np.asarray(centered @ self.matrix)

    def project(self, embeddings: Floats) -> Floats:
        """Return the mapped embeddings, L2-normalized, shape (n, k)."""
        return length_norm(self.transform(embeddings))

    def __call__(self, enroll: Floats, counts: Codes, test: Floats) -> Floats:
        """Return cosines (s, n)."""
        return np.asarray(self.project(enroll) @ self.project(test).T)


class _Cosines:
    """Back-ends that learn an affine map and compare by cosines; a subclass says where it differs."""

    learns: ClassVar[bool] = True
    llr: ClassVar[bool] = False
    affine: ClassVar[bool] = True


@dataclass(frozen=True)
class Cosine(_Cosines):
    """Cosine of raw embeddings."""

    name: str = "cosine"
    learns: ClassVar[bool] = False

    def fit(self, embeddings: Floats, speaker: Codes) -> Linear:
        """Return a scorer for d dimensions; the embeddings are not used."""
        return Linear(np.zeros(embeddings.shape[1]))


@dataclass(frozen=True)
class Centered(_Cosines):
    """Cosine after subtraction of the training mean, a direction that all anonymized voices share."""

    name: str = "centered"

    def fit(self, embeddings: Floats, speaker: Codes) -> Linear:
        """Learn the mean over speakers."""
        return Linear(scatter(embeddings, speaker).mean)


@dataclass(frozen=True)
class Wccn(_Cosines):
    """Within-class covariance normalization; ``shrinkage`` pulls the covariance towards a multiple of the identity."""

    shrinkage: float = 0.1

    @property
    def name(self) -> str:
        """Name with the shrinkage."""
        return f"wccn-{self.shrinkage:g}"

    def fit(self, embeddings: Floats, speaker: Codes) -> Linear:
        """Learn mean and whitening."""
        covariances = scatter(embeddings, speaker)
        return Linear(covariances.mean, np.linalg.cholesky(np.linalg.inv(covariances.shrunk_within(self.shrinkage))))


@dataclass(frozen=True)
class Lda(_Cosines):
    """Linear discriminant analysis to ``size`` dimensions, in which the within-speaker covariance is white."""

    size: int = 100
    shrinkage: float = 0.1

    @property
    def name(self) -> str:
        """Name with size and shrinkage."""
        return f"lda{self.size}-{self.shrinkage:g}"

    def fit(self, embeddings: Floats, speaker: Codes) -> Linear:
        """Learn mean and directions: at most one less than there are training speakers."""
        covariances = scatter(embeddings, speaker)
        return Linear(covariances.mean, covariances.directions(self.size, self.shrinkage))


@dataclass(frozen=True)
class Scaled(_Cosines):
    """Another back-end on dimensions of mean 0 and standard deviation 1, for embeddings of mixed units."""

    backend: Backend
    affine: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name of the other back-end and ``scaled``."""
        return f"{self.backend.name} scaled"

    def fit(self, embeddings: Floats, speaker: Codes) -> Scorer:
        """Learn the scales, and fit the other back-end to scaled embeddings."""
        mean, deviation = embeddings.mean(axis=0), np.maximum(embeddings.std(axis=0), 1e-9)
        scorer = self.backend.fit((embeddings - mean) / deviation, speaker)
        return lambda enroll, counts, test: scorer((enroll - mean) / deviation, counts, (test - mean) / deviation)


@dataclass(frozen=True)
class Pca(_Cosines):
    """Another back-end on the first ``size`` principal components, for embeddings with more dimensions than speech."""

    size: int
    backend: Backend
    affine: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name of the other back-end and the number of components."""
        return f"{self.backend.name} pca{self.size}"

    def fit(self, embeddings: Floats, speaker: Codes) -> Scorer:
        """Learn the components, and fit the other back-end to them."""
        from scipy.linalg import eigh

        mean = embeddings.mean(axis=0)
        centered = embeddings - mean
        n, d = centered.shape
        size = min(self.size, n - 1, d)
        if d <= n:
            components = eigh(centered.T @ centered, subset_by_index=(d - size, d - 1))[1]
        else:  # the same from the (n, n) matrix of products
            values, vectors = eigh(centered @ centered.T, subset_by_index=(n - size, n - 1))
            components = centered.T @ (vectors / np.sqrt(np.maximum(values, 1e-12)))
        scorer = self.backend.fit(centered @ components, speaker)
        return lambda enroll, counts, test: scorer((enroll - mean) @ components, counts, (test - mean) @ components)


@dataclass(frozen=True, eq=False)
class NormalizedScorer:
    """Scores in standard deviations above the ``top`` highest scores with a cohort of other speakers.

    ``cohort`` has shape (c, d): mean embeddings of ``counts`` (c,) utterances each.
    """

    scorer: Scorer
    cohort: Floats
    counts: Codes
    top: int

    def __call__(self, enroll: Floats, counts: Codes, test: Floats) -> Floats:
        """Return the mean (s, n) of the scores normalized for the enrolled speaker (z) and for the utterance (t)."""
        scores = self.scorer(enroll, counts, test)
        z_mean, z_spread = self._nearest(self.scorer(enroll, counts, self.cohort))
        t_mean, t_spread = self._nearest(self.scorer(self.cohort, self.counts, test).T)
        z = (scores - z_mean[:, None]) / z_spread[:, None]
        return np.asarray(0.5 * (z + (scores - t_mean) / t_spread))

    def _nearest(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the highest scores in each row of (n, c)."""
        highest = np.sort(scores, axis=1)[:, -self.top :]
        return highest.mean(axis=1), highest.std(axis=1) + 1e-9


@dataclass(frozen=True)
class SNorm(_Cosines):
    """A back-end with adaptive s-norm: scores relative to those of the ``top`` most similar training speakers.

    Some voices score high against everybody, and one threshold for all trials then errs. Nothing is learned from the
    trials. Normalized scores are not log-likelihood ratios, even if the back-end's are.
    """

    backend: Backend
    top: int = 100
    affine: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name of the back-end and ``s-norm``."""
        return f"{self.backend.name} s-norm"

    def fit(self, embeddings: Floats, speaker: Codes, cohort: NDArray[np.bool_] | None = None) -> NormalizedScorer:
        """Fit the back-end, and keep the mean embeddings of the training speakers.

        Parameters
        ----------
        embeddings, speaker
            Training data, (n, d) and (n,).
        cohort
            Mask (n,) of the utterances whose speakers form the cohort; all by default.
        """
        used = np.ones(len(speaker), dtype=bool) if cohort is None else cohort
        labels, codes, counts = np.unique(speaker[used], return_inverse=True, return_counts=True)
        means = np.zeros((len(labels), embeddings.shape[1]))
        np.add.at(means, codes, embeddings[used])
        return NormalizedScorer(self.backend.fit(embeddings, speaker), means / counts[:, None], counts, self.top)


def fit_with_enrollment(backend: Backend, embeddings: Floats, speaker: Codes, enrolled: NDArray[np.bool_]) -> Scorer:
    """Fit a back-end to training speech and to the enrollment of the attacked speakers.

    An attacked speaker is no part of the cohort of s-norm: a score is not to be compared with itself.

    Parameters
    ----------
    backend
        The back-end.
    embeddings, speaker
        Embeddings (n, d) and speakers (n,) of both.
    enrolled
        Mask (n,) of the enrollment utterances.
    """
    if isinstance(backend, SNorm):
        return backend.fit(embeddings, speaker, ~enrolled)
    return backend.fit(embeddings, speaker)


@dataclass(frozen=True)
class MarginSoftmax(_Cosines):
    """A square linear layer trained with the additive angular margin softmax.

    The layer starts from the identity and is held near it, so that few speakers suffice. Training uses full batches and
    Adam with a cosine schedule.

    Parameters
    ----------
    margin : float
        Angular margin in radians.
    scale : float
        Factor of the cosines before the softmax.
    steps : int
        Updates.
    rate : float
        Initial learning rate.
    pull : float
        Weight of the squared distance from the initial layer.
    seed : int
        Of the dropout.
    """

    margin: float = 0.2
    scale: float = 30.0
    steps: int = 150
    rate: float = 0.003
    pull: float = 0.1
    seed: int = 0

    @property
    def name(self) -> str:
        """Name in tables."""
        return "aam-softmax"

    def fit(self, embeddings: Floats, speaker: Codes) -> Linear:
        """Learn to classify the training speakers; speakers with one utterance are left out."""
        try:
            import torch
        except ImportError as error:
            raise InputError("the neural back-end needs torch", fix="pip install 'voiceveil[asv]'") from error
        torch.set_num_threads(1)
        device = current_device()
        _, codes, counts = np.unique(speaker, return_inverse=True, return_counts=True)
        several = counts[codes] > 1
        label = torch.from_numpy(np.unique(codes[several], return_inverse=True)[1]).to(device)
        mean, spread = embeddings.mean(axis=0), embeddings.std(axis=0) + 1e-6
        x = torch.from_numpy(((embeddings[several] - mean) / spread).astype(np.float32)).to(device)
        first = torch.from_numpy(np.diag(spread).astype(np.float32)).to(device)  # undoes the standardization
        change = torch.zeros_like(first, requires_grad=True)
        with torch.no_grad():  # the classes start at the speakers' means
            sums = x.new_zeros(int(label.max()) + 1, len(first)).index_add_(0, label, x @ first.T)
        classes = torch.nn.functional.normalize(sums).clone().requires_grad_(True)
        optimizer = torch.optim.Adam([change, classes], lr=self.rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.steps):
            kept = ((torch.rand(x.shape, generator=generator) > 0.1) / 0.9).to(device)  # drawn alike for all devices
            y = torch.nn.functional.normalize((x * kept) @ (first + change).T)
            cosine = (y @ torch.nn.functional.normalize(classes).T).clamp(-0.9999, 0.9999)
            moved = torch.cos(torch.acos(cosine) + self.margin)
            own = torch.nn.functional.one_hot(label, len(classes)).bool()
            loss = torch.nn.functional.cross_entropy(self.scale * torch.where(own, moved, cosine), label)
            loss = loss + self.pull * change.square().sum() / first.square().sum()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        learned = (first + change).detach().cpu().numpy().astype(np.float64)
        return Linear(mean, (learned / spread).T)
