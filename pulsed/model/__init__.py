"""What all layers share: ticks, the identity of GPUs, their owners, and the vocabulary."""
