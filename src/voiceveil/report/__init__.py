"""Reports: figures and pages that show what an evaluation found."""
