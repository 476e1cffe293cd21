"""Systems that were submitted to VoicePrivacy 2020 and resynthesize speech, each a declaration of its models.

The overview of the challenge (Tomashenko et al. 2022, section 3.2, tables 4 and 5) describes them as changes to B1;
here they are changes to ``b1b`` with the decoder that ships, or to ``b1a`` where a system treats the acoustic model and
the waveform model differently. `docs/reference/vpc2020.md` gives for each what was published and what we decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from voiceveil.systems.contract import register
from voiceveil.systems.parameters import parameter
from voiceveil.systems.resynthesis.b1 import B1a, B1b
from voiceveil.systems.resynthesis.base import STRATEGY, Averaging, Resynthesis

if TYPE_CHECKING:
    from voiceveil.systems.resynthesis.synthesis import LoadedStage

__all__ = ["A2", "O1", "M1c2", "M1c3", "M1c4", "O1c1"]


@dataclass(frozen=True)
class _Submission(Resynthesis):
    """Base: the synthesis of b1b with another strategy."""

    stages: ClassVar[dict[str, tuple[str, ...]]] = B1b.stages
    shipped: ClassVar[str] = B1b.shipped


@register("a1")
@dataclass(frozen=True)
class A1(_Submission):
    """The parts of an embedding of high and of low variability, moved by two regression models (team A).

    Published: the x-vector is decomposed by variability, and two regression models, trained on the pool with
    pseudo-targets from clustering, modify the parts. Our decisions: the parts are dimensions; pseudo-targets are the
    least similar centroids of half of the pool; ridge regression predicts the high part, a mean over neighbors the low
    part. F0 is not changed, as in the final A1.
    """

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, A1 (Mawalim et al.)"
    strategy: str = parameter("a1", STRATEGY)
    variability: float = parameter(0.5, "fraction of the variance that the dimensions of the high part hold", high=1)
    clusters: int = parameter(10, "centroids to choose pseudo-targets from", low=2)
    neighbors: int = parameter(10, "pool speakers whose pseudo-targets the low part is averaged over", low=1)
    strength: float = parameter(1.0, "weight of the prediction: 0 keeps the embedding of the source", low=0, high=1)


@register("a2")
@dataclass(frozen=True)
class A2(_Submission):
    """The least similar centroid of clusters, in a pool whose smallest singular values are zero (team A).

    Published: the matrix of x-vectors is decomposed and its singular values are modified; a threshold gives the
    fraction of nonzero ones that is kept; the target is the least similar centroid. Our decisions: the matrix is that
    of the pool's speakers of a gender, half of its singular values are kept, and k-means starts from random speakers.
    """

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, A2 (Mawalim et al.)"
    strategy: str = parameter("a2", STRATEGY)
    kept: float = parameter(0.5, "fraction of the singular values that are not set to zero", low=0, high=1)
    clusters: int = parameter(10, "centroids to choose the least similar one from", low=2)


@register("o1")
@dataclass(frozen=True)
class O1(_Submission):
    """An artificial voice, sampled so that pseudo-speakers differ as speakers do (team O).

    Published: PCA of the pool; a sample of a Gaussian mixture in the principal coordinates is transformed back. Our
    decisions: two components with diagonal covariances, whose variances are corrected for the small number of speakers.
    """

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, O1 (Turner et al.)"
    strategy: str = parameter("o1", STRATEGY)
    variance: float = parameter(0.95, "fraction of the pool's variance that the principal coordinates hold", high=1)
    components: int = parameter(2, "components of the Gaussian mixture", low=1)


@register("o1c1")
@dataclass(frozen=True)
class O1c1(O1):
    """Variant of o1: a voice that is too similar to the source is sampled again (team O, contrastive).

    Our decision: "too similar" is a cosine distance to the embedding of the utterance below ``dissimilarity``.
    """

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, O1c1 (Turner et al.)"
    strategy: str = parameter("o1c1", STRATEGY)
    dissimilarity: float = parameter(0.7, "least cosine distance of a pseudo-speaker to the source", low=0, high=2)


@register("m1")
@dataclass(frozen=True)
class M1(B1b):
    """Variant of b1b with the encoder of an end-to-end recognizer (CTC and attention) as content (team M).

    Published: the sizes of ESPnet, which `voiceveil train ctc-attention --size paper` trains. Shipped is a small
    recognizer on top of the second layer of Moonshine that was also trained to imitate the content features of b1b's
    decoder. A recognizer of your own needs a decoder trained on its content, unless it imitates the same features.
    """

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, M1 (Champion et al.)"
    content: str = parameter("ctc-attention", "content features: ctc-attention (what ships) or ctc-attention:FOLDER")


@register("m1c1")
@dataclass(frozen=True)
class M1c1(M1):
    """Variant of m1 with a recognizer that was trained adversarially to hide the speaker (team M, contrastive).

    It is trained by `voiceveil train ctc-attention-masked`: an adversary predicts the speaker embedding from the
    content, and the encoder learns to prevent it.
    """

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, M1c1 (Champion et al.)"
    content: str = parameter(
        "ctc-attention-masked", "content features: ctc-attention-masked (what ships) or ctc-attention-masked:FOLDER"
    )


@register("m1c2")
@dataclass(frozen=True)
class M1c2(_Submission):
    """Copy-synthesis with the source's own embedding: shows what the networks alone change (team M).

    A control without protection.
    """

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, M1c2 (Champion et al.)"
    unused_parameters: ClassVar[frozenset[str]] = frozenset({"gender"})
    strategy: str = parameter("source", STRATEGY)


@register("m1c3")
@dataclass(frozen=True)
class M1c3(B1a):
    """Variant of b1a whose waveform model gets the embedding of the source (team M, contrastive)."""

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, M1c3 (Champion et al.)"
    source_speaker_stages: ClassVar[frozenset[str]] = frozenset({"nsf"})


@register("m1c4")
@dataclass(frozen=True)
class M1c4(B1a):
    """Variant of b1a whose acoustic model gets the embedding of the source (team M, contrastive)."""

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, M1c4 (Champion et al.)"
    source_speaker_stages: ClassVar[frozenset[str]] = frozenset({"am"})


@register("k2")
@dataclass(frozen=True)
class K2(Resynthesis):
    """One speaker of the pool, chosen under a privacy budget; mel spectra and Griffin-Lim (team K).

    Published: the target is chosen by voice-indistinguishability, differential privacy with the angular distance; the
    pool is the evaluation set itself; an acoustic model predicts mel spectra, the Griffin-Lim algorithm the waveform.
    Our decisions: the exponential mechanism, a budget at which the choice is nearly always the nearest voice, and b1a's
    acoustic model, which takes content and F0, not filterbanks. The pool that ships is of other speakers; for that of
    the challenge, `voiceveil train pool` on the evaluation set, or `pool=evaluation` in `voiceveil evaluate`.
    """

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2.3, K2 (Han et al.)"
    stages: ClassVar[dict[str, tuple[str, ...]]] = {"am": ("acoustic model",)}
    shipped: ClassVar[str] = B1a.shipped
    unused_parameters: ClassVar[frozenset[str]] = frozenset({"bottleneck"})
    strategy: str = parameter("k2", STRATEGY)
    gender: Literal["same", "other", "random", "f", "m"] = parameter(
        "random", "pseudo-speaker's gender: random, relative to the source (same, other), or fixed (f, m)"
    )
    epsilon: float = parameter(100.0, "privacy budget: 0 is a choice independent of the source", low=0)
    rounds: int = parameter(32, "iterations of the Griffin-Lim algorithm", low=1)

    def final_stages(self) -> tuple[LoadedStage, ...]:
        """Return the Griffin-Lim algorithm."""
        from voiceveil.dsp.griffin_lim import from_mel
        from voiceveil.systems.resynthesis.synthesis import LoadedStage

        return (LoadedStage(lambda mel, f0, speaker, rng: from_mel(mel, rng, rounds=self.rounds), {}),)


_AUTOENCODER = "folder that `voiceveil train autoencoder` wrote (default: the one that ships)"


@register("s1c1")
@dataclass(frozen=True)
class S1c1(_Submission):
    """The source's embedding through an autoencoder trained to remove speaker and gender (team S, contrastive).

    Published: an autoencoder with adversarial branches for speaker, gender and accent. Our decisions: see
    :mod:`voiceveil.models.nets.autoencoder`. The shipped one has no branch for accent, for lack of labels.
    """

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, S1c1 (Espinoza-Cuadros et al.)"
    unused_parameters: ClassVar[frozenset[str]] = frozenset({"gender"})
    strategy: str = parameter("s1c1", STRATEGY)
    autoencoder: str = parameter("", _AUTOENCODER)


@register("s2c1")
@dataclass(frozen=True)
class S2c1(S1c1):
    """Variant of s1c1 with tuned weights of the adversarial branches, ten times as large (team S, contrastive)."""

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, S2c1 (Espinoza-Cuadros et al.)"
    strategy: str = parameter("s2c1", STRATEGY)


@register("s1")
@dataclass(frozen=True)
class S1(Averaging):
    """The average of distant speakers of b1b through the autoencoder of s1c1 (team S)."""

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, S1 (Espinoza-Cuadros et al.)"
    stages: ClassVar[dict[str, tuple[str, ...]]] = B1b.stages
    shipped: ClassVar[str] = B1b.shipped
    strategy: str = parameter("s1", STRATEGY)
    autoencoder: str = parameter("", _AUTOENCODER)


@register("s2")
@dataclass(frozen=True)
class S2(S1):
    """The average of distant speakers of b1b through the autoencoder of s2c1 (team S)."""

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, S2 (Espinoza-Cuadros et al.)"
    strategy: str = parameter("s2", STRATEGY)
