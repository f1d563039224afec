"""Logistic regression: a path of regularisation strengths solved in one L-BFGS batch."""
