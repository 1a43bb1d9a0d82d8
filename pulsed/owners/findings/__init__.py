"""What goes wrong with the work of an owner: hangs, stragglers and other findings. No I/O."""
