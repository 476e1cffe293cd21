"""The official result files of the VoicePrivacy Challenges 2020, 2022 and 2024, read and written.

``read_results`` reads any of them, and our own ``results.json``. To write: ``write_summary`` of
:mod:`.summary2024` and :mod:`.summary2022`, ``write_results`` of :mod:`.results2022` (2020 as well), and the tables,
scores and EERs of :mod:`.exp2024`. A published file that is read and written again is the same file, byte by byte.
"""

from __future__ import annotations

from voiceveil.official.reading import read_results, system_name

__all__ = ["read_results", "system_name"]
