"""The measurements of an assessment as records, and as a table for a reader."""

from __future__ import annotations

from typing import Any

from voiceveil.core.checks import check_lines
from voiceveil.core.tables import Table
from voiceveil.risk.assessment import Assessment
from voiceveil.risk.wording import limit_sentence, overall_sentence

__all__ = ["assessment_records", "assessment_table"]

_CRITERIA = {"singling_out": "Singling Out", "linkability": "Linkability", "one_minus_eer": "1 - EER"}
_COLUMNS = ("criterion", "attacker", "L", "N", "value [95%]", "chance", "control", "worst speaker")


def assessment_records(assessment: Assessment) -> list[dict[str, Any]]:
    """Return one record for each point of each curve and each inferred attribute; rates are fractions."""
    curves = [
        {
            "criterion": curve.metric,
            "attacker": curve.attacker,
            "length": curve.length,
            "speakers": size,
            "value": float(curve.value[at]),
            "low": float(curve.low[at]),
            "high": float(curve.high[at]),
            "chance": float(curve.chance[at]),
            "control": None if curve.control is None else float(curve.control[at]),
            "maximum": None if curve.maximum is None else float(curve.maximum[at]),
        }
        for curve in assessment.curves
        for at, size in enumerate(curve.sizes)
    ]
    inferences = [
        {
            "criterion": f"inference of {inference.attribute}",
            "attacker": inference.attacker,
            "length": inference.length,
            "speakers": inference.speakers,
            "value": inference.value,
            "low": inference.low,
            "high": inference.high,
            "chance": inference.baseline,
            "control": inference.control,
            "maximum": None,
        }
        for inference in assessment.inferences
    ]
    return curves + inferences


def assessment_table(assessment: Assessment) -> Table:
    """Return the smallest and the largest N of each curve and the inferences, with warnings and limits below."""
    ends = {(c.metric, c.attacker, c.length): {c.sizes[0], c.sizes[-1]} for c in assessment.curves}
    rows = []
    for record in assessment_records(assessment):
        key = (record["criterion"], record["attacker"], record["length"])
        if key in ends and record["speakers"] not in ends[key]:
            continue
        criterion = str(record["criterion"])
        rows.append((
            _CRITERIA.get(criterion, criterion.replace("inference of", "inference:")),
            str(record["attacker"]),
            str(record["length"]),
            str(record["speakers"]),
            f"{100 * record['value']:.1f} [{100 * record['low']:.1f}, {100 * record['high']:.1f}]",
            f"{100 * record['chance']:.2f}",
            "" if record["control"] is None else f"{100 * record['control']:.2f}",
            "" if record["maximum"] is None else f"{100 * record['maximum']:.1f}",
        ))  # fmt: skip
    notes = ["", *check_lines(assessment.checks), *(f"warning: {text}" for text in assessment.warnings)]
    notes += [limit_sentence(verdict, judged=not assessment.checks) for verdict in assessment.verdicts]
    notes.append(overall_sentence(assessment))
    return Table(_COLUMNS, tuple(rows), (*notes, "This informs a legal assessment and does not replace one."))
