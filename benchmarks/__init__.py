"""Speed and memory of the package, random problems and kills; each module is a command, as in `python -m benchmarks.dmft`."""
