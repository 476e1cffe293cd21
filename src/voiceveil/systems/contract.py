"""The contract of anonymization systems: a frozen dataclass with typed parameters and a ``transform``.

    @register("half-speed")
    @dataclass(frozen=True)
    class HalfSpeed(Anonymizer):
        "Plays everything at half speed."
        factor: float = parameter(0.5, "of the original speed", low=0.1, high=1.0)

        def transform(self, samples, rng): ...

The fields are the parameters: of ``vv.system("half-speed", factor=0.4)``, of ``--set factor=0.4`` and of the report.
``convert`` wraps ``transform`` with steps that every system needs: refusal of NaN, resampling to the system's rate, a
check that the result is finite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform, check_waveform
from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry
from voiceveil.core.user_modules import import_named
from voiceveil.corpus import Utterance
from voiceveil.systems.keys import Key
from voiceveil.systems.parameters import check_parameters, current_names, parameter_names, parse_settings
from voiceveil.systems.resources import Resource

__all__ = [
    "DEFAULT_SYSTEM",
    "Anonymizer",
    "Stream",
    "default_system",
    "find_system",
    "register",
    "system",
    "systems",
]

#: Name of the default system.
DEFAULT_SYSTEM = "veil"


class Stream(Protocol):
    """Converts one recording block by block, so that memory does not grow with the recording."""

    def push(self, samples: Samples) -> Samples:
        """Take the next samples at the system's rate; return those that are finished."""
        ...

    def close(self) -> Samples:
        """End the recording; return the rest."""
        ...

    def finish(self, samples: Samples, peak: float) -> Samples:
        """Return final samples of a block in a second pass, given the peak of all output of ``push`` and ``close``."""
        ...


class Anonymizer(ABC):
    """Base class of all systems; the docstring of the module shows how to write one."""

    name: ClassVar[str] = ""
    #: Sampling rate in Hz that ``transform`` works at.
    rate: ClassVar[int] = 16000
    #: Publication that describes the system.
    source: ClassVar[str] = ""
    #: Whether the output is as long as the recording: False for systems that change the speaking rate.
    keeps_length: ClassVar[bool] = True
    #: Language that its models of content know; "" if it has none: then words of any language pass.
    language: ClassVar[str] = ""
    #: Whether the system is a control that leaves voices recognizable on purpose, as ``identity`` does.
    is_control: ClassVar[bool] = False
    #: Modules to import once before worker processes start, in addition to the system's own.
    preload: ClassVar[tuple[str, ...]] = ()
    #: Inherited parameters that this system ignores: they are neither listed nor accepted.
    unused_parameters: ClassVar[frozenset[str]] = frozenset()
    #: Names of attackers made for this system: an evaluation runs them in addition to the usual ones.
    attackers: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        check_parameters(self)

    @property
    def uses_source_embedding(self) -> bool:
        """Return whether the pseudo-speaker depends on the speaker embedding of the source."""
        return False

    def source_embedding(self, wave: Waveform) -> NDArray[np.float32] | None:
        """Return the speaker embedding (d,) of a recording, L2-normalized; None if it is silent."""
        return None

    def with_source_embedding(self, embedding: NDArray[np.float32]) -> Anonymizer:
        """Return this system for a source speaker of known embedding; most systems return ``self``."""
        return self

    @abstractmethod
    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Anonymize a recording.

        Parameters
        ----------
        samples
            Mono float32 samples (n,) in [-1, 1] at ``self.rate``, n >= 1, all finite. Must not be modified.
        rng
            Generator of the utterance (or speaker): the only source of randomness, also for the pseudo-speaker.

        Returns
        -------
        ndarray
            Anonymized samples at ``self.rate``.
        """

    def convert(self, wave: Waveform, rng: np.random.Generator | None = None, *, key: Key | None = None) -> Waveform:
        """Anonymize one recording; the pseudo-speaker is drawn at random unless ``rng`` or ``key`` is given.

        Parameters
        ----------
        wave
            Recording of any rate.
        rng
            Generator that the pseudo-speaker is drawn from.
        key
            Secret key that the pseudo-speaker is drawn from instead: one key gives one pseudo-speaker.

        Returns
        -------
        Waveform
            The anonymized recording at ``self.rate``.

        Raises
        ------
        InputError
            If ``wave`` is no :class:`Waveform`, has samples that are not finite, or both ``rng`` and ``key`` are given.
        """
        check_waveform(wave)
        if rng is None:
            rng = np.random.default_rng() if key is None else key.rng("convert")
        elif key is not None:
            raise InputError("both rng and key were given", fix="give one of them, or neither for a random draw")
        check_finite(wave.samples, wave.rate)
        samples = wave.resampled(self.rate).samples
        if len(samples) == 0:
            return Waveform(samples.copy(), self.rate)
        result = Waveform(self.transform(samples, rng), self.rate)
        if not np.isfinite(result.samples).all():
            raise InputError(f"{self.name or type(self).__name__} gave samples that are not finite")
        return result

    def stream(self, rng: np.random.Generator) -> Stream | None:
        """Return a stream that converts block by block, or None if the system needs the whole recording at once."""
        return None

    def latency(self) -> float | None:
        """Return the delay of ``stream`` in seconds, or None if the system cannot run live."""
        return None

    def models(self) -> dict[str, str]:
        """Return name -> hash or version of every model that the output depends on; called before a run starts.

        An ``InputError`` if a model is missing. A run is not resumed if its models have changed.
        """
        return {}

    def resources(self) -> tuple[Resource, ...] | None:
        """Return the training data and pretrained models behind the system; None if it does not declare them."""
        return None

    def for_level(self, level: str) -> Anonymizer:
        """Return this system for pseudo-speakers of utterances or of speakers; most systems return ``self``."""
        return self

    def with_source_gender(self, gender: str | None) -> Anonymizer:
        """Return this system for a source speaker of known gender, "f" or "m"; most systems return ``self``."""
        return self

    def with_timing_kept(self) -> Anonymizer:
        """Return this system without changes of tempo and rhythm; a system whose ``keeps_length`` is True has none.

        Raises
        ------
        InputError
            If the system cannot do without them.
        """
        if not self.keeps_length:
            fix = "choose another --system, or give --no-keep-timing"
            raise InputError(f"{self.name} cannot keep the timing of a recording", fix=fix)
        return self

    def official_rng(self, index: int, utterance: Utterance, level: str) -> np.random.Generator:
        """Return the challenge's own generator for the ``index``-th utterance of a data set (``--draws official``)."""
        raise InputError(
            f"{self.name} has no official draws", fix="leave out --draws official; use --seed or --key-file"
        )

    def parameters(self) -> dict[str, Any]:
        """Return name -> value of the parameters that the system uses, in the order of declaration."""
        return {name: getattr(self, name) for name in parameter_names(type(self))}


def check_finite(samples: Samples, rate: int, start: float = 0.0) -> None:
    """Refuse NaN and infinities, with the time in seconds of the first (``start`` is the time of ``samples[0]``)."""
    if not np.isfinite(samples).all():
        where = start + int(np.argmin(np.isfinite(samples))) / rate
        raise InputError(f"a sample is not finite at {where:.3f} s", fix="repair the recording or cut that part out")


systems: Registry[type[Anonymizer]] = Registry(
    "system",
    group="voiceveil.systems",
    modules=(
        "voiceveil.systems.identity",
        "voiceveil.systems.signal.b2",
        "voiceveil.systems.signal.i1",
        "voiceveil.systems.resynthesis.b1",
        "voiceveil.systems.resynthesis.veil",
        "voiceveil.systems.resynthesis.vpc2020",
    ),
)

S = TypeVar("S", bound=type[Anonymizer])


def register(name: str) -> Callable[[S], S]:
    """Return a class decorator that registers a system under ``name``."""

    def add(cls: S) -> S:
        cls.name = name
        systems.register(name)(cls)
        return cls

    return add


def system(name: str, **parameters: Any) -> Anonymizer:
    """Return a system by name.

    Parameters
    ----------
    name
        A name from :func:`voiceveil.systems`.
    **parameters
        Parameters of the system.

    Examples
    --------
    >>> import voiceveil as vv
    >>> vv.system("b2", alpha=(0.5, 0.9)).alpha
    (0.5, 0.9)
    """
    cls = systems[name]
    return cls(**current_names(cls, name, parameters))


def find_system(spec: str, settings: Iterable[str] = ()) -> Anonymizer:
    """Return the system that a user names on the command line.

    Parameters
    ----------
    spec
        Name of a registered system, or ``MODULE:CLASS``, found from the working directory.
    settings
        Parameters as ``["alpha=0.6,0.8"]``.

    Raises
    ------
    InputError
        If there is no such system, class or parameter.
    """
    if ":" not in spec:
        return system(spec, **parse_settings(systems[spec], spec, settings))
    module_name, _, class_name = spec.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise InputError(
            f"{spec!r} does not name a class of a module", fix="give MODULE:CLASS, such as my_module:MySystem"
        )
    module = import_named(module_name)
    cls = getattr(module, class_name, None)
    if cls is None:
        raise InputError(f"there is no {class_name} in {module_name}", where=module.__file__, fix="give MODULE:CLASS")
    if not (isinstance(cls, type) and issubclass(cls, Anonymizer)):
        raise InputError(f"{spec} is not a subclass of voiceveil.Anonymizer")
    return cls(**parse_settings(cls, spec, settings))


def default_system(settings: Iterable[str] = ()) -> tuple[Anonymizer, str]:
    """Return the default system and a warning for the user ("" if there is none).

    It is ``veil``, or ``b2`` with a warning if something that ``veil`` needs is missing and no settings are given.
    """
    parameters = list(settings)
    try:
        anonymizer = find_system(DEFAULT_SYSTEM, parameters)
        anonymizer.models()
    except InputError as error:
        if parameters:  # b2 does not have the parameters of veil
            raise
        return system("b2"), f"using b2, which protects little, because veil cannot be used: {error}"
    return anonymizer, ""
