"""Submissions to the VoicePrivacy Challenges 2022, 2024 and 2026: packed, and checked without trusting them.

:func:`~.packing.pack` makes the archive that section 8.2 of the 2024 plan asks for, :func:`~.checking.check` examines
one. The layout is that of the official scripts, ``submission<suffix>.tar.gz``; :mod:`.archive_layout` has the others:

    exp/results_summary/result_for_rank<suffix>
    exp/results_summary/result_for_submission<suffix>.zip     all other result files, below exp/ as well
    data/<set><suffix>/wav/<utterance>.wav                    of the nine sets
    exp/results_summary/SHA256SUMS<suffix>                    ours: the audio as it was evaluated
"""
