//! Training of small T5-shaped models on pairs of texts.
