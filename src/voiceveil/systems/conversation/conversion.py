"""Convert a recording of several people: decode, find the turns, plan, draw voices, speak, mix.

The recording is read twice: once to 16 kHz in temporary files, from which turns and new voices are made, and once at
its own rate and with all channels, for what is copied. Memory does not grow with the recording, but for its turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from voiceveil.core.activity import report_status
from voiceveil.core.atomic_files import scratch_path
from voiceveil.core.errors import InputError
from voiceveil.corpus.turns import Turn, merge_turns, speakers_of
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.conversation.mixing import RenderedConversation, Track
from voiceveil.systems.conversation.options import ConversationOptions
from voiceveil.systems.conversation.recording import Recording, decode
from voiceveil.systems.conversation.rendering import loudest_speech, mean_level, render
from voiceveil.systems.conversation.report import ConversationReport
from voiceveil.systems.conversation.sample_file import SampleFile
from voiceveil.systems.conversation.spans import (
    Span,
    alone_spans,
    clip_turns,
    copied_seconds,
    measure_overlap,
    plan_spans,
)
from voiceveil.systems.conversation.voices import Voice, draw_voices

__all__ = ["open_conversation"]


@contextmanager
def open_conversation(
    recording: Recording, system: Anonymizer, options: ConversationOptions, rng: np.random.Generator, beside: Path
) -> Iterator[RenderedConversation]:
    """Convert a conversation; the result can be read while the block lasts.

    Parameters
    ----------
    recording
        The recording.
    system
        The system that converts it, for speaker level and with timing kept.
    options
        Who speaks when, and who is hidden.
    rng
        Generator of the new voices.
    beside
        Temporary files are written into the folder of this path.

    Raises
    ------
    InputError
        If the recording or its turns cannot be used, a name is not that of a speaker, or nobody is to be hidden.
    """
    given = options.given_turns(recording.path.stem)
    if given is not None:
        _check_hidden(options, given)
    with ExitStack() as stack:

        def scratch() -> SampleFile:
            return stack.enter_context(SampleFile(stack.enter_context(scratch_path(beside))))

        sources, rate, length = decode(recording, scratch, separate=options.channels == "separate")
        if options.channels == "separate":
            turns = [Turn(f"channel-{number}", 0.0, length) for number in range(1, len(sources) + 1)]
        else:
            turns = _turns(sources[0], given, options, length)
        hidden = _check_hidden(options, turns)
        plans = _plans(sources, turns, hidden, length, options)
        voices = _voices(sources, turns, hidden, plans, system, rng)
        report_status("speaking in new voices")
        tracks = []
        for source, spans in zip(sources, plans, strict=True):
            tracks.append(Track(scratch(), spans, length))
            spoken = {span.voice for span in spans}
            render(source, spans, {name: voices[name] for name in voices if name in spoken}, tracks[-1].voices)
        yield RenderedConversation(recording, rate, tracks, _report(turns, hidden, plans, voices, options))


def _check_hidden(options: ConversationOptions, turns: Sequence[Turn]) -> set[str]:
    hidden = options.hidden_speakers(turns)
    if not hidden:
        raise InputError("nobody is to be hidden: all speakers are kept", fix="leave out a --keep")
    return hidden


def _turns(source: SampleFile, given: Sequence[Turn] | None, options: ConversationOptions, length: float) -> list[Turn]:
    """Return the turns that are given, or else those that are found."""
    if given is not None:
        turns = clip_turns(merge_turns(given), length)
        if not turns:
            raise InputError("all turns are after the end of the recording", fix="are they those of this recording?")
        return turns
    from voiceveil.models.diarization.diarizer import diarize

    report_status("finding out who speaks when")
    turns = clip_turns(diarize(source, options.speakers), length)
    if not turns:
        fix = "give the turns with --turns FILE, or leave out --speakers to hide everything"
        raise InputError("no speech was found in this recording", fix=fix)
    return turns


def _plans(
    sources: Sequence[SampleFile],
    turns: Sequence[Turn],
    hidden: set[str],
    length: float,
    options: ConversationOptions,
) -> list[list[Span]]:
    """Return the spans of each track."""
    if options.channels == "separate":
        return [[Span(turn.speaker if turn.speaker in hidden else None, 0.0, length)] for turn in turns]
    levels = {name: mean_level(sources[0], alone_spans(turns, name)) for name in speakers_of(turns)}
    return [plan_spans(turns, hidden, levels, length, options.margin)]


def _voices(
    sources: Sequence[SampleFile],
    turns: Sequence[Turn],
    hidden: set[str],
    plans: Sequence[Sequence[Span]],
    system: Anonymizer,
    rng: np.random.Generator,
) -> dict[str, Voice]:
    """Return the new voices of all who need one, unlike those of all who are copied."""
    speech = {}
    for index, name in enumerate(speakers_of(turns)):
        track = index if len(sources) > 1 else 0
        regions = alone_spans([turn for turn in turns if len(sources) == 1 or turn.speaker == name], name)
        speech[name] = loudest_speech(sources[track], regions)
    needed = {span.voice for spans in plans for span in spans}
    report_status("drawing new voices")
    kept = [samples for name, samples in speech.items() if name not in hidden]
    return draw_voices(system, {name: speech[name] for name in speech if name in needed}, kept, rng)


def _report(
    turns: Sequence[Turn],
    hidden: set[str],
    plans: Sequence[Sequence[Span]],
    voices: dict[str, Voice],
    options: ConversationOptions,
) -> ConversationReport:
    neutral = {name: f"speaker-{number}" for number, name in enumerate(speakers_of(turns), start=1)}
    separate = options.channels == "separate"
    overlap = None if separate else measure_overlap(turns)  # in channels of their own nobody is interrupted
    similarities = [voice.similarity for voice in voices.values() if voice.similarity is not None]
    return ConversationReport(
        turns=tuple(turn._replace(speaker=neutral[turn.speaker]) for turn in turns),
        hidden=frozenset(neutral[name] for name in hidden),
        channels={name: number for number, name in enumerate(neutral.values(), start=1)} if separate else {},
        speech=0.0 if overlap is None else overlap.speech,
        overlap=0.0 if overlap is None else overlap.overlap,
        copied=sum(copied_seconds(spans) for spans in plans) / len(plans),
        similarity=max(similarities, default=None),
    )
