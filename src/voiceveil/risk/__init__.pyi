from .assessment import Assessment, RiskLimits, assess
from .curves import RiskPlan
from .embeddings import EmbeddingTable, read_table
from .sets import AttackPart, RiskAttack, attack_from_tables, read_split

__all__ = [
    "Assessment",
    "AttackPart",
    "EmbeddingTable",
    "RiskAttack",
    "RiskLimits",
    "RiskPlan",
    "assess",
    "attack_from_tables",
    "read_split",
    "read_table",
]
