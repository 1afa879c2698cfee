"""The theory at finite width: problem, kernel, action, saddle point, predictor, evidence."""

from statmech_attention.theory.descent.logistic import LogisticLabels
from statmech_attention.theory.descent.trust_region import Outcome
from statmech_attention.theory.descent.weighted import WeightedLabels
from statmech_attention.theory.evidence import log_evidence
from statmech_attention.theory.expansion import FirstOrder, FirstOrderPrediction, first_order
from statmech_attention.theory.functionals import action, energy, entropy, gp_order_parameters
from statmech_attention.theory.hyperparameters import EvidenceMaximum, maximise_evidence
from statmech_attention.theory.kernels.of_paths import head_scores
from statmech_attention.theory.kernels.of_tokens import bias_kernel
from statmech_attention.theory.kernels.projected import ProjectedInputs, Projection, projection
from statmech_attention.theory.kernels.regression import Prediction, Regression, accuracy
from statmech_attention.theory.kernels.similarity import kernel
from statmech_attention.theory.predictor import KernelRegression, kernel_regression
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.saddle_point import solve, solve_sweep
from statmech_attention.theory.search import minima
from statmech_attention.theory.solution import NotConverged, Solution
from statmech_attention.theory.trust import Criterion, criterion

__all__ = ["Criterion", "EvidenceMaximum", "FirstOrder", "FirstOrderPrediction", "KernelRegression", "LogisticLabels"]
__all__ += ["NotConverged", "Outcome", "Prediction", "Problem", "ProjectedInputs", "Projection", "Regression"]
__all__ += ["Solution", "WeightedLabels"]
__all__ += ["accuracy", "action", "bias_kernel", "criterion", "energy", "entropy", "first_order"]
__all__ += ["gp_order_parameters", "head_scores", "kernel"]
__all__ += ["kernel_regression", "log_evidence", "maximise_evidence", "minima", "projection", "solve"]
__all__ += ["solve_sweep"]
