"""Many runs: plans, records, comparisons and reports."""
