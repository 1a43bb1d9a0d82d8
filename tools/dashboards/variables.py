"""Variables that several dashboards have."""

from __future__ import annotations

from tools.dashboards.model import Variable

SCRAPE_VARIABLES = (
    Variable("cluster", "Cluster", "pulsed_build_info", "cluster", True, "A label that Prometheus adds, if any."),
    Variable("job", "Job", 'pulsed_build_info{cluster=~"$cluster"}', "job", True, "Job of the scrape configuration."),
)
"""Choices of the labels that Prometheus adds."""

SCRAPED = 'cluster=~"$cluster",job=~"$job"'
"""Selector of what `SCRAPE_VARIABLES` choose."""


def chained_variables(*, several: bool) -> tuple[Variable, ...]:
    """Return the variables of a dashboard, each with the values that those before it leave.

    Args:
        several: whether any number of nodes and GPUs can be chosen, else one.
    """
    node = f'{SCRAPED},node=~"$node"'
    return (
        *SCRAPE_VARIABLES,
        Variable("node", "Node", f"pulsed_gpu_info{{{SCRAPED}}}", "node", several, "Host of the GPUs."),
        Variable("model", "Model", f"pulsed_gpu_info{{{node}}}", "model", True, "Product name."),
        Variable("gpu", "GPU", f'pulsed_gpu_info{{{node},model=~"$model"}}', "gpu", several, "Index on its node."),
    )
