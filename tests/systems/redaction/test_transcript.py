"""Transcripts of what is left, in three formats."""

from __future__ import annotations

from voiceveil.systems.redaction.transcript import Word, write_transcript

LINES = [
    [Word("Hello", 0.1, 0.5), Word(None, 0.5, 1.0), Word(None, 1.0, 1.5), Word("lives", 1.5, 2.0)],
    [Word("in", 3661.5, 3661.75), Word("<b>", 3661.75, 3662.0), Word(None, 3670.0, 3671.0)],
    [],
]


def test_text_has_a_line_for_each_piece_and_a_mark_for_each_stretch() -> None:
    assert write_transcript(LINES, "txt") == "Hello [redacted] lives\nin <b> [redacted]\n"


def test_subrip() -> None:
    assert write_transcript(LINES, "srt") == (
        "1\n00:00:00,100 --> 00:00:02,000\nHello [redacted] lives\n\n"
        "2\n01:01:01,500 --> 01:01:02,000\nin <b>\n\n"
        "3\n01:01:10,000 --> 01:01:11,000\n[redacted]\n\n"
    )


def test_webvtt_escapes_what_would_be_markup() -> None:
    text = write_transcript(LINES, "vtt")
    assert text.startswith("WEBVTT\n\n00:00:00.100 --> 00:00:02.000\nHello [redacted] lives\n")
    assert "in &lt;b&gt;\n" in text


def test_long_lines_become_several_subtitles() -> None:
    words = [Word(f"word{n}", n * 0.5, n * 0.5 + 0.4) for n in range(40)]
    text = write_transcript([words], "srt")
    assert text.count("-->") > 3
    assert all(len(line) <= 80 for line in text.splitlines())
