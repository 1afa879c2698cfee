"""One order of arguments and one spelling over all public functions: the rules, and every name that may occur."""

import importlib
import inspect

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
    model multiple name names network networks noise norm normalised one options order order_parameter order_parameters
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


def test_names_are_of_one_vocabulary():
    known = {"labels", *PHYSICS, *RANDOM, *OPTIONS, *NAMES}
    unknown = {name: {one.name for one in arguments(name)} - known for name in FUNCTIONS}
    unknown = {name: names for name, names in unknown.items() if names}
    assert not unknown, "is there a name for these already? If not, enter them"


def test_no_name_is_kept_that_nothing_has():
    used = {one.name for name in FUNCTIONS for one in arguments(name)}
    assert {*PHYSICS, *RANDOM, *OPTIONS, *NAMES} <= used


def test_physics_keys_and_seeds_are_first_or_given_by_name():
    behind = {
        f"{name}({one.name})"
        for name in FUNCTIONS
        if not name.startswith("plotting.")  # where widths and temperatures are what is drawn
        for one in arguments(name)[1:]
        if one.kind is not one.KEYWORD_ONLY and one.name in (*PHYSICS, *RANDOM)
    }
    assert not behind


def test_data_labels_physics_key_options():
    for name in FUNCTIONS:
        names = [one.name for one in arguments(name)]
        named = [one.name for one in arguments(name) if one.kind is one.KEYWORD_ONLY]
        physics = [PHYSICS.index(one) for one in named if one in PHYSICS]
        assert physics == sorted(physics), name
        ranks = [place for one in named for place, group in enumerate((PHYSICS, RANDOM, OPTIONS)) if one in group]
        assert ranks == sorted(ranks), name
        if {"attentioned", "labels"} <= {*names}:
            assert names.index("labels") == names.index("attentioned") + 1, name
        for subject in {"order_parameter", "order_parameters"} & {*names}:
            assert "labels" not in names or names.index(subject) > names.index("labels"), name


def test_every_argument_is_annotated():
    bare = {name: [one.name for one in arguments(name) if one.annotation is one.empty] for name in FUNCTIONS}
    assert not {name: names for name, names in bare.items() if names and not overrides(name)}


def test_progress_is_a_bar_on_a_terminal_and_none_elsewhere():
    bars = {name: one for name in FUNCTIONS for one in arguments(name) if one.name == "progress"}
    assert len(bars) > 10
    for name, one in bars.items():
        assert (one.kind, one.default, one.annotation) == (one.KEYWORD_ONLY, None, bool | None), name
