"""A real spaCy pipeline that finds a few names, for tests: no trained one can be installed from a package index."""

from __future__ import annotations

from pathlib import Path

NAMES = {"PERSON": ("Harry Towne", "Alexander", "Quilter", "Fred"), "GPE": ("Tokyo", "India")}


def write_pipeline(folder: Path) -> Path:
    """Write a pipeline with an entity ruler to ``folder``."""
    import spacy

    pipeline = spacy.blank("en")
    ruler = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": label, "pattern": name} for label, names in NAMES.items() for name in names])  # type: ignore[attr-defined]
    pipeline.to_disk(folder)
    return folder


def write_pipeline_package(site: Path, name: str = "en_core_web_sm") -> Path:
    """Write the pipeline as an installed package has it; its code fails if it is run."""
    package = site / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('the code of a pipeline was run')\n")
    return write_pipeline(package / f"{name}-3.8.0")
