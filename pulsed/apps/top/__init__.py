"""`pulsed top`: the GPUs of one or several daemons in a terminal."""
