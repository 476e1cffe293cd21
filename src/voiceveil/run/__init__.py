"""Long work: a ledger to resume from, an executor, progress."""
