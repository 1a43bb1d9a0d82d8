"""Pages of metrics in the forms of vLLM, SGLang, TGI and Triton with TensorRT-LLM, whose counters grow with time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKENS_PER_SECOND = 1000.0
CACHE, QUEUE = 0.75, 3

_PAGES = {
    "vllm": """\
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="llama"}} {tokens}
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0",model_name="llama"}} {cache}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="llama"}} {queue}
""",
    "sglang": """\
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{{model_name="llama",tp_rank="0"}} {tokens}
# TYPE sglang:token_usage gauge
sglang:token_usage{{model_name="llama",tp_rank="0"}} {cache}
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{{model_name="llama",tp_rank="0"}} {queue}
""",
    "tgi": """\
# TYPE tgi_request_generated_tokens histogram
tgi_request_generated_tokens_bucket{{le="+Inf"}} 7
tgi_request_generated_tokens_sum {tokens}
tgi_request_generated_tokens_count 7
# TYPE tgi_queue_size gauge
tgi_queue_size {queue}
""",
    "triton": """\
# TYPE nv_llm_output_token_len histogram
nv_llm_output_token_len_bucket{{model="m",response_metric_type="total_output_tokens",version="1",le="+Inf"}} 7
nv_llm_output_token_len_sum{{model="m",response_metric_type="total_output_tokens",version="1"}} {tokens}
nv_llm_output_token_len_count{{model="m",response_metric_type="total_output_tokens",version="1"}} 7
# TYPE nv_trt_llm_kv_cache_block_metrics gauge
nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="fraction",model="m",version="1"}} {cache}
nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="max",model="m",version="1"}} 800
# TYPE nv_trt_llm_request_metrics gauge
nv_trt_llm_request_metrics{{model="m",request_type="waiting",version="1"}} {queue}
nv_trt_llm_request_metrics{{model="m",request_type="active",version="1"}} 9
""",
}

SERVERS = tuple(_PAGES)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = (
            _PAGES[self.path.strip("/")]
            .format(tokens=TOKENS_PER_SECOND * time.monotonic(), cache=CACHE, queue=QUEUE)
            .encode()
        )
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def inference_servers() -> Iterator[str]:
    """Serve the page of each server below its name; give the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def scrape_config(address: str, pods: dict[str, str]) -> str:
    """Return the jobs that scrape servers, each with the pod that it runs in, of the namespace `demo`."""
    return "".join(
        f"""\
  - job_name: {name}
    metrics_path: /{name}
    static_configs: [{{targets: ["{address}"], labels: {{namespace: demo, pod: {pod}}}}}]
"""
        for name, pod in pods.items()
    )
