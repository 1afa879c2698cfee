"""Speed and memory of the saddle point beside the usual minimisers. Run it with `python -m benchmarks`.

`plan` says what is measured, `problems` makes the problems, `minimisers` holds ours and the others, `worker` measures one
case in a process of its own, `table` keeps the results.
"""
