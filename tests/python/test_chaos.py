"""A minute of faults under load; for longer: `make chaos SECONDS=600 SEED=7`."""

from __future__ import annotations

import os
import random

import pytest
from support.chaos import Chaos
from support.stage import Stage

SECONDS = float(os.environ.get("CHAOS_SECONDS") or 60)


@pytest.mark.timeout(SECONDS + 240)
def test_the_books_balance_after_chaos(stage: Stage) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"chaos: seed {seed}, {SECONDS:.0f} s")
    chaos = Chaos(stage, seed)
    chaos.run(SECONDS)
    print(f"chaos: seed {seed}: {chaos.summary()}")
