"""Score worlds: synthetic verification trials whose true error rates are known, with speakers who differ.

Conventions: scores are Gaussian, in units of their own; a world is a population, a draw from it is one experiment with
new speakers. Real attackers show all of these effects ("Doddington's zoo"): speakers who match everybody when enrolled
(lambs, ``enroll_sd``) or when heard (wolves, ``trial_sd``), and speakers who do not match themselves (goats,
``goat_sd``). They make the trials of one speaker alike: thousands of trials then tell what a few speakers tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from voiceveil.metrics.scored_trials import ScoredTrials

__all__ = ["ScoreWorld"]


@dataclass(frozen=True)
class ScoreWorld:
    """A population of scores: nontargets around 0, targets around ``separation``.

    Each of ``speakers`` is heard in ``utterances`` utterances, which are scored against each of the first ``enrolled``
    speakers (all, by default). ``*_sd`` are standard deviations: of a speaker's effect when enrolled, when heard, and
    when compared with herself, of an utterance's effect, and of what is left.
    """

    speakers: int = 20
    enrolled: int | None = None
    utterances: int = 5
    separation: float = 2.5
    enroll_sd: float = 0.5
    trial_sd: float = 0.5
    goat_sd: float = 0.5
    utterance_sd: float = 0.3
    noise_sd: float = 0.6

    @property
    def target_sd(self) -> float:
        """The standard deviation of target scores over the population."""
        return float(np.hypot(self.nontarget_sd, self.goat_sd))

    @property
    def nontarget_sd(self) -> float:
        """The standard deviation of nontarget scores over the population."""
        return float(np.sqrt(self.enroll_sd**2 + self.trial_sd**2 + self.utterance_sd**2 + self.noise_sd**2))

    @property
    def eer(self) -> float:
        """The equal error rate of the population: where two Gaussians have equal tails."""
        from scipy.special import ndtr

        return float(ndtr(-self.separation / (self.target_sd + self.nontarget_sd)))

    def densities(self, points: int = 200_001) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the probabilities of targets and of nontargets in narrow score bins, shape (points - 1,) each."""
        from scipy.special import ndtr

        reach = 9.0 * self.target_sd
        edges = np.linspace(min(0.0, self.separation) - reach, max(0.0, self.separation) + reach, points)
        target = np.diff(ndtr((edges - self.separation) / self.target_sd))
        nontarget = np.diff(ndtr(edges / self.nontarget_sd))
        return target, nontarget

    def draw(self, rng: np.random.Generator) -> ScoredTrials:
        """Return one experiment with new speakers: all utterances against all enrolled speakers."""
        from voiceveil.metrics.scored_trials import ScoredTrials

        n, m, u = self.speakers, self.enrolled or self.speakers, self.utterances
        lamb, wolf, goat = rng.standard_normal((3, n)) * np.array([[self.enroll_sd], [self.trial_sd], [self.goat_sd]])
        speaker_of = np.repeat(np.arange(n), u)
        of_utterance = wolf[speaker_of] + rng.normal(0.0, self.utterance_sd, n * u)
        score = lamb[:m, None] + of_utterance + rng.normal(0.0, self.noise_sd, (m, n * u))
        target = np.arange(m)[:, None] == speaker_of
        score += target * (self.separation + goat[:m, None])
        enroll = np.broadcast_to(np.arange(m)[:, None], score.shape)
        speaker = np.broadcast_to(speaker_of, score.shape)
        return ScoredTrials(score.ravel(), target.ravel(), enroll.ravel(), speaker.ravel())
