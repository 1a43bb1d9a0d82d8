"""A stand-in for `dcgmi`: prints, fails and dies as DCGM's command line does, without a GPU.

    program = install(folder, Scenario(version="4.4.1", gpus=hopper(8)))

puts an executable `dcgmi` into `folder`. `Standin` (in `install`) also steers it while it runs and tells how often it
was started. Layouts and error texts come from `tests.support.dmon_writer`, the rest from public sources (2.1 to 4.6).
"""
