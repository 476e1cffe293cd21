"""The public names of ``import voiceveil as vv``: found, documented, cheap to import, and clear about wrong input."""

from __future__ import annotations

import ast
import csv
import doctest
import importlib
import inspect
import json
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import voiceveil as vv
from voiceveil.core.tables import Table
from voiceveil.evaluation.results import Figure
from voiceveil.testing import synthetic_voice

#: Imports the package and prints the milliseconds it took and the modules that are loaded.
_IMPORT = """
import json, sys, time
start = time.perf_counter()
import voiceveil as vv
print(json.dumps([1000 * (time.perf_counter() - start), sorted(sys.modules), dir(vv)]))
"""


def test_import_is_quick_and_brings_no_torch() -> None:
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", _IMPORT], check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    assert min(milliseconds for milliseconds, _, _ in runs) < 150
    assert not {"torch", "numpy", "scipy", "numba"} & set(runs[0][1])
    assert runs[0][2] == sorted(vv.__all__)


def test_every_public_name_is_documented() -> None:
    for name in vv.__all__:
        member = getattr(vv, name)
        assert name == "__version__" or inspect.getdoc(member), name
        if inspect.isfunction(member):
            assert "Parameters\n" in (inspect.getdoc(member) or ""), f"{name} does not document its parameters"
            assert "Examples\n" in (inspect.getdoc(member) or ""), f"{name} has no example"
    assert vv.__version__.count(".") == 2


@pytest.mark.parametrize(
    "name", ["voiceveil", "voiceveil.metrics", "voiceveil.models", "voiceveil.risk", "voiceveil.stats"]
)
def test_lazy_packages_have_the_names_of_their_stubs_and_no_others(name: str) -> None:
    package = importlib.import_module(name)
    stub = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text())
    imported = {a.asname or a.name for node in stub.body if isinstance(node, ast.ImportFrom) for a in node.names}
    declared = next(ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign))
    assert dir(package) == sorted(package.__all__) == sorted(imported) == sorted(declared)
    for public in declared:
        assert hasattr(package, public), f"{name} does not have {public}"
    with pytest.raises(AttributeError, match="nonsense"):
        package.nonsense  # noqa: B018


@pytest.mark.slow
def test_help_lists_the_functions() -> None:
    command = [sys.executable, "-c", "import voiceveil as vv; help(vv)"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for name in ("anonymize", "compare", "load", "save", "system", "transcribe"):
        assert f"    {name}(" in text


@pytest.mark.parametrize("name", ["attack", "evaluate", "assess_risk", "systems"])
def test_help_and_signature_name_every_parameter(name: str) -> None:
    function = getattr(vv, name)
    text = pydoc.render_doc(function)
    parameters = inspect.signature(function).parameters.values()
    assert 1 <= len(parameters) <= 10
    for parameter in parameters:
        assert parameter.kind is not parameter.VAR_KEYWORD  # tab completion knows all names
        assert f"{parameter.name}: " in text  # the signature
        assert re.search(rf"^ +(\w+, )*{parameter.name}(, \w+)*\n", text, re.MULTILINE)  # its description
    assert "Returns" in text or name == "systems"


@pytest.mark.parametrize("name", [name for name in vv.__all__ if name != "__version__"])
def test_examples_of_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    member = getattr(getattr(vv, name), "call", getattr(vv, name))
    runner = doctest.DocTestRunner()
    names = {"np": np, "vv": vv, "Waveform": vv.Waveform, "InputError": vv.InputError}
    for example in doctest.DocTestFinder(recurse=False).find(member, name, globs=names):
        runner.run(example)
    assert runner.summarize().failed == 0


def test_packages_are_functions_before_and_after_their_modules_are_imported() -> None:
    before = "import voiceveil as vv; names = [s.name for s in vv.systems()]"
    after = "from voiceveil.systems.batch import anonymize; assert [s.name for s in vv.systems()] == names"
    subprocess.run([sys.executable, "-c", f"{before}; {after}"], check=True)
    assert list(inspect.signature(vv.systems).parameters) == ["names"]
    assert list(inspect.signature(vv.attack).parameters)[:3] == ["data", "anon", "attackers"]
    with pytest.raises(vv.InputError, match="no attacker is named"):
        vv.attack("data", attackers=[])


def test_list_of_systems_prints_and_exports() -> None:
    systems = vv.systems()
    assert "veil" in [info.name for info in systems]
    assert str(systems).startswith("system")
    assert "| b2 |" in systems.to_markdown()
    assert systems.to_csv().splitlines()[0] == "name,summary,source,rate,parameters"
    assert r"\begin{tabular}" in systems.to_latex()
    assert "<table>" in systems._repr_html_()
    assert json.loads(systems.to_json())["systems"][0]["name"] == systems[0].name


def test_convert_draws_for_itself_or_from_a_key() -> None:
    wave, system = synthetic_voice(0, 1, seconds=0.5), vv.system("b2")
    first, second = system.convert(wave), system.convert(wave)
    assert first.rate == system.rate
    assert not np.array_equal(first.samples, second.samples)
    key = vv.Key.from_seed(3)
    assert np.array_equal(system.convert(wave, key=key).samples, system.convert(wave, key=key).samples)
    assert not np.array_equal(
        system.convert(wave, key=key).samples, system.convert(wave, key=vv.Key.from_seed(4)).samples
    )
    with pytest.raises(vv.InputError, match="both rng and key"):
        system.convert(wave, np.random.default_rng(0), key=key)


def test_an_array_is_refused_with_the_way_out(tmp_path: Path) -> None:
    array = np.zeros(1600, dtype=np.float32)
    for call in (
        lambda: vv.system("b2").convert(array),  # type: ignore[arg-type]
        lambda: vv.save(tmp_path / "a.wav", array),  # type: ignore[arg-type]
        lambda: vv.compare(array, array),  # type: ignore[arg-type]
    ):
        with pytest.raises(vv.InputError, match=r"numpy array of shape \(1600,\).*Waveform\(samples, rate\)"):
            call()
    with pytest.raises(vv.InputError, match=r"a Waveform is needed, not int.*voiceveil.load"):
        vv.system("b2").convert(3)  # type: ignore[arg-type]


def test_save_replaces_nothing_unless_told(tmp_path: Path) -> None:
    wave, path = synthetic_voice(0, 1, seconds=0.2), tmp_path / "a.wav"
    vv.save(path, wave)
    before = path.read_bytes()
    with pytest.raises(vv.InputError, match=r"this file exists.*overwrite=True"):
        vv.save(path, synthetic_voice(1, 1, seconds=0.2))
    assert path.read_bytes() == before
    vv.save(path, synthetic_voice(1, 1, seconds=0.2), overwrite=True)
    assert path.read_bytes() != before


def test_a_waveform_plays_in_a_notebook() -> None:
    html = synthetic_voice(0, 1, seconds=0.5)._repr_html_()
    assert html.startswith('<audio controls src="data:audio/wav;base64,UklGR')
    assert "0.50 s, 16000 Hz" in html
    assert "nothing to play" in vv.Waveform(np.zeros(0, np.float32), 16000)._repr_html_()


def test_compare_and_transcribe(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("moonshine_voice")
    wave = synthetic_voice(0, 1, seconds=1.0)
    same = vv.compare(wave, wave)
    assert same.similarity == pytest.approx(1.0, abs=1e-4)
    assert same.pitch_correlation == pytest.approx(1.0)
    hidden = vv.compare(wave, vv.system("b2").convert(wave, key=vv.Key.from_seed(1)))
    assert hidden.similarity is not None
    assert hidden.similarity < 0.99
    assert "Similarity" in str(hidden)
    short = vv.compare(vv.Waveform(wave.samples[:800], 16000), wave)
    assert short.quality is None
    assert any("at least" in note for note in short.notes)
    vv.save(tmp_path / "a.wav", wave)
    transcripts = vv.transcribe(tmp_path / "a.wav")
    assert list(transcripts) == ["a"]
    assert transcripts.text == vv.transcribe(wave).text


def test_results_are_saved_by_suffix_and_replace_nothing(tmp_path: Path) -> None:
    systems = vv.systems()
    for suffix in ("json", "csv", "md", "tex", "html"):
        path = systems.save(tmp_path / f"systems.{suffix}")
        assert "veil" in path.read_text(encoding="utf-8")
        with pytest.raises(vv.InputError, match="this file exists"):
            systems.save(path)
        systems.save(path, overwrite=True)
    with pytest.raises(vv.InputError, match=r"no format has the suffix '\.xls'"):
        systems.save(tmp_path / "systems.xls")


def test_cells_cannot_break_out_of_a_table() -> None:
    table = Table(("name",), (("a|b\n<b>\x1b[2J_&",),))
    assert str(table) == "name\na|b\\n<b>\\x1b[2J_&"
    assert table.to_markdown().splitlines()[2] == r"| a\|b\n<b>\x1b[2J_& |"
    assert r"\textbackslash{}n<b>" in table.to_latex()
    assert "&lt;b&gt;" in table.to_html()


def test_results_of_an_evaluation_print_and_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = (
        Figure(
            "eer", 0.331, "libri_test", 0.3, 0.36, gender="f", condition="aa", attacker="campplus", knowledge="ignorant"
        ),
        Figure("gvd", -4.0, "libri_test", gender="m", model="campplus"),
    )
    results = vv.Results("b2", "vpc2024", figures, {"notes": ["missing: vctk"]})
    assert str(results).splitlines() == [
        "metric  data          condition  value   95% interval  by",
        "eer     libri_test f  aa         33.1%   [30.0, 36.0]  campplus (ignorant)",
        "gvd     libri_test m             -4.000                campplus",
        "note: missing: vctk",
    ]
    assert "33.1\\%" in results.to_latex()
    assert "| eer | libri_test f | aa | 33.1% | [30.0, 36.0] | campplus (ignorant) |" in results.to_markdown()
    rows = list(csv.DictReader(results.to_csv().splitlines()))
    assert [(row["metric"], float(row["value"]), row["system"]) for row in rows] == [
        ("eer", 0.331, "b2"),
        ("gvd", -4.0, "b2"),
    ]
    assert vv.Results.load(results.save(tmp_path / "results.json")) == results
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(vv.InputError, match=r"pandas is not installed.*pip install"):
        results.to_frame()
