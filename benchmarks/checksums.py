"""The numbers that each benchmark computes beside its times, for `make verify`."""

from attention_book import results
from attention_book.experiments.experiment import Recheck, difference
from benchmarks import dmft, killed, problems, robustness, sampling

CHECKSUMS = {
    "benchmark of the minimisers": problems.checksum,
    "benchmark of the first calls": problems.checksum,
    "benchmark of the dynamics": dmft.checksum,
    "benchmark of the samplers": sampling.checksum,
    robustness.MAKER: robustness.checksum,
    killed.MAKER: killed.checksum,
}


def again(path) -> Recheck:
    """Compute the numbers of a recorded benchmark again; its times are not looked at."""
    compute = CHECKSUMS[results.record(path)["maker"]]
    apart = difference(compute().ravel(), results.load(path).attrs["checksum"])
    return Recheck(compute.__doc__.split(";")[0].split(".")[0].lower(), apart, 1e-6)
