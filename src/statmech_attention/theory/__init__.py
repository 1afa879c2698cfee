"""The theory, equations (9) to (12) and (30): kernel -> action -> saddle point -> predictor."""
