"""The PromQL face: recording and alerting rules that compute pulsed's answers from plain `DCGM_FI_*` series.

Everything is generated from the tables that Compute and Translate use, so that both say the same of the same readings.
"""
