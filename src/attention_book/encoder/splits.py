"""How many test sentences the splits of a task have in common."""

# The correlation of two splits in `Interval.of`: the mean share of common test sentences, over pairs of the first five
# splits. It takes all scatter as that of test sentences; training sets, of which less is common, add to it.
SHARED = {
    "kept": {"description-entity": 0.41, "entity-human": 0.40, "reviews": 0.10, "spam": 0.24},  # 1000 test sentences
    "new classifier": {"description-entity": 0.08, "entity-human": 0.08, "reviews": 0.02},  # the first 200 of these
    "chain": {"description-entity": 0.0, "entity-human": 0.0, "reviews": 0.11, "spam": 0.06},  # short; two disjoint
    "width": {"description-entity": 0.10},  # the first 250 short ones
}
