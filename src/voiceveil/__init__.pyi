from voiceveil.api.comparing import RecordingComparison, compare
from voiceveil.api.evaluating import evaluate
from voiceveil.api.recordings import save
from voiceveil.api.risk_assessment import Risk, RiskOptions, assess_risk
from voiceveil.api.transcripts import Transcripts, transcribe
from voiceveil.attack import AttackOptions, AttackResult, attack
from voiceveil.audio import Waveform, load
from voiceveil.core.errors import InputError
from voiceveil.core.version import __version__
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.settings import EvaluationOptions
from voiceveil.risk.curves import RiskPlan
from voiceveil.risk.verdicts import RiskLimits
from voiceveil.systems.batch import anonymize
from voiceveil.systems.contract import Anonymizer, system
from voiceveil.systems.keys import Key
from voiceveil.systems.listing import list_systems as systems

__all__ = [
    "Anonymizer",
    "AttackOptions",
    "AttackResult",
    "Corpus",
    "EvaluationOptions",
    "InputError",
    "Key",
    "RecordingComparison",
    "Results",
    "Risk",
    "RiskLimits",
    "RiskOptions",
    "RiskPlan",
    "Transcripts",
    "Waveform",
    "__version__",
    "anonymize",
    "assess_risk",
    "attack",
    "compare",
    "evaluate",
    "load",
    "open_corpus",
    "save",
    "system",
    "systems",
    "transcribe",
]
