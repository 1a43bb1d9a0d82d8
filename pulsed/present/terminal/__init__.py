"""What `pulsed top` shows, as lines of styled text: pure functions of a model, a view and a size.

Must not import any other layer, so that the view of a remote daemon starts without them.
"""
