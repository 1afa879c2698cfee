"""One order of arguments and one spelling over all public functions: the rules, and every name that may occur."""

import importlib
import inspect

import pytest

from statmech_attention.experiments import Experiment

ROOMS = ("layers", "dmft", "pruning", "results", "sampling", "tasks", "training", "plotting", "notebooks.runs")

# Data come first, labels behind the inputs that they belong to; then, by name alone and in this order, these.
PHYSICS = ("width", "widths", "temperature", "temperatures", "variance", "heads")
RANDOM = ("key", "seed")
OPTIONS = (
    "draws",
    "chains",
    "warmup",
    "thinning",
    "chain_method",
    "points",
    "rungs",
    "steps",
    "max_steps",
    "tolerance",
)
OPTIONS += ("attentioned_test", "start", "keep_weights", "checkpoint", "throw", "progress", "warn", "resamples")
# All other names, data and options. One name a thing: a test is `attentioned_test`, a seed `seed`, a bar `progress`.
NAMES = """
    alpha annotate answer asked attention attentioned average axes axis band batch best_step beta bias biases bins
    blocks chain_method chance chapter chosen classes coefficients colour colours columns confidence_level
    contributions copies count covariance curve curves dataset decades definition description deviation dimension
    directions discard distances drawings drops embeddings encoder epochs epsilon errors examples experiment features
    filled first folder folds frames frequencies frozen gamma greedy hann head head_gates hidden images inputs joint
    keep keep_weights keep_words kept kernel keys kind knobs label lags last layer layers layout learning_rate legend
    length levels limit limits longest made_of maker mark mask matrix mean means measure measured measured_at method
    model name names network networks noise norm normalised one options order order_parameter order_parameters
    other other_path others output outputs overlaps overwrite packed pairs parameter parameters patch path paths
    patterns period picture places points portraits positions power powers predicted probability products queries
    query random readout record regime regimes removed replicas resamples revision root rows rungs saddle_point scales
    scores second sections seen segments sequences series shapes shown signed sites skips slope slopes slot solution
    spectrum split standard_errors step steps stop_after style suite symbol table task temperature_range
    test_examples texts thickness threshold times title titles tokens tokens_test transient turns validate_every
    value values values_only variance_range visited vocabulary wall_seconds weight_decay weights width_in width_out
    window within words xlabel
""".split()  # noqa: SIM905


def public_functions():
    """By name the function and whether its first argument is the object, of all that the public lists name."""
    found = {}
    for room in ["", *ROOMS]:
        module = importlib.import_module(f"statmech_attention.{room}".rstrip("."))
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                found[f"{room}.{name}".strip(".")] = thing, False
            elif inspect.isclass(thing) and thing.__module__.startswith("statmech_attention"):
                for own, member in vars(thing).items():
                    function = getattr(member, "__func__", member)
                    if inspect.isfunction(function) and (own == "__call__" or not own.startswith("_")):
                        found[f"{room}.{name}.{own}".strip(".")] = function, not isinstance(member, staticmethod)
    experiments = importlib.import_module("statmech_attention.experiments")
    functions = {name: getattr(experiments, name) for name in experiments.__all__}
    found |= {f"experiments.{name}": (one, False) for name, one in functions.items() if inspect.isfunction(one)}
    return found | {"experiments.Experiment.run": (Experiment.run, True)}


FUNCTIONS = public_functions()


def arguments(name: str) -> list[inspect.Parameter]:
    """Those of a function, without the object of a method."""
    function, bound = FUNCTIONS[name]
    return list(inspect.signature(inspect.unwrap(function)).parameters.values())[bound:]


def overrides(name: str) -> bool:
    """Whether a class above has a method of this name, and with it the annotations."""
    holder, _, own = name.rpartition(".")
    room, _, kind = holder.rpartition(".")
    above = getattr(importlib.import_module(f"statmech_attention.{room}".rstrip(".")), kind, object)
    return inspect.isclass(above) and any(own in vars(one) for one in above.__mro__[1:])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_names_are_of_one_vocabulary(name):
    unknown = {one.name for one in arguments(name)} - {"labels", *PHYSICS, *RANDOM, *OPTIONS, *NAMES}
    assert not unknown, "is there a name for this already? If not, enter it"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_data_labels_physics_key_options(name):
    found = arguments(name)
    if not name.startswith("plotting."):  # where widths and temperatures are what is drawn
        behind = [one.name for one in found[1:] if one.kind is not one.KEYWORD_ONLY]
        assert not {*behind} & {*PHYSICS, *RANDOM}, "first, where it is what the function is about, or by name"
    named = [one.name for one in found if one.kind is one.KEYWORD_ONLY]
    groups = (PHYSICS, RANDOM, OPTIONS)
    ranks = [place for one in named for place, group in enumerate(groups) if one in group]
    assert ranks == sorted(ranks)
    physics = [PHYSICS.index(one) for one in named if one in PHYSICS]
    assert physics == sorted(physics)
    names = [one.name for one in found]
    if {"attentioned", "labels"} <= {*names}:
        assert names.index("labels") == names.index("attentioned") + 1
    for subject in ("order_parameter", "order_parameters"):
        assert subject not in names or "labels" not in names or names.index(subject) > names.index("labels")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_is_annotated(name):
    bare = [one.name for one in arguments(name) if one.annotation is one.empty]
    assert not bare or overrides(name)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "progress" in [one.name for one in arguments(name)]])
def test_progress_is_a_bar_on_a_terminal_and_none_elsewhere(name):
    (progress,) = (one for one in arguments(name) if one.name == "progress")
    assert progress.kind is progress.KEYWORD_ONLY
    assert progress.default is None and progress.annotation == bool | None


def test_no_name_is_kept_that_nothing_has():
    used = {one.name for name in FUNCTIONS for one in arguments(name)}
    assert {*PHYSICS, *RANDOM, *OPTIONS, *NAMES} <= used
