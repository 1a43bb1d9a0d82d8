"""Recording and alerting rules, which compute pulsed's results from plain `DCGM_FI_*` series.

Everything is generated from the tables of Compute and Translate, so that both have the same results.
"""
