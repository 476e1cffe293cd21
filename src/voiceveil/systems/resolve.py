"""Find a system by what a user writes: a name of the registry, or MODULE:CLASS from the working directory."""

from __future__ import annotations

from collections.abc import Iterable

from voiceveil.core.errors import InputError
from voiceveil.core.user_modules import import_named
from voiceveil.systems.contract import Anonymizer, system, systems
from voiceveil.systems.parameters import parse_settings

__all__ = ["DEFAULT_SYSTEM", "default_system", "find_system"]

#: Name of the system that is used where none is named.
DEFAULT_SYSTEM = "veil"


def find_system(spec: str, settings: Iterable[str] = ()) -> Anonymizer:
    """``find_system("b2", ["alpha=0.6,0.8"])``, ``find_system("my_module:MySystem")``."""
    if ":" not in spec:
        return system(spec, **parse_settings(systems[spec], spec, settings))
    module_name, _, class_name = spec.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise InputError(f"{spec!r} names no class of a module", fix="give MODULE:CLASS, such as my_module:MySystem")
    module = import_named(module_name)
    cls = getattr(module, class_name, None)
    if cls is None:
        raise InputError(f"there is no {class_name} in {module_name}", where=module.__file__, fix="give MODULE:CLASS")
    if not (isinstance(cls, type) and issubclass(cls, Anonymizer)):
        raise InputError(f"{spec} is not a subclass of voiceveil.Anonymizer")
    return cls(**parse_settings(cls, spec, settings))


def default_system(settings: Iterable[str] = ()) -> tuple[Anonymizer, str]:
    """Return the system that is used where none is named, and a warning for the user, or an empty string.

    It is ``veil``; or ``b2``, with the warning, where something that ``veil`` needs is missing.
    """
    chosen = list(settings)
    try:
        made = find_system(DEFAULT_SYSTEM, chosen)
        made.models()
    except InputError as error:
        if chosen:  # parameters are those of one system
            raise
        return system("b2"), f"using b2, which protects little, because veil cannot be used: {error}"
    return made, ""
