"""The list of known metrics: what each is called, its unit, which way is better, and which data it needs.

Conventions: rates have the unit ``"%"``; as values they are fractions in [0, 1], and only shown as percent. "Better" is
for an anonymizer: a higher EER is better, because the attacker errs more often; a lower WER is better, because the
words are kept.

Protocols are checked against this list. Metrics of verification trials that third parties register as measures
(:data:`voiceveil.metrics.measures.MEASURES`) are known as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean

__all__ = ["METRICS", "MetricInfo", "metric_info"]

#: The part of a protocol that has the data for a metric.
Part = Literal["verification", "recognition", "emotion", "legal"]


@dataclass(frozen=True)
class MetricInfo:
    """A metric as protocols, tables and reports refer to it.

    Parameters
    ----------
    name
        The key in protocols and results, e.g. ``"eer"``.
    title
        The heading in tables, e.g. ``"EER"``.
    unit
        ``"%"`` (a fraction, shown as percent), ``"dB"``, ``"bit"`` or ``""``.
    better
        Which way is better for an anonymizer: ``"higher"`` or ``"lower"``.
    part
        The table of a protocol that names its data: ``"verification"`` (enrollment and trials), ``"recognition"``
        (transcripts), ``"emotion"`` or ``"legal"`` (the sets A and B of ``voiceveil risk``).
    """

    name: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    part: Part = "verification"


#: Name -> metric, in the order in which they are listed to users.
METRICS: dict[str, MetricInfo] = {
    info.name: info
    for info in (
        MetricInfo("eer", "EER", "%", "higher"),
        MetricInfo("eer_trials", "EER of several utterances or both genders", "%", "higher"),
        MetricInfo("worst_speaker_eer", "EER of the worst speaker", "%", "higher"),
        MetricInfo("speakers_below_20", "speakers with an EER below 20%", "%", "lower"),
        MetricInfo("identified", "utterances whose speaker is identified", "%", "lower"),
        MetricInfo("wer", "WER", "%", "lower", "recognition"),
        MetricInfo("uar", "UAR", "%", "higher", "emotion"),
        MetricInfo("pitch_correlation", "pitch correlation", "", "higher"),
        MetricInfo("gvd", "gain of voice distinctiveness (G_VD)", "dB", "higher"),
        MetricInfo("deid", "de-identification (DeID)", "%", "higher"),
        MetricInfo("cllr", "Cllr", "bit", "higher"),
        MetricInfo("min_cllr", "min Cllr", "bit", "higher"),
        MetricInfo("d_sys", "linkability D_sys", "", "lower"),
        MetricInfo("zebra_population", "ZEBRA, population: mean disclosure", "bit", "lower"),
        MetricInfo("zebra_individual", "ZEBRA, individual: worst case", "", "lower"),
        MetricInfo("min_dcf", "min DCF", "", "higher"),
        MetricInfo("act_dcf", "actual DCF", "", "higher"),
        MetricInfo("singling_out", "Singling Out", "%", "lower", "legal"),
        MetricInfo("linkability", "Linkability", "%", "lower", "legal"),
    )
}


def metric_info(name: str) -> MetricInfo:
    """Return the metric of that name.

    Raises
    ------
    InputError
        If no metric has this name; the message suggests similar names.

    Examples
    --------
    >>> metric_info("wer").better
    'lower'
    """
    if name in METRICS:
        return METRICS[name]
    from voiceveil.metrics.measures import MEASURES  # imported here, since it compiles kernels

    if name in MEASURES:
        measure = MEASURES[name]()
        return MetricInfo(name, measure.title or name, measure.unit, measure.better)
    raise InputError(f"unknown metric {name!r}", fix=did_you_mean(name, list({**METRICS, **dict.fromkeys(MEASURES)})))
