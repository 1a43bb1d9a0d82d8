"""Programs that read a daemon over HTTP or run the layers themselves: a module or folder each. Imports no daemon."""
