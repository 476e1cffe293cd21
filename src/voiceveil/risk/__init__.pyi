from .assessment import Assessment, assess
from .curves import RiskPlan
from .embeddings import EmbeddingTable, read_table
from .sets import AttackPart, RiskAttack, attack_from_tables, read_split
from .verdicts import LimitVerdict, RiskLimits

__all__ = [
    "Assessment",
    "AttackPart",
    "EmbeddingTable",
    "LimitVerdict",
    "RiskAttack",
    "RiskLimits",
    "RiskPlan",
    "assess",
    "attack_from_tables",
    "read_split",
    "read_table",
]
