"""Logistic regression, with many regularisation strengths solved in one L-BFGS batch."""
