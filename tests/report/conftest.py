"""A small evaluation to report, for all tests of reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.report_world import make_results
from voiceveil.report.report_data import ReportData, load_report_data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("results"), audio=True)


@pytest.fixture(scope="module")
def report_data(folder: Path) -> ReportData:
    return load_report_data(folder)
