"""The source `demo`: one simulated node whose eight GPUs do recognisable things."""
