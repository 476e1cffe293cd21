"""Options of ``voiceveil anonymize`` for conversations and for redaction."""

from __future__ import annotations

import argparse
from pathlib import Path

from voiceveil.core.errors import InputError
from voiceveil.systems.redaction.options import check_kinds

__all__ = ["CONVERSATION", "REDACTION", "add_conversation", "add_redaction"]

#: Names of the options, in Python too.
CONVERSATION = ("speakers", "turns", "hide", "keep", "channels", "margin")
REDACTION = ("redact", "words", "names_model", "recognizer", "text", "redact_with", "guard", "transcript", "redactions")


def add_conversation(parser: argparse.ArgumentParser) -> None:
    """Declare who speaks when, and who is hidden."""
    group = parser.add_argument_group("conversations", "each speaker gets a voice; OUT.rttm says who speaks when")
    names = "a name in --turns, or speaker-1, speaker-2, ... in the order in which they first speak; repeatable"
    table = "who speaks when, instead of finding it out: .rttm, or .csv with the columns speaker,start,end"
    margin = "around turns of hidden speakers, not copied either (default: 0.25)"
    channels = "separate: one person in each channel, channel-1, channel-2, ... (default: mix)"
    group.add_argument("--speakers", metavar="N", help="several people speak in a recording: auto, or how many")
    group.add_argument("--turns", type=Path, metavar="FILE", help=table)
    group.add_argument("--hide", action="append", default=[], metavar="NAME", help=f"hide this speaker only: {names}")
    group.add_argument("--keep", action="append", default=[], metavar="NAME", help="copy this speaker, hide the others")
    group.add_argument("--channels", choices=["mix", "separate"], default="mix", help=channels)
    group.add_argument("--margin", type=float, metavar="SECONDS", help=margin)


def add_redaction(parser: argparse.ArgumentParser) -> None:
    """Declare which words are removed."""
    group = parser.add_argument_group("redaction", "words that identify are replaced; see docs/how-to/redaction.md")
    kinds = "what to remove, with commas: words (of --words), names, numbers, numbers=all (default: all that is given)"
    words = "words and phrases to remove, one in each line; those that sound alike go as well"
    model = "spaCy pipeline that finds names: an installed package or a folder (default: en_core_web_*)"
    left = "write what is left as .txt, .srt or .vtt; txt, srt or vtt alone: beside each output"
    listing = "list what was removed, with the words, in a .csv file: private!"
    group.add_argument("--redact", nargs="?", const="all", default=False, type=_kinds, metavar="KINDS", help=kinds)
    group.add_argument("--words", type=Path, metavar="FILE", help=words)
    group.add_argument("--names-model", metavar="NAME", help=model)
    group.add_argument("--recognizer", metavar="NAME", help="transcribes recording and result (default: moonshine)")
    group.add_argument("--text", type=Path, metavar="FILE", help="what is said in the recording, if it is known")
    group.add_argument("--redact-with", choices=["tone", "silence"], help="what is heard instead (default: tone)")
    group.add_argument("--guard", type=float, metavar="SECONDS", help="removed on either side (default: 0.25)")
    group.add_argument("--transcript", type=Path, metavar="FILE", help=left)
    group.add_argument("--redactions", type=Path, metavar="FILE", help=listing)


def _kinds(text: str) -> str:
    """Return what is to be removed; a recording that follows --redact is no kind, and is told at once."""
    try:
        if text != "all":
            check_kinds(text.split(","))
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text
