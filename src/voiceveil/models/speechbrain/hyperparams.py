"""``hyperparams.yaml`` of SpeechBrain as plain data.

HyperPyYAML builds Python objects from tags such as ``!new:`` and ``!apply:``. Here a tag never does anything: a tagged
mapping is a dictionary, with the tag under :data:`TAG`; a tagged text is that text. ``!ref <name>`` and
``!ref <name[key]>`` are replaced by what they refer to. Tags of PyYAML that would build Python objects
(``!!python/...``) have no place in such a file and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from voiceveil.core.errors import InputError
from voiceveil.core.files import read_text

__all__ = ["TAG", "read_hyperparams", "require"]

#: Key of a mapping under which its tag is, without the exclamation mark: ``new:speechbrain.nnet.linear.Linear``.
TAG = "!"

_LARGEST = 1 << 20  # bytes
_DEEPEST = 30  # levels; references within references
_MOST = 10_000  # values
_REFERENCE = re.compile(r"<([\w-]+(?:\[[\w-]+\])*)>")
_FIX = "give the folder as the challenge's archive or training left it"


def read_hyperparams(path: Path) -> dict[str, Any]:
    """Return the content of a ``hyperparams.yaml``: numbers, texts, lists and dictionaries.

    Raises
    ------
    InputError
        If the file is missing, too large, not YAML, not a mapping, or has tags of Python objects.
    """
    text = read_text(path, at_most=_LARGEST)
    try:
        import yaml
    except ImportError as error:
        fix = "pip install 'voiceveil[asv]' or 'voiceveil[transformers]'"
        raise InputError("a model of SpeechBrain needs PyYAML, which is not installed", fix=fix) from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)  # nodes: nothing is constructed
        content = _Plain(yaml.SafeLoader("")).value(root)
        if not isinstance(content, dict):
            raise ValueError("the settings are not a mapping")
        resolved: dict[str, Any] = _Resolver(content).value(content)
    except (yaml.YAMLError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise InputError(f"not YAML: {reason}", where=path, fix=_FIX) from error
    except ValueError as error:
        raise InputError(str(error), where=path, fix=_FIX) from error
    return resolved


def require(settings: Mapping[str, Any], expected: Mapping[str, Any], path: Path, section: str) -> None:
    """Raise an ``InputError`` if a section sets a value that this program has no code for.

    Parameters
    ----------
    settings : mapping
        The section as read.
    expected : mapping
        Key -> the only supported value. Keys that the section does not set have their default, which is supported.
    path, section
        For the error.
    """
    for key, supported in expected.items():
        value = settings.get(key, supported)
        if value != supported or isinstance(value, bool) != isinstance(supported, bool):
            what = f"{section}.{key} is {str(value)[:100]}, but only {supported} is supported"
            raise InputError(what, where=path, fix="give one of the challenge's models")


class _Plain:
    """Turns nodes into plain values, up to a number of them: aliases can multiply a short file."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.count = 0

    def value(self, node: Any, depth: int = 0) -> Any:
        import yaml

        self.count += 1
        if depth > _DEEPEST or self.count > _MOST:
            raise ValueError("more values, or more levels of them, than such a file has")
        tag = str(getattr(node, "tag", ""))
        if "python/" in tag:
            raise ValueError(f"the tag {tag[:100]} would make Python objects, which such a file does not need")
        tagged = tag.startswith("!")
        if isinstance(node, yaml.MappingNode):
            content = {str(self.value(key, depth + 1)): self.value(value, depth + 1) for key, value in node.value}
            return {TAG: tag[1:], **content} if tagged else content
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value]
        if node is None:
            return None
        if tagged:
            return _Reference(node.value) if tag == "!ref" else node.value or {TAG: tag[1:]}
        return self._scalar(node)

    def _scalar(self, node: Any) -> Any:
        plain = {"null": "null", "bool": "bool", "int": "int", "float": "float"}
        kind = plain.get(node.tag.rpartition(":")[2], "str")
        return getattr(self.loader, f"construct_yaml_{kind}")(node)


class _Reference(str):
    """Text of a ``!ref``."""


class _Resolver:
    """Replaces references, up to a number of values: references can multiply a short file too."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.content = content
        self.count = 0

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return a value with its references replaced; those to nothing, and arithmetic, stay as they are written."""
        self.count += 1
        if depth > _DEEPEST or self.count > _MOST:
            raise ValueError("references that lead to more values than such a file has")
        if isinstance(value, dict):
            return {key: self.value(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, depth + 1) for item in value]
        if not isinstance(value, _Reference):
            return value
        if whole := _REFERENCE.fullmatch(value):
            target = self._target(whole[1])
            return str(value) if target is None else self.value(target, depth + 1)
        return _REFERENCE.sub(lambda match: self._text(match, depth), value)

    def _text(self, match: re.Match[str], depth: int) -> str:
        target = self.value(self._target(match[1]), depth + 1)
        return str(target) if isinstance(target, str | int | float) else match[0]

    def _target(self, name: str) -> Any:
        target: Any = self.content
        for key in re.findall(r"[\w-]+", name):
            target = target.get(key) if isinstance(target, Mapping) else None
        return target
