"""Somebody's calls of every public function, for type checkers alone: `make lint` checks them, nobody runs them.

Every call stands twice. The first is right and must be accepted. The second, under "misspelled", has one wrong name. It
must be refused: a checker that does not see the mistake finds the `type: ignore` beside it unused, and says so.
"""

# pyright: basic, reportUnnecessaryTypeIgnoreComment=true

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from statmech_attention import dmft, model, plotting, pruning, sampling, theory, training

sma.enable_x64()
key = jax.random.key(0)
task = sma.tasks.HiddenMarkov(length=5)
drawn, trial, products = task.sample(3, key=key), task.trial(100, 500, key=key, readout="last"), task.heads(key=key)
first, second = task.step_head(0), task.random_head(key=key)
attention = sma.attention_from_products(products, bias=None)
softmax = sma.attention_from_queries_and_keys(list(products), list(products), bias=None)
inputs = sma.attentioned_inputs(drawn.inputs, attention, readout="mean")
read = sma.attention_from_torch(None, drawn.inputs, layers=[])
other = sma.attention_from_transformers(None, layers=[], batch_size=8)
left = sma.reading.read_residuals(None, layers=[])
told = sma.report(None, dict, ["a text"], ["a class"], readout="first")
silence = sma.reading.only_heads(None, [0, 1])
ours = sma.reading.own_slopes(None, drawn.inputs, drawn.labels, removal=True)
layers = (2, sma.SkipHeads(2, values=3), sma.Gated(5, values=None), sma.Linear(), sma.Outputs(3))
weights = sma.sample_weights(key=key, layers=layers, width=4, features=5)
outputs = sma.forward(weights, drawn.inputs, attention, readout="last")

problem = sma.Problem(trial.train, trial.labels, width=30, temperature=0.1)
half = 0.5 * problem.temperature + problem.examples + sum(problem.width)
solution = sma.solve(problem, tolerance=1e-8)
sweep = sma.solve_sweep(problem, widths=[3, 30], temperatures=[0.1])
lowest = sma.minima(problem, tolerance=1e-8)[0]
trusted = sma.criterion(solution, test=trial.test).r
best = sma.maximise_evidence(problem, chosen=["temperature"])
evidence = sma.log_evidence(best.solution, corrected=True)
wide = sma.first_order(problem, probes=30).predict(trial.test).at(30.0).mean
prediction = solution.predict(trial.test)
right = sma.accuracy(prediction.mean, trial.test_labels)
scores = sma.head_scores(solution.order_parameter, layers=(2, 2), definition="both")
gram = sma.kernel(trial.train, trial.test, np.eye(4))
regression = sma.kernel_regression(problem, np.eye(4)).predict(trial.test)
sma.save(solution, "solution.nc")
again = sma.load("solution.nc")
regressor = sma.AttentionPathsRegressor((2, 2), width=10.0).fit(trial.train.values, trial.labels)
classifier = sma.AttentionPathsClassifier((2, 2), width=10.0).fit(trial.train.values, trial.labels)

limit = theory.gp_order_parameters(layers=(2, 2), variance=1.0)
numbers = theory.action(problem, limit), theory.energy(problem, limit[0]), theory.entropy(limit, layers=(2, 2))
seen = model.forward_paths(weights, inputs), model.effective_weights(weights, layers=layers)
matrices = model.attention_matrices(drawn.inputs, attention, layout="key_query")
norms = model.normalisation_scales(weights, drawn.inputs, attention, layers=layers)
table = model.relative_bias(jnp.zeros((2, 9)), tokens=5)
overlaps = model.weights_order_parameters(weights, layers=layers)
places = model.path_indices(layers=layers)

rows = sma.token_inputs(drawn.inputs, attention, readout="mean")
tokens = sma.Problem(rows, drawn.labels, width=30, temperature=0.1)
alone = sma.solve(tokens, directions=64, settle=0.05, start=sma.solve(tokens))
slopes, grams, left_out = alone.slopes(), alone.gram(1), alone.left_out()
of_attention = alone.attention_slopes()
direct, by_head = sma.kernel(rows, rows, variance=1.0), pruning.head_kernels(rows, rows, variance=1.0)
projected = sma.projection(rows, 8, variance=1.0)
few: sma.ProjectedInputs = projected(rows, single=True)
worth = pruning.kernel_worth(direct, by_head, drawn.labels, temperature=0.1)
by_block = pruning.block_kernels(rows, rows, variance=1.0)
of_units = pruning.unit_slopes(rows, drawn.labels, variance=1.0)
blocks_kept = pruning.select_blocks(sma.Problem(rows, drawn.labels), keep=1, folds=4, seed=0)
constants = theory.bias_kernel(rows, rows, variance=1.0)

settings = sma.SamplerSettings(draws=1000, chains=4)
draws = sma.posterior(problem, key=key, test=trial.test, settings=settings)
tempered = sampling.tempered_posterior(problem, key=key, rungs=8)
weighed = sampling.weights_posterior(problem, key=key, keep_weights=True)
learned = sampling.attention_posterior(lambda theta: problem, {"q": jnp.zeros(3)}, log_prior=lambda theta: 0.0, key=key)
modes = sampling.importance(problem, key=key, points=1000)
better = sampling.corrected(solution, test=trial.test).prediction
vectors, mean = sampling.predictors(problem, draws), sampling.prediction(draws)
ratio, size = sampling.r_hat(draws["order_parameter"]), sampling.effective_size(draws["order_parameter"])
error = sampling.estimate(draws["order_parameter"]).error

found = training.learn_attention(lambda theta, data: problem, {"q": jnp.zeros(3)}, steps=10)
order, heads = pruning.removal_order(scores, layers=(2, 2)), pruning.head_indices(layers=(2, 2))
chosen = sma.select_heads(problem, keep=1, folds=4)
smaller = sma.keep_heads(trial.train, pruning.kept_heads([0], layers=(2, 2)))
lost, without = pruning.head_worth(solution, removal=True), pruning.without_head(trial.train, 0)
features = pruning.fitted_features(trial.train, components=3)
plotting.use_style()
plotting.against_width([3, 30], np.zeros((2, 5)), label="theory")
plotting.order_parameter(np.eye(4), layers=(2, 2), annotate=True)
name, mean_error = plotting.path_name((0, 1)), plotting.mean_and_error(np.zeros((2, 5)))

patterns = dmft.published_patterns(seed=0, sites=20)
dynamics = dmft.dynamics(patterns, beta=1.27, gamma=220.0, epsilon=0.02)
window = dmft.advance(dynamics, dmft.initial_window(dynamics), steps=10)
window, one_step = dmft.step(dynamics, window)
path = dmft.trajectory(dynamics, window, steps=10, last=True)
matrix, spectrum = dmft.jacobian(dynamics, window), dmft.lyapunov_spectrum(dynamics, window, steps=10, count=2)
kinds, turn = dmft.regimes(spectrum, threshold=0.01), dmft.period(dynamics, window, longest=10)
begins, correlations = dmft.onset(patterns), dmft.pair_correlations(patterns.query, patterns.key)
network = dmft.simulate(dynamics, key=key, steps=10, copies=2)
code = dmft.positional_code(4)
said = dmft.window_from_words(dynamics, np.ones((4, 3)), slot=0)
attended = dmft.window_from_attention(dynamics, np.ones((4, 3)), slot=0)
pair = np.ones((3, 20)), code
own = dmft.patterns_from_arrays(query=pair, key=pair, value=pair, output=pair)

# Misspelled.
sma.enable_x46()  # type: ignore[attr-defined]
sma.tasks.HiddenMarkov(lenght=5)  # type: ignore[call-arg]
task.sample(3, kye=key)  # type: ignore[call-arg]
task.trial(100, 500, key=key, readuot="last")  # type: ignore[call-arg]
task.heads(keys=key)  # type: ignore[call-arg]
task.random_head(keys=key)  # type: ignore[call-arg]
task.step_head(stpe=0)  # type: ignore[call-arg]
sma.attention_from_products(products, bais=None)  # type: ignore[call-arg]
sma.attention_from_queries_and_keys(list(products), list(products), bais=None)  # type: ignore[call-arg]
sma.attentioned_inputs(drawn.inputs, attention, readuot="mean")  # type: ignore[call-arg]
sma.attention_from_torch(None, input=drawn.inputs)  # type: ignore[call-arg]
sma.attention_from_transformers(modle=None)  # type: ignore[call-arg]
sma.reading.read_residuals(modle=None)  # type: ignore[call-arg]
sma.report(None, tokenizer=dict)  # type: ignore[call-arg]
sma.reading.only_heads(modle=None, kept=[0])  # type: ignore[call-arg]
sma.reading.own_slopes(None, drawn.inputs, lables=drawn.labels)  # type: ignore[call-arg]
sma.sample_weights(key=key, layer=layers, width=4, features=5)  # type: ignore[call-arg]
sma.forward(weights, drawn.inputs, attention, readuot="last")  # type: ignore[call-arg]
sma.Heads(2, value=3)  # type: ignore[call-arg]
sma.SkipHeads(2, value=3)  # type: ignore[call-arg]
sma.Outputs(cuont=3)  # type: ignore[call-arg]
sma.Problem(trial.train, trial.labels, widht=30)  # type: ignore[call-arg]
problem.replace(width=30).temprature  # type: ignore[attr-defined]
sma.solve(problem, tolerence=1e-8)  # type: ignore[call-arg]
sma.solve_sweep(problem, width=[3, 30], temperatures=[0.1])  # type: ignore[call-arg]
sma.minima(problem, tolerence=1e-8)  # type: ignore[call-arg]
sma.criterion(solution, tests=trial.test)  # type: ignore[call-arg]
sma.maximise_evidence(problem, choosen=["temperature"])  # type: ignore[call-arg]
best.temprature  # type: ignore[attr-defined]
sma.log_evidence(solution, correct=True)  # type: ignore[call-arg]
sma.first_order(problem, probe=30)  # type: ignore[call-arg]
solution.predict(tset=trial.test)  # type: ignore[call-arg]
solution.order_paramter  # type: ignore[attr-defined]
sma.accuracy(prediction.mean, label=trial.test_labels)  # type: ignore[call-arg]
sma.head_scores(solution.order_parameter, layer=(2, 2))  # type: ignore[call-arg]
sma.kernel(trial.train, other=trial.test, order_parameter=np.eye(4))  # type: ignore[call-arg]
sma.kernel_regression(problem, order_paramter=np.eye(4))  # type: ignore[call-arg]
sma.save(solution, paht="solution.nc")  # type: ignore[call-arg]
sma.load(paht="solution.nc")  # type: ignore[call-arg]
sma.AttentionPathsRegressor((2, 2), widht=10.0)  # type: ignore[call-arg]
classifier.predict(x=trial.test.values)  # type: ignore[call-arg]
sma.AttentionPathsClassifier((2, 2), widht=10.0)  # type: ignore[call-arg]
theory.gp_order_parameters(layer=(2, 2))  # type: ignore[call-arg]
theory.action(problem, order_parameter=limit)  # type: ignore[call-arg]
theory.energy(problem, order_parameters=limit[0])  # type: ignore[call-arg]
theory.entropy(limit, layer=(2, 2))  # type: ignore[call-arg]
model.forward_paths(weights, input=inputs)  # type: ignore[call-arg]
model.effective_weights(weights, layer=layers)  # type: ignore[call-arg]
model.attention_matrices(drawn.inputs, attention, layuot="key_query")  # type: ignore[call-arg]
model.normalisation_scales(weights, drawn.inputs, attention, layer=layers)  # type: ignore[call-arg]
model.relative_bias(jnp.zeros((2, 9)), token=5)  # type: ignore[call-arg]
model.weights_order_parameters(weights, layer=layers)  # type: ignore[call-arg]
model.path_indices(layer=layers)  # type: ignore[call-arg]
sma.SamplerSettings(draw=1000)  # type: ignore[call-arg]
sma.posterior(problem, kye=key)  # type: ignore[call-arg]
sampling.tempered_posterior(problem, key=key, rung=8)  # type: ignore[call-arg]
sampling.weights_posterior(problem, key=key, keep_weight=True)  # type: ignore[call-arg]
sampling.attention_posterior(lambda theta: problem, {"q": jnp.zeros(3)}, prior=None, key=key)  # type: ignore[call-arg]
sampling.importance(problem, key=key, point=1000)  # type: ignore[call-arg]
sampling.corrected(solution, tset=trial.test)  # type: ignore[call-arg]
sampling.predictors(problem, draw=draws)  # type: ignore[call-arg]
sampling.prediction(draw=draws)  # type: ignore[call-arg]
sampling.r_hat(draw=draws)  # type: ignore[call-arg]
sampling.effective_size(draw=draws)  # type: ignore[call-arg]
sampling.estimate(draw=draws)  # type: ignore[call-arg]
training.learn_attention(lambda theta, data: problem, {"q": jnp.zeros(3)}, step=10)  # type: ignore[call-arg]
pruning.removal_order(scores, layer=(2, 2))  # type: ignore[call-arg]
pruning.head_indices(layer=(2, 2))  # type: ignore[call-arg]
pruning.kept_heads([0], layer=(2, 2))  # type: ignore[call-arg]
pruning.head_worth(solution, remove=True)  # type: ignore[call-arg]
pruning.without_head(trial.train, haed=0)  # type: ignore[call-arg]
pruning.fitted_features(trial.train, component=3)  # type: ignore[call-arg]
sma.select_heads(problem, kept=1)  # type: ignore[call-arg]
sma.keep_heads(trial.train, keep=[0])  # type: ignore[call-arg]
plotting.use_styles()  # type: ignore[attr-defined]
plotting.against_width([3, 30], np.zeros((2, 5)), lable="theory")  # type: ignore[call-arg]
plotting.order_parameter(np.eye(4), layer=(2, 2))  # type: ignore[call-arg]
plotting.path_name(paht=(0, 1))  # type: ignore[call-arg]
plotting.mean_and_error(value=np.zeros((2, 5)))  # type: ignore[call-arg]
dmft.published_patterns(site=20)  # type: ignore[call-arg]
dmft.dynamics(patterns, betta=1.27, gamma=220.0, epsilon=0.02)  # type: ignore[call-arg]
dmft.initial_window(modle=dynamics)  # type: ignore[call-arg]
dmft.advance(dynamics, window, step=10)  # type: ignore[call-arg]
dmft.step(dynamics, windwo=window)  # type: ignore[call-arg]
dmft.trajectory(dynamics, window, step=10)  # type: ignore[call-arg]
dmft.jacobian(dynamics, windwo=window)  # type: ignore[call-arg]
dmft.lyapunov_spectrum(dynamics, window, steps=10, counts=2)  # type: ignore[call-arg]
dmft.regimes(spectrum, treshold=0.01)  # type: ignore[call-arg]
dmft.period(dynamics, window, longst=10)  # type: ignore[call-arg]
dmft.onset(pattern=patterns)  # type: ignore[call-arg]
dmft.pair_correlations(patterns.query, others=patterns.key)  # type: ignore[call-arg]
dmft.simulate(dynamics, key=key, steps=10, copy=2)  # type: ignore[call-arg]
dmft.positional_code(windwo=4)  # type: ignore[call-arg]
dmft.window_from_words(dynamics, np.ones((4, 3)), slots=0)  # type: ignore[call-arg]
dmft.window_from_attention(dynamics, np.ones((4, 3)), slots=0)  # type: ignore[call-arg]
dmft.patterns_from_arrays(queries=pair, key=pair, value=pair, output=pair)  # type: ignore[call-arg]
sma.no_such_thing  # type: ignore[attr-defined]
sma.token_inputs(drawn.inputs, attention, readuot="mean")  # type: ignore[call-arg]
sma.projection(rows, component=8)  # type: ignore[call-arg]
sma.solve(tokens, direction=8)  # type: ignore[call-arg]
alone.gram(levle=1)  # type: ignore[call-arg]
sma.kernel(rows, rows, varaince=1.0)  # type: ignore[call-arg]
pruning.head_kernels(rows, rows, varaince=1.0)  # type: ignore[call-arg]
pruning.block_kernels(rows, rows, varaince=1.0)  # type: ignore[call-arg]
pruning.unit_slopes(rows, drawn.labels, varaince=1.0)  # type: ignore[call-arg]
pruning.select_blocks(tokens, kept=1)  # type: ignore[call-arg]
theory.bias_kernel(rows, rows, varaince=1.0)  # type: ignore[call-arg]
pruning.kernel_worth(direct, by_head, drawn.labels, temprature=0.1)  # type: ignore[call-arg]
