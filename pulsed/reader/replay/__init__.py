"""The source `replay`: what a recording is, and its playback."""
