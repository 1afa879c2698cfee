"""The theory at finite width: problem, kernel, action, saddle point, predictor, evidence."""

from statmech_attention.theory.action import action, energy, entropy, gp_order_parameters
from statmech_attention.theory.evidence import log_evidence
from statmech_attention.theory.first_order import FirstOrder, FirstOrderPrediction, first_order
from statmech_attention.theory.hyperparameters import EvidenceMaximum, maximise_evidence
from statmech_attention.theory.infinite_width import kernel_without_paths
from statmech_attention.theory.kernels import head_scores, kernel
from statmech_attention.theory.minima import minima
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.regression import KernelRegression, Prediction, Regression, accuracy, kernel_regression
from statmech_attention.theory.saddle_point import solve, solve_sweep
from statmech_attention.theory.solution import NotConverged, Solution
from statmech_attention.theory.token_hyperparameters import maximise_evidence_without_paths
from statmech_attention.theory.trust_region import Outcome
from statmech_attention.theory.without_paths import NotSettled, TokenSolution, solve_without_paths, sweep_without_paths

__all__ = [
    "EvidenceMaximum",
    "FirstOrder",
    "FirstOrderPrediction",
    "KernelRegression",
    "NotConverged",
    "NotSettled",
    "Outcome",
    "Prediction",
    "Problem",
    "Regression",
    "Solution",
    "TokenSolution",
]
__all__ += ["accuracy", "action", "energy", "entropy", "first_order", "gp_order_parameters", "head_scores", "kernel"]
__all__ += ["kernel_regression", "log_evidence", "maximise_evidence", "minima", "solve", "solve_sweep"]
__all__ += ["kernel_without_paths", "solve_without_paths"]
__all__ += ["maximise_evidence_without_paths", "sweep_without_paths"]
