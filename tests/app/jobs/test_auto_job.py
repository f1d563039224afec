"""A job whose settings preset auto chooses."""

import pytest
from queued_jobs import is_in, records_of, wait_for

from frostbench.app.jobs import read, submit
from frostbench.benchmarks.settings.parsing import preset


@pytest.mark.slow
def test_a_job_trains_what_auto_chooses_and_states_it(store, cache):
    bench = {
        "name": "page",
        "caches": [str(cache)],
        "preset": "auto",
        "base": {"head.classifier.kind": "lda"},
        "seeds": [0],
    }
    done = wait_for(store, submit(store, "A", bench), is_in("done"))
    assert set(done.chosen) == {"name", "preset", "base", "reason"}
    assert preset(done.chosen["preset"])
    assert "cross-validation" in done.chosen["reason"]
    record = records_of(store, done)[0]
    assert record.full_spec["head"]["classifier"]["kind"] == "lda"
    assert list((store / "choices").glob("*.json"))
    assert read(store, done.id).chosen == done.chosen
