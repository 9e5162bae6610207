"""Traffic that proves itself: patterns of accesses whose every byte is checked against what it must be."""
